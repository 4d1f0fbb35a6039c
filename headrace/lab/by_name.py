"""Writes the spec of one experiment from its name and a few words, for a run without a file.

Takes words as they stand on the command line, gives the text of a spec: what is kept of the run is
then the same as if a file had said it. Checks nothing; who reads the spec does.
"""

from __future__ import annotations

from collections.abc import Sequence


def spec_text(experiment: str, systems: Sequence[str], settings: Sequence[str]) -> str:
    """Write the spec of an experiment; without a rate of its own it brings the search of one along.

    Args:
        experiment: its name.
        systems: each as NAME or NAME,setting=value,...
        settings: of the experiment, each as setting=value.

    >>> print(spec_text("latency", ["fake,capacity=5000"], ["rate=100", "seconds=5"]), end="")
    name = "latency"
    [systems.fake]
    capacity = 5000
    [latency]
    rate = 100
    seconds = 5
    """
    lines = [f'name = "{experiment}"']
    for system in systems:
        name, *own = system.split(",")
        lines += [f"[systems.{name}]", *map(_line, own)]
    rated = any(setting.partition("=")[0].strip() == "rate" for setting in settings)
    if experiment != "sustainable" and not rated:
        lines.append("[sustainable]")
    return "\n".join([*lines, f"[{experiment}]", *map(_line, settings)]) + "\n"


def _line(setting: str) -> str:
    name, _, value = setting.partition("=")
    return f"{name.strip()} = {value.strip()}"
