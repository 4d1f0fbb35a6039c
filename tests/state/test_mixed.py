"""Rows that hold many keys: whole, in parts, and unreadable."""

from __future__ import annotations

import marshal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import StateError
from headrace.state.files import Files
from headrace.state.layout import Kind, kind_of, time_of
from headrace.state.lmdb_store import forget_local, open_partition
from headrace.state.mixed import fresh_name, own_part, pack, unpack
from headrace.state.snapshot import redistribute

ENTRIES = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.text(), st.integers()), max_size=20)


@given(ENTRIES, st.integers(1, 7))
def test_every_entry_is_in_the_part_of_one_shard(
    entries: list[tuple[int, str, int]], shards: int
) -> None:
    places, keys, values = ([e[i] for e in entries] for i in range(3))
    name = fresh_name(Kind.SLICE, 3, 5_000)
    found: Counter[tuple[str, int]] = Counter()
    for shard in range(shards):
        for part, value in own_part(name, pack(places, keys, values), 0, shard, shards):  # type: ignore[arg-type]
            assert (kind_of(part), time_of(part), len(part)) == (Kind.SLICE, 5_000, len(name))
            mine = list(zip(*unpack(value), strict=True))
            assert mine == [(k, v) for p, k, v in entries if p % shards == shard]
            found.update(mine)
    assert found == Counter((k, v) for _, k, v in entries)


def test_parts_of_one_row_that_meet_again_have_different_names() -> None:
    name, value = fresh_name(Kind.SLICE, 3, 5_000), pack([0, 1], ["a", "b"])
    names = [
        part
        for old in (0, 1)
        for part, _ in own_part(name, value, old, 0, 1)
    ]
    assert len(set(names)) == 2


def test_a_unit_cut_anew_holds_its_part_in_the_order_of_names(tmp_path: Path) -> None:
    forget_local()
    files = Files(str(tmp_path / "checkpoint"))
    chains = []
    for shard in range(2):
        partition = open_partition(tmp_path / "local", files, f"1-{shard}", None)
        for second in range(10):
            places = [shard + 2 * n for n in range(5)]
            partition.put(fresh_name(Kind.SLICE, 3, second), pack(places, [second] * 5, places))
        chains.append(partition.seal("e1"))
    found: Counter[tuple[int, int]] = Counter()
    for shard in range(3):
        rows = list(redistribute(files, chains, shard, 3))
        assert rows == sorted(rows)
        for _, value in rows:
            times, places = unpack(value)
            assert all(place % 3 == shard for place in places)
            found.update(zip(times, places, strict=True))
    forget_local()
    assert found == Counter((second, place) for second in range(10) for place in range(10))


@pytest.mark.parametrize("value", [b"", b"rubbish", marshal.dumps(StopIteration), pack([1])[:-1]])
def test_a_value_that_is_no_row_of_many_keys_is_refused(value: bytes) -> None:
    with pytest.raises(StateError, match="row of many keys"):
        unpack(value)
