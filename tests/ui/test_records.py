"""The record of an epoch: who did what, as a run of two shards makes it."""

from __future__ import annotations

from tests.ui.faults import ROWS, grouped, rows, running, state_of


def test_a_record_tells_shards_steps_and_exchanges_apart() -> None:
    with running(grouped, ("--shards=3", "--ui_samples")) as (bed, result):
        bed.stream.add(*rows(0))
        result.settle()
        bed.stream.add(*rows(1))
        result.settle()
        found = state_of(result.page_url)
    last = found["epochs"][-1]
    assert [(t["superstep"], t["shard"]) for t in last["shards"]] == [
        (0, 0), (1, 0), (1, 1), (1, 2),
    ]  # fmt: skip
    assert (last["steps"]["Clicks"]["into"], last["steps"]["Clicks"]["out"]) == (0, ROWS)
    assert (last["steps"]["Pair"]["into"], last["steps"]["Pair"]["out"]) == (ROWS, ROWS)
    assert last["steps"]["Join"]["into"] == ROWS
    assert last["steps"]["Join"]["out"] == last["steps"]["Name"]["into"]
    assert [sum(counts) for counts in last["arrived"].values()] == [ROWS]
    assert set(last["sinks"]) == {"Out"}
    assert last["seconds"] >= last["tasks"] + last["commit"]
    assert any("k0" in text for shown in last["samples"].values() for text in shown)
