"""The parts of an epoch, by hand-made records: where each begins and ends, and what it tells."""

from __future__ import annotations

from headrace.plan.epoch_records import EpochRecord, ShardRecord
from headrace.telemetry.parts import Part, parts_of
from tests.ui.test_findings import GRAPH, epoch

SECOND = 1_000_000


def spans(part: Part, depth: int = 0) -> list[tuple[str, int, int]]:
    """All parts, each before those inside it: name with its depth, begin and end after 10 s."""
    found = [("  " * depth + part.name, part.begin - 10 * SECOND, part.end - 10 * SECOND)]
    return found + [each for child in part.parts for each in spans(child, depth + 1)]


def test_parts_follow_each_other_and_the_commit_is_last() -> None:
    assert spans(parts_of(epoch(10, sinks={"Out": 0.1, "Log": 0.02}), GRAPH)) == [
        ("epoch", 0, 1_000_000),
        ("  tasks", 0, 800_000),
        ("    source Read", 0, 200_000),
        ("    superstep 1", 0, 200_000),
        ("    superstep 2", 200_000, 400_000),
        ("  sink Out", 800_000, 900_000),
        ("  sink Log", 900_000, 920_000),
        ("  commit", 950_000, 1_000_000),
    ]


def test_a_superstep_is_as_long_as_its_longest_task_and_ends_with_the_tasks() -> None:
    shards = (
        ShardRecord(superstep=0, shard=0, seconds=0.3),
        ShardRecord(superstep=1, shard=0, seconds=0.1, state_rows=3, state_bytes=7),
        ShardRecord(superstep=1, shard=1, seconds=0.9, state_rows=4, state_bytes=8),
    )
    made = parts_of(epoch(10, shards=shards), GRAPH)
    assert spans(made)[3:5] == [
        ("    superstep 0", 0, 300_000), ("    superstep 1", 300_000, 800_000)
    ]  # fmt: skip
    last = made.parts[0].parts[-1].attributes
    assert last["headrace.steps"] == ["Join", "Score"]
    assert (last["headrace.longest_shard"], last["headrace.tasks"]) == (1, 2)
    assert (last["headrace.state_rows"], last["headrace.state_bytes"]) == (7, 15)
    assert last["headrace.task_seconds"] == 1.0


def test_an_epoch_that_waits_for_publishing_ends_with_the_wait() -> None:
    record = EpochRecord(
        epoch=4, began=0, seconds=1.0, now=0, tasks=0.5, sinks={"Out": 0.1}, commit=0.1,
        waited=0.3, published={"Out": 0.8},
    )
    found = parts_of(record, GRAPH)
    assert (found.begin, found.end) == (0, 1_000_000)
    assert found.attributes["headrace.publishing_seconds"] == 0.8
    assert [(part.name, part.begin, part.end) for part in found.parts] == [
        ("tasks", 0, 500_000), ("sink Out", 500_000, 600_000), ("commit", 600_000, 700_000),
        ("wait for publishing", 700_000, 1_000_000),
    ]  # fmt: skip
    assert found.parts[-1].attributes == {"headrace.sinks": ["Out"]}


def test_a_batch_has_no_commit() -> None:
    record = EpochRecord(
        epoch=0, began=10 * SECOND, seconds=1.0, now=11 * SECOND, tasks=0.7, sinks={"Out": 0.3}
    )
    assert spans(parts_of(record, GRAPH)) == [
        ("epoch", 0, 1_000_000), ("  tasks", 0, 700_000), ("  sink Out", 700_000, 1_000_000),
    ]  # fmt: skip


def test_no_key_is_in_any_attribute() -> None:
    assert "k1" not in str(parts_of(epoch(1), GRAPH))
