"""How many events the ways of columns-spark get, and how often they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lab.catalog import CATALOG
from headrace.lab.experiments.columns_spark.runs import (
    COLUMNS,
    NATIVE,
    OBJECTS,
    LoggedWorkload,
    Sample,
    Sizes,
    Way,
)
from headrace.lab.workload import Mode

SECONDS = {COLUMNS: 1e-6, OBJECTS: 1e-5, NATIVE: 5e-5}  # for an event
SIZES = Sizes(few=500_000, many=4_000_000, objects=1_000_000)


@pytest.mark.parametrize("batches", [[4_000_000], [250_000, 4_000_000]])
def test_a_slow_way_gets_fewer_events_and_one_size_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[int]
) -> None:
    made: list[tuple[str, int]] = []

    def run(_bench: LoggedWorkload, way: Way, events: int, *, check: bool) -> Sample:
        del check
        made.append((way.name, events))
        return Sample(
            events=events, seconds=events * SECONDS[way.name], parts=(0.0, 0.0, 0.0), rows=1,
            right=True,
        )

    monkeypatch.setattr(LoggedWorkload, "run", run)
    system: Any = None
    ways = [Way(name=name, system=system) for name in SECONDS]
    bench = LoggedWorkload(CATALOG.workload("nexmark", "q8"), tmp_path, SIZES, Mode.STREAMING, 2)
    bench.measure(ways, batches, 2, lambda _: None)
    assert {way.name: [s.events for s in way.many] for way in ways} == {
        COLUMNS: [4_000_000] * 2, OBJECTS: [1_000_000] * 2, NATIVE: [1_000_000] * 2,
    }
    searched = 0 if len(batches) == 1 else 2 * len(batches)
    assert len(made) == 2 + searched + 2 * 2 * len(ways)
    costs = {way.name: way.cost() for way in ways}
    assert all(cost is not None and cost.rate is not None for cost in costs.values())


@pytest.mark.parametrize(
    ("seconds", "rate"), [(1.04, None), (1.06, 500_000 / 0.06), (0.9, None), (2.0, 500_000)]
)
def test_a_rate_beyond_what_two_equal_runs_differ_by_is_told(
    seconds: float, rate: float | None
) -> None:
    system: Any = None
    few, many = (
        Sample(events=events, seconds=took, parts=(0.0, 0.0, 0.0), rows=1, right=True)
        for events, took in ((500_000, 1.0), (1_000_000, seconds))
    )
    cost = Way(name=OBJECTS, system=system, few=[few], many=[many]).cost()
    assert cost is not None and cost.rate == (None if rate is None else pytest.approx(rate))
