"""Writes what is known of a run as Prometheus reads it: text format 0.0.4.

Takes what was seen, gives text; which metrics there are, `metric_families` says.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.ui.history import Seen
from headrace.ui.metric_families import FAMILIES, Sample, samples_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(seen: Seen) -> str:
    """Write all metrics."""
    samples = samples_of(seen)
    return "".join(family_text(*family, samples.get(family.name, ())) for family in FAMILIES)


def family_text(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    r"""Write one metric with its help, type and samples; nothing if there are no samples.

    >>> print(family_text("a_total", "counter", "Of x.", [({"step": 'say "hi"'}, 2)]), end="")
    # HELP a_total Of x.
    # TYPE a_total counter
    a_total{step="say \"hi\""} 2
    """
    lines = []
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{inside}}} {_number(value)}\n")
    if not lines:
        return ""
    help_text = words.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n{''.join(lines)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
