"""Makes the causal profile that a spec asks for, and gives it as figures."""

from __future__ import annotations

from headrace.errors import OptionError
from headrace.lab.experiments.causal import SpeedUp, causal_profile
from headrace.lab.experiments.sustainable import Search
from headrace.lab.figures import Figures
from headrace.lab.record.trial import PacedBench
from headrace.lab.results.summary import Better
from headrace.lab.searches import searching
from headrace.lab.spec import CausalSpec

#: The experiment, as figures name it.
CAUSAL = "causal"
PREDICTED, RERUN = "predicted", "rerun"
_UNIT = "share"


def figure_name(step: str, times: float, what: str) -> str:
    """Name a figure.

    >>> figure_name("Parse", 2.0, RERUN)
    'Parse 2x as fast, rerun'
    """
    return f"{step} {times:g}x as fast, {what}"


def causal_figures(
    bench: PacedBench, settings: CausalSpec, search: Search, figures: Figures, *, in_series: bool
) -> None:
    """Profile a system; a figure for each step, and one for each rerun."""
    try:
        profile = causal_profile(
            bench, searching(search, figures.probed, in_series=in_series, is_near=True),
            settings.steps, times=settings.times, precision=search.precision, told=figures.told,
        )
    except OptionError as refused:
        figures.add("gain", _UNIT, None, str(refused), Better.HIGHER)
        return
    for each in profile:
        figures.told(_said(each))
        name = figure_name(each.step, each.times, PREDICTED)
        figures.add(name, _UNIT, each.gain, each.void, Better.HIGHER)
        if each.rerun is not None:
            name = figure_name(each.step, each.times, RERUN)
            figures.add(name, _UNIT, each.rerun, "", Better.HIGHER)


def _said(each: SpeedUp) -> str:
    if each.gain is None:
        return f"{each.step}: {each.void}"
    said = f"{each.step} {each.times:g}x as fast gives {each.gain.value:+.0%}"
    if each.rerun is None:
        return f"{said}; no rerun: {each.unconfirmed}"
    return f"{said}, the rerun {each.rerun.value:+.0%}"
