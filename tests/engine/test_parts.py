"""How long the parts of an epoch took: cases by hand."""

from __future__ import annotations

import pytest

from headrace.engine.layouts import Layout
from headrace.engine.parts import RECENT_EPOCHS, EpochParts, parts_of
from headrace.engine.status import StreamStatus
from headrace.worker.protocol import ShardReport

LAPS = {"tasks": 10.0, "sinks": 2.0, "commit": 1.0}
#: Two supersteps on two shards; superstep, shard, seconds, of them sealing.
REPORTS = [
    ShardReport(superstep=superstep, shard=shard, seconds=seconds, sealing=sealing)
    for superstep, shard, seconds, sealing in [
        (0, 0, 1.0, 0.5), (0, 1, 3.0, 0.25), (1, 0, 2.0, 1.0), (1, 1, 0.5, 0.0),
    ]
]


def told(laps: dict[str, float], layout: Layout) -> tuple[float, float]:
    found = parts_of(7, 100.0, laps, REPORTS, layout)
    assert (found.epoch, found.began, found.sinks, found.commit) == (7, 100.0, 2.0, 1.0)
    assert found.tasks == laps["tasks"]
    return found.computing, found.sealing


def test_a_superstep_is_over_when_its_slowest_shard_is() -> None:
    assert told(LAPS, Layout.STAGES) == (2.75 + 1.0, 0.25 + 1.0)


def test_in_one_task_shards_run_one_after_the_other() -> None:
    assert told(LAPS, Layout.ONE_TASK) == (0.5 + 2.75 + 1.0 + 0.5, 0.5 + 0.25 + 1.0)


def test_parts_of_a_job_are_never_longer_than_the_job() -> None:
    computing, sealing = told({**LAPS, "tasks": 2.5}, Layout.STAGES)
    assert computing + sealing == pytest.approx(2.5)
    assert computing / sealing == pytest.approx(3)


def test_an_epoch_without_reports_has_no_computing() -> None:
    found = parts_of(0, 0.0, LAPS, [], Layout.STAGES)
    assert (found.computing, found.sealing) == (0, 0)


def test_the_last_thousand_epochs_are_remembered() -> None:
    status = StreamStatus()
    for number in range(RECENT_EPOCHS + 5):
        parts = EpochParts(
            epoch=number, began=0, tasks=0, computing=0, sealing=0, sinks=0, commit=0
        )
        status = status.with_epoch(parts, Layout.STAGES, "")
    kept = [each.epoch for each in status.recent]
    assert kept == list(range(5, RECENT_EPOCHS + 5))
