"""Slowed steps take the factor of their time, in the way they did before; no other step does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest

from headrace.worker.batched import route
from headrace.worker.batched.slowing import Slowing, SlowStep, slowed
from tests.worker.harness import gathered

COUNT = 400


class Wait(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int) -> Iterator[int]:
        if element % 10 == 0:
            time.sleep(0.005)
        yield element


class Work(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int) -> Iterator[int]:
        if element % 10 == 0:
            end = time.thread_time() + 0.005
            while time.thread_time() < end:
                pass
        yield element


def two_steps(pipeline: beam.Pipeline) -> None:
    (
        pipeline
        | beam.Create(range(COUNT))
        | "Waits" >> beam.ParDo(Wait())
        | "Inner" >> _Both()
        | beam.combiners.Count.PerKey()
        | "Keep" >> _keep()
    )


class _Both(beam.PTransform):  # type: ignore[misc]
    def expand(self, numbers: Any) -> Any:
        return numbers | "Works" >> beam.ParDo(Work()) | beam.Map(lambda n: (n % 7, n))


def _keep() -> Any:
    from tests.worker.harness import Collect

    return beam.ParDo(Collect("out"))


def taken(*slow: str) -> tuple[float, float, list[Any]]:
    """Give what a run has waited and computed, and its rows."""
    options = [f"--experiments=headrace_slow_step={each}" for each in slow]
    start, work = time.perf_counter(), time.process_time()
    rows = gathered(two_steps, *options, shards=1)
    computed = time.process_time() - work
    return time.perf_counter() - start - computed, computed, rows


#: Seconds that each of the two steps takes.
EACH = COUNT / 10 * 0.005


@pytest.mark.parametrize(("step", "waits", "works"), [
    ("Waits*3", 2, 0), ("Works*3", 0, 2), ("Inner*3", 0, 2), ("Elsewhere*3", 0, 0),
])
def test_a_slow_step_takes_the_factor_and_the_rows_are_the_same(
    step: str, waits: int, works: int
) -> None:
    taken()  # what is imported and compiled is no step's
    _, before_work, rows = taken()
    waited, worked, slow_rows = taken(step)
    assert slow_rows == rows == sorted((k, len(range(k, COUNT, 7))) for k in range(7))
    # What else runs on the machine adds to the wait, and never takes from it.
    assert waited >= EACH * (1 + waits) * 0.95
    # What the rest of the process computes meanwhile is less than one factor more or less.
    assert worked - before_work == pytest.approx(EACH * works, abs=EACH * 0.9)


def test_nothing_is_wrapped_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def noted(node: Any, name: str) -> Any:
        seen.append(slowed(node, name))
        return seen[-1]

    monkeypatch.setattr(route, "slowed", noted)
    gathered(two_steps)
    assert seen and not any(isinstance(node, SlowStep) for node in seen)
    # The next run of this process is slow, and the one after it is not.
    gathered(two_steps, "--experiments=headrace_slow_step=Works*1.1")
    assert isinstance(seen[-1], SlowStep)
    gathered(two_steps, "--experiments=another")
    assert not isinstance(seen[-1], SlowStep)


def test_a_name_is_that_of_whole_parts_of_a_path() -> None:
    Slowing.tell(["beam_thing", "headrace_slow_step=Query/Count*2.5", "headrace_slow_step=a*b*3"])
    try:
        assert Slowing.times_of("Query/Count/Precombine") == 2.5
        assert Slowing.times_of("Query/Counts") == 1
        assert Slowing.times_of("x/a*b") == 3
    finally:
        Slowing.tell([])
