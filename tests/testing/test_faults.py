"""Faults that a test asks for: they happen once, where they are asked for, or the test fails."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.errors import OptionError, ResultError
from headrace.io import ReadFromSpark
from headrace.state.crash_points import Point as Known
from headrace.state.crash_points import Publication
from headrace.testing import Collected, LocalRunner, ScriptedStream, faults
from headrace.testing.faults import Point


def run(into: Collected, name: str, *options: str) -> None:
    events = ScriptedStream("value int")
    for value in range(3):
        events.add((value,))
    given = ["--streaming", "--available_now", f"--checkpoint=memory://{name}", *options]
    p = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(given))
    _ = (
        p
        | ReadFromSpark(events)
        | beam.Map(lambda row: ("k", row.value)).with_output_types(tuple[str, int])
        | beam.WindowInto(
            beam.window.GlobalWindows(),
            trigger=beam.trigger.Repeatedly(beam.trigger.AfterCount(1)),
            accumulation_mode=beam.trigger.AccumulationMode.DISCARDING,
        )
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: (sum(values),))
        | into.sink("value int")
    )
    p.run().wait_until_finish()


def test_the_gaps_are_those_that_the_engine_has() -> None:
    assert set(faults.GAPS) == set(Known)
    assert set(faults.PUBLICATION_GAPS) == set(Publication)
    assert set(faults.TASK_GAPS) <= set(faults.GAPS)


def test_a_gap_that_the_run_never_comes_to_fails_the_test() -> None:
    with (
        pytest.raises(ResultError, match="not come to this gap: after_sinks of epoch 99"),
        faults.driver_ends(Point.AFTER_SINKS, 99),
    ):
        run(Collected(), "never")
    with (
        pytest.raises(ResultError, match="not come to this gap: before_seal of any epoch in 7-0"),
        faults.worker_dies(Point.BEFORE_SEAL, partition="7-0"),
    ):
        run(Collected(), "no-such-partition")


def test_what_fails_for_another_reason_is_not_taken_for_the_fault() -> None:
    with pytest.raises(ZeroDivisionError), faults.driver_ends(Point.AFTER_SINKS):
        _ = 1 // 0


def test_workers_die_in_tasks_alone() -> None:
    with (
        pytest.raises(OptionError, match="the driver is in this gap"),
        faults.worker_dies(Point.AFTER_SINKS),
    ):
        pass


@pytest.mark.parametrize("gap", [Point.BEFORE_TASKS, *faults.TASK_GAPS], ids=lambda gap: gap.value)
def test_a_dead_driver_is_not_tried_again(gap: Point) -> None:
    found = Collected()
    with faults.driver_ends(gap, 1) as fault:
        run(found, f"dead-{gap.value}", "--max_retries=3")
    assert fault.happened
    assert 1 not in found.epochs
    run(found, f"dead-{gap.value}")
    assert found.rows == [(0,), (1,), (2,)]


def test_a_worker_dies_once_in_the_partition_that_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = Collected()
    with faults.worker_dies(Point.AFTER_SEAL, partition="1-1"):
        run(found, "worker")
    assert found.rows == [(0,), (1,), (2,)]
    assert caplog.text.count("failed and is run again") == 1


def test_a_driver_that_ends_before_any_task_leaves_a_checkpoint_where_nothing_counts() -> None:
    found = Collected()
    with faults.driver_ends(Point.BEFORE_TASKS):
        run(found, "first")
    assert found.epochs == {}
    run(found, "first")
    assert found.rows == [(0,), (1,), (2,)]
