"""The sentences, by hand-made records: causes are named, and a run that is well is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.plan.epoch_records import (
    EpochRecord,
    HotRecord,
    RetryRecord,
    ShardRecord,
    SourceRecord,
    StepRecord,
)
from headrace.ui.findings import findings
from headrace.ui.graph import ChannelNode, Graph, StageNode

GRAPH = Graph(
    name="shop", shards=4,
    stages={
        0: StageNode(number=0, superstep=0, name="Parse", steps=("Read", "Parse")),
        1: StageNode(
            number=1, superstep=1, name="Join", steps=("Join", "Score"), cells=("groups of Join",)
        ),
        2: StageNode(
            number=2, superstep=2, name="Dedup", steps=("Dedup",), cells=("cell seen",),
            side_inputs=("Prices",), unbounded=True,
        ),
    },
    channels={
        1: ChannelNode(
            number=1, kind="group", title="by key, grouped", name="Join", sources=(0,), targets=(1,)
        ),
    },
)
SECOND = 1_000_000


def epoch(number: int, **changes: Any) -> EpochRecord:
    """An epoch of one second in which all is well."""
    mark = number * 10 * SECOND
    fields: dict[str, Any] = {
        "epoch": number, "began": number * SECOND, "seconds": 1.0, "now": number * SECOND,
        "tasks": 0.8, "sinks": {"Out": 0.1}, "commit": 0.05,
        "shards": tuple(
            ShardRecord(superstep=s, shard=n, seconds=0.2, state_rows=500)
            for s in (1, 2)
            for n in range(4)
        ),
        "steps": {"Join": StepRecord(into=1_000, out=100, busy=0.1)},
        "sources": {
            "Read": SourceRecord(
                watermark=mark, partitions={str(p): (mark, number * SECOND) for p in range(4)}
            )
        },
        "watermarks": {1: (mark, mark), 2: (mark, mark)},
        "arrived": {1: (250, 250, 250, 250)},
        "hot": {1: HotRecord(elements=10_000, keys={"'k1'": 1_100, "'k2'": 1_000})},
    }
    return EpochRecord(**{**fields, **changes})


def said(records: list[EpochRecord], failing: tuple[RetryRecord, ...] = ()) -> list[str]:
    return [finding.sentence for finding in findings(GRAPH, records, failing)]


def test_a_run_that_is_well_is_told_nothing() -> None:
    records = [epoch(n) for n in range(1, 80)]
    assert [said(records[:n]) for n in range(1, 80)] == [[]] * 79


def test_a_run_without_epochs_is_told_nothing() -> None:
    assert said([]) == []


def test_a_hot_key_is_named_with_its_share_since_it_is_hot() -> None:
    hot = {1: HotRecord(elements=10_000, keys={"'k17'": 3_800, "'k1'": 1_000})}
    (found,) = findings(GRAPH, [epoch(1), epoch(2, hot=hot)])
    assert found.sentence == "key 'k17' is 38% of Join"
    assert (found.kind, found.subject, found.epoch) == ("hot key", "Join", 2)
    assert "one shard of 4 owns the key" in found.evidence


def test_keys_that_are_few_are_not_hot() -> None:
    four = {1: HotRecord(elements=10_000, keys={f"'k{n}'": 2_500 for n in range(4)})}
    assert said([epoch(1, hot=four)]) == []


def test_a_key_of_few_elements_is_not_hot() -> None:
    assert said([epoch(1, hot={1: HotRecord(elements=900, keys={"'k1'": 900})})]) == []


def test_one_shard_has_no_hot_keys() -> None:
    alone = Graph(name="shop", shards=1, stages=GRAPH.stages, channels=GRAPH.channels)
    hot = {1: HotRecord(elements=10_000, keys={"'k17'": 9_000})}
    assert findings(alone, [epoch(1, hot=hot)]) == []


def stuck(number: int) -> EpochRecord:
    """Partition 3 is silent since epoch 1."""
    mark = number * 10 * SECOND
    parts = {str(p): (mark, number * SECOND) for p in range(3)} | {"3": (10 * SECOND, SECOND)}
    return epoch(
        number, sources={"Read": SourceRecord(watermark=10 * SECOND, partitions=parts)}
    )


def test_a_silent_partition_is_named_once_three_epochs_have_gone_by() -> None:
    records = [epoch(1), stuck(2), stuck(3), stuck(4)]
    assert said(records[:2]) == []
    assert said(records) == ["source partition 3 of Read holds the watermark"]
    (found,) = findings(GRAPH, records)
    assert "30 s behind the others, silent for 3 s" in found.evidence
    assert "it has no idle time" in found.evidence


def test_a_source_that_is_silent_as_a_whole_has_no_partition_to_blame() -> None:
    still = [epoch(n, sources=epoch(1).sources) for n in range(1, 9)]
    assert said(still) == []


def test_a_slow_sink_is_told_with_its_share() -> None:
    slow = [epoch(n, seconds=1.0, sinks={"Out/Write": 0.7}) for n in (1, 2)]
    assert said(slow) == ["sink Out takes 70% of the epoch"]


def test_two_sinks_that_make_the_epoch_long_together_are_both_named() -> None:
    took = {"Out/Write": 2.1, "Log": 1.9, "Small": 0.2}
    slow = [epoch(n, seconds=5.8, sinks=took) for n in (1, 2, 3)]
    (found,) = findings(GRAPH, slow)
    assert found.sentence == "sinks Out and Log take 69% of the epoch"
    assert found.subject == "Out, Log"
    assert "4.00 of 5.80 s" in found.evidence


def test_a_sink_that_is_slow_by_itself_is_named_alone() -> None:
    slow = [epoch(n, seconds=1.0, sinks={"Out": 0.65, "Log": 0.1}) for n in (1, 2)]
    assert said(slow) == ["sink Out takes 65% of the epoch"]


def test_publishing_that_epochs_wait_for_is_told_with_its_sink() -> None:
    held_up = {"waited": 0.6, "published": {"Out/Publish": 0.9, "Small": 0.1}}
    records = [epoch(n, seconds=1.0, **held_up) for n in (1, 2, 3)]
    assert said(records[:1]) == []
    (found,) = findings(GRAPH, records)
    assert (found.sentence, found.subject) == ("publishing of Out holds epochs", "Out")
    assert "publishing an epoch takes 1.00 s" in found.evidence
    assert "waited 0.60 of 1.00 s" in found.evidence


def test_publishing_that_goes_on_beside_an_epoch_is_no_trouble() -> None:
    beside = {"waited": 0.05, "published": {"Out": 0.9}}
    assert said([epoch(n, seconds=1.0, **beside) for n in (1, 2, 3)]) == []


def test_one_long_epoch_is_no_cause() -> None:
    once: list[Mapping[str, Any]] = [
        {"sinks": {"Out": 0.9}}, {"commit": 0.9},
        {"shards": (ShardRecord(superstep=1, shard=0, seconds=0.9),
                    ShardRecord(superstep=1, shard=1, seconds=0.1))},
    ]  # fmt: skip
    assert [said([epoch(1), epoch(2, **change), epoch(3)]) for change in once] == [[], [], []]


def test_a_large_share_of_a_short_epoch_is_not_worth_a_word() -> None:
    assert said([epoch(n, seconds=0.1, sinks={"Out": 0.08}) for n in (1, 2, 3)]) == []


def test_a_slow_commit_counts_what_tasks_write_too() -> None:
    shards = tuple(
        ShardRecord(superstep=1, shard=n, seconds=0.5, sealing=0.3, state_rows=9) for n in range(4)
    )
    records = [epoch(n, shards=shards, commit=0.3) for n in (1, 2, 3)]
    assert said(records) == ["commit is slow: checkpoint storage takes 60% of the epoch"]


def tilted(number: int, **changes: Any) -> EpochRecord:
    shards = tuple(
        ShardRecord(superstep=1, shard=n, seconds=0.75 if n == 2 else 0.15, host="m/7")
        for n in range(4)
    )
    return epoch(number, shards=shards, **changes)


def test_a_slow_shard_is_named_with_what_it_gets() -> None:
    (found,) = findings(GRAPH, [tilted(n) for n in (1, 2, 3)])
    assert found.sentence == "shard 2 takes 5.0x the others in Join"
    assert "it gets 25% of the elements" in found.evidence
    assert "m/7" in found.evidence


def test_a_shard_that_is_slow_by_a_hot_key_is_told_of_by_the_key() -> None:
    hot = {1: HotRecord(elements=10_000, keys={"'k17'": 8_000})}
    assert said([tilted(n, hot=hot) for n in (1, 2, 3)]) == ["key 'k17' is 80% of Join"]


def held(number: int, rows: int, superstep: int = 2) -> EpochRecord:
    return epoch(
        number, shards=(ShardRecord(superstep=superstep, shard=0, seconds=0.1, state_rows=rows),)
    )


def test_state_in_the_global_window_that_grows_is_told_after_three_epochs() -> None:
    records = [held(1, 0), held(2, 1_000), held(3, 2_000)]
    assert said(records[:2]) == []
    assert said(records) == ["state of Dedup grows"]


def test_state_that_comes_to_rest_does_not_grow() -> None:
    assert said([held(1, 0), held(2, 1_000), held(3, 1_300)]) == []
    assert said([held(1, 1_000), held(2, 1_000), held(3, 1_000)]) == []


def test_state_of_windows_is_let_grow_for_a_while() -> None:
    records = [held(n, n * 1_000, superstep=1) for n in range(1, 70)]
    assert said(records[:30]) == []
    assert said(records) == ["state of Join grows"]


def test_timers_that_stand_while_the_input_goes_on_hold_the_watermark() -> None:
    records = [epoch(n, holds={2: ("timers", 10 * SECOND)}) for n in (1, 2, 3)]
    assert said(records[:2]) == []
    assert said(records) == ["timers far ahead hold the watermark at Dedup"]
    (found,) = findings(GRAPH, records)
    assert "20 s behind its input" in found.evidence


def test_holds_that_move_and_panes_that_wait_are_no_trouble() -> None:
    moving = [epoch(n, holds={2: ("timers", n * SECOND)}) for n in (1, 2, 3, 4)]
    waiting = [epoch(n, holds={1: ("panes", SECOND)}) for n in (1, 2, 3, 4)]
    still = [
        epoch(n, holds={2: ("timers", SECOND)}, watermarks={2: (9 * SECOND, SECOND)})
        for n in (1, 2, 3, 4)
    ]
    assert [said(records) for records in (moving, waiting, still)] == [[], [], []]


def test_elements_that_go_on_waiting_are_told_with_what_they_wait_for() -> None:
    assert said([epoch(1, waiting={2: 5}), epoch(2, waiting={2: 9})]) == [
        "elements of Dedup wait for side input Prices"
    ]
    assert said([epoch(1, waiting={2: 9}), epoch(2, waiting={2: 5})]) == []
    assert said([epoch(1), epoch(2, waiting={2: 5})]) == []


def test_late_elements_are_told_if_they_are_many() -> None:
    assert said([epoch(1, late={1: 50})]) == ["late data dropped at Join: 50 elements, 5%"]
    assert said([epoch(1, late={1: 3})]) == []


def test_a_failed_try_is_told_at_once_and_for_some_epochs_after() -> None:
    failed = RetryRecord(epoch=7, error="ValueError", step="Parse/Inner", text="bad")
    assert said([], (failed,)) == ["epoch 7 is tried again: ValueError in step Parse"]
    records = [epoch(7, retries=(failed,)), epoch(8), epoch(9), epoch(10)]
    assert said(records[:3]) == ["epoch 7 was tried again: ValueError in step Parse"]
    assert said(records) == []
