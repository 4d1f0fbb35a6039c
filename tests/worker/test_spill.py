"""Values on disk come back whole, as often as asked, or not at all."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.transforms import core, window
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import TransportError
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import grouping_of
from headrace.worker.grouping.bounded import BoundedGrouper
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.grouping.spill import SpilledValues, SpillRuns

NAMES = st.binary(max_size=4)
CHUNKS = st.lists(st.tuples(st.integers(0, 9), st.binary(max_size=9)), min_size=1, max_size=3)


@given(st.lists(st.dictionaries(NAMES, CHUNKS, max_size=5), max_size=4))
def test_each_group_comes_back_once_with_its_chunks_of_all_runs(
    written: list[dict[bytes, list[tuple[int, bytes]]]],
) -> None:
    runs = SpillRuns()
    for run in written:
        runs.write(sorted(run.items()))
    found = [(name, [(c.values, c.load()) for c in chunks]) for name, chunks in runs.groups()]
    names = sorted({name for run in written for name in run})
    expected = [(name, [c for run in written for c in run.get(name, [])]) for name in names]
    assert found == expected


def test_no_run_means_that_nothing_was_spilled() -> None:
    runs = SpillRuns()
    assert not runs
    runs.write([])
    assert runs
    assert list(runs.groups()) == []


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_byte_anywhere_is_refused_and_never_read_as_data(data: Any) -> None:
    written = [(b"ant", [(2, b"12"), (1, b"3")]), (b"bee", [(3, b"456")])]
    runs = SpillRuns()
    runs.write(written)
    (file,) = runs._runs
    size = os.fstat(file.fileno()).st_size
    place = data.draw(st.integers(0, size - 1))
    change = data.draw(st.integers(1, 255))
    byte = os.pread(file.fileno(), 1, place)[0]
    os.pwrite(file.fileno(), bytes([byte ^ change]), place)
    with pytest.raises(TransportError, match="damaged"):
        for _, chunks in runs.groups():
            for chunk in chunks:
                chunk.load()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_run_that_was_cut_short_is_refused(data: Any) -> None:
    runs = SpillRuns()
    runs.write([(b"ant", [(2, b"12")]), (b"bee", [(3, b"456")])])
    (file,) = runs._runs
    size = os.fstat(file.fileno()).st_size
    groups = runs.groups()
    first = next(groups)[1]
    os.ftruncate(file.fileno(), data.draw(st.integers(0, size - 1)))
    with pytest.raises(TransportError, match="damaged"):
        for chunk in [*first, *(c for _, chunks in groups for c in chunks)]:
            chunk.load()


def letters(chunk: bytes) -> Iterator[str]:
    return iter(chunk.decode())


def spilled(*chunks: bytes) -> SpilledValues:
    runs = SpillRuns()
    runs.write([(b"key", [(len(chunk), chunk) for chunk in chunks])])
    ((_, found),) = runs.groups()
    return SpilledValues(found, letters)


def test_spilled_values_can_be_iterated_twice_and_side_by_side() -> None:
    values = spilled(b"ab", b"cd")
    assert list(values) == ["a", "b", "c", "d"]
    assert list(zip(values, values, strict=True)) == [(v, v) for v in "abcd"]
    assert len(values) == 4


def test_spilled_values_are_pickled_as_the_list_they_stand_for() -> None:
    assert pickle.loads(pickle.dumps(spilled(b"ab", b"c"))) == ["a", "b", "c"]


def test_spilled_values_pass_beams_coder_for_anything_as_an_iterable() -> None:
    coder = coders.FastPrimitivesCoder()
    assert list(coder.decode(coder.encode(spilled(b"ab", b"c")))) == ["a", "b", "c"]


KV = coders.TupleCoder([coders.VarIntCoder(), coders.FastPrimitivesCoder()])


def grouper_with(
    windowing: core.Windowing, pairs: list[tuple[int, Any]], memory_bytes: int
) -> BoundedGrouper:
    coder = coders.WindowedValueCoder(KV, windowing.windowfn.get_window_coder())
    grouping = grouping_of(windowing)
    grouper = make_grouper(coder, windowing, grouping, memory_bytes)
    writer = GroupWriter(
        0, coder, grouping, lambda row: grouper.add(row.kind, row.elements, row.payload),
        shards=1, super_tuple_bytes=1,
    )  # fmt: skip
    context = window.WindowFn.AssignContext(window.Timestamp(5))
    windows = tuple(windowing.windowfn.assign(context))
    for pair in pairs:
        writer.process(window.WindowedValue(pair, 5, windows))
        writer.flush()
    return grouper


@pytest.mark.parametrize(
    "fn", [window.GlobalWindows(), window.SlidingWindows(20, 10)], ids=["global", "sliding"]
)
def test_groups_on_disk_are_read_lazily_and_again(fn: Any) -> None:
    pairs = [(key, value) for value in range(10) for key in (1, 2)]
    grouper = grouper_with(core.Windowing(fn), pairs, memory_bytes=300)
    found: list[tuple[int, Any]] = []
    grouper.emit(lambda values, meta: found.extend(values))
    windows = 2 if isinstance(fn, window.SlidingWindows) else 1
    assert sorted(key for key, _ in found) == [1] * windows + [2] * windows
    for _, values in found:
        assert isinstance(values, SpilledValues)
        assert sorted(values) == list(range(10))
        assert sorted(values) == list(range(10))


def test_a_grouping_refuses_a_payload_that_it_cannot_read() -> None:
    grouper = grouper_with(core.Windowing(window.GlobalWindows()), [], 1_000)
    with pytest.raises(TransportError, match="payload of kind 0"):
        grouper.add(0, 1, b"")


def test_a_damaged_chunk_of_a_group_fails_where_the_group_is_read() -> None:
    grouper = grouper_with(core.Windowing(window.GlobalWindows()), [(1, "x")] * 9, 100)
    found: list[Any] = []
    grouper.emit(lambda values, meta: found.extend(values))
    ((_, values),) = found
    chunk = values._chunks[0]
    byte = os.pread(chunk.file.fileno(), 1, chunk.offset)[0]
    os.pwrite(chunk.file.fileno(), bytes([byte ^ 1]), chunk.offset)
    with pytest.raises(TransportError, match="damaged"):
        list(values)
