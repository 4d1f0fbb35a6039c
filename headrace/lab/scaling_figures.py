"""Measures how a system scales, as a spec says, and gives it as figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.lab.experiments.scaling import Scaling, measure_scaling
from headrace.lab.experiments.sustainable import Search
from headrace.lab.figures import Figures
from headrace.lab.record.trial import SeriesBench
from headrace.lab.results.summary import REFUSED, Better
from headrace.lab.searches import searching
from headrace.lab.spec import ScalingSpec

_HIGHER = Better.HIGHER
_MILLION = 1e6


def scaling_figures(
    bench_with: Callable[[Mapping[str, Any]], SeriesBench], settings: ScalingSpec, search: Search,
    figures: Figures, *, in_series: bool,
) -> None:
    """Measure over cores, then over shards.

    Args:
        bench_with: gives the bench of the system with some settings changed.
        settings: what the spec asks for.
        search: of each rate; where the first one begins too.
        figures: takes them.
        in_series: all probes of a search in one run of the system.
    """
    searched = searching(search, figures.probed, in_series=in_series, is_near=False)
    for what, counts in (("cores", settings.cores), ("shards", settings.shards)):
        if not counts:
            continue
        try:
            found = measure_scaling(
                lambda count, what=what: bench_with({what: count}),  # type: ignore[misc]
                searched, counts, precision=search.precision, predicts=what == "cores",
            )
        except OptionError as refused:
            figures.plain(f"rate by {what}", "events/s", None, f"{REFUSED}{refused}", _HIGHER)
            continue
        _rates(found, what, figures)
        if what == "cores":
            _predictions(found, figures)
        figures.told(f"scaling over {what} done")


def _rates(found: Scaling, what: str, figures: Figures) -> None:
    for point in found.points:
        figures.plain(
            f"rate on {point.count} {what}", "events/s", point.found.rate, point.void, _HIGHER
        )
    for point in found.points[1:]:
        times = found.speed_up(point)
        if times is not None:
            figures.plain(f"speed-up on {point.count} {what}", "times", times, "", _HIGHER)


def _predictions(found: Scaling, figures: Figures) -> None:
    """Give what was said of each number of cores before it was measured, and how it was off."""
    for part, seconds in found.parts.items():
        figures.plain(f"cpu of {part}", "s per million events", seconds * _MILLION)
    for point in found.points[1:]:
        label = f"predicted on {point.count} cores"
        if point.predicted is not None:
            figures.plain(label, "events/s", point.predicted, "", _HIGHER)
        if point.error is not None:
            figures.told(f"{label}: {point.predicted:,.0f} events/s, {point.error:+.0%} off")
            figures.plain(f"error of what was {label}", "share", point.error)
    more = found.points[-1].count * 2
    figures.plain(
        f"predicted on {more} cores", "events/s", found.predicted(more), found.unsure, _HIGHER
    )
