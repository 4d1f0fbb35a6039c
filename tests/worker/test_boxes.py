"""Rows between two supersteps of one task: each shard gets its own, in order, from disk too."""

from __future__ import annotations

import os
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.grouping.spill import RunFile
from headrace.worker.task import boxes as module
from headrace.worker.task.boxes import Boxes

SHARDS = 3

rows = st.lists(
    st.builds(
        SuperTuple, shard=st.integers(0, SHARDS - 1), rank=st.integers(0, 2),
        channel=st.integers(-1, 3), kind=st.integers(0, 12), seq=st.integers(0, 1 << 40),
        elements=st.integers(0, 9), payload=st.binary(max_size=20), numbers=st.binary(max_size=3),
    )  # fmt: skip
)


@given(rows, st.sampled_from([(), ("rank",), ("rank", "numbers")]), st.sampled_from([0, 900, 9**9]))
def test_a_shard_gets_its_rows_as_a_stable_sort_gives_them(
    sent: list[SuperTuple], by: tuple[str, ...], held_bytes: int
) -> None:
    boxes = Boxes(SHARDS, by, held_bytes)
    for row in sent:
        boxes.put(row)
    for shard in range(SHARDS):
        mine = [row for row in sent if row.shard == shard]
        mine.sort(key=lambda row: [getattr(row, name) for name in by])
        assert list(boxes.taken(shard)) == mine
    assert not list(chain(*(boxes.taken(shard) for shard in range(SHARDS))))


def test_what_is_held_in_memory_has_a_limit() -> None:
    """Ten megabytes pass through a box that holds one hundred kilobytes."""
    boxes = Boxes(1, ("rank",), 100_000)
    for number in range(1000):
        boxes.put(SuperTuple(0, 1, 0, 0, number, 1, os.urandom(10_000)))
        assert sum(len(row.payload) for row in boxes._rows[0]) <= 100_000
    assert [row.seq for row in boxes.taken(0)] == list(range(1000))


def test_a_row_for_a_shard_that_is_not_there_is_refused() -> None:
    with pytest.raises(TransportError, match="channel 7 sent a row to shard 2; there are 2"):
        Boxes(2, ()).put(SuperTuple(2, 1, 7, 0, 0, 1, b""))


def test_rows_that_were_damaged_on_disk_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[RunFile] = []

    class Seen(RunFile):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    monkeypatch.setattr(module, "RunFile", Seen)
    boxes = Boxes(1, (), 0)
    boxes.put(SuperTuple(0, 1, 0, 0, 0, 1, b"payload"))
    data = os.pread(found[0].fileno(), 10_000, 0)
    os.pwrite(found[0].fileno(), b"PAYLOAD", data.index(b"payload"))
    with pytest.raises(TransportError, match="damaged"):
        list(boxes.taken(0))
