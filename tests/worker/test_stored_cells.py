"""User state in a store: what expires, what it costs, what is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from apache_beam import coders
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.bundle_processor import FnApiUserStateContext
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from headrace.errors import HeadraceError, StateError
from headrace.state.layout import KEY_GROUPS, Kind, key_group_of, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.userstate import cell_rows as stored_logs
from headrace.worker.userstate.stored_cells import StoredCells
from tests.worker.stored_kit import (
    BAG,
    INT,
    KEYS,
    LATENESS,
    LIST,
    ONE,
    SECOND,
    STAGE,
    SUM,
    WINDOWS,
    CountingStore,
    Worker,
    kinds,
    never,
    state_key,
)


def test_cells_of_other_windows_stay_when_one_expires() -> None:
    store = MemoryStore()
    worker = Worker(store)
    for key in ("a", "b"):
        for window in WINDOWS:
            worker.state(ONE, key, window).write(1)
            worker.state(BAG, key, window).add(2)
    worker.end_epoch()
    end = WINDOWS[0].max_timestamp().micros + LATENESS
    assert worker.cells.expire(STAGE, end, never) == 0  # at its last moment a window still lives
    assert worker.cells.expire(STAGE + 1, end + 1, never) == 0  # another stage's watermark
    assert worker.cells.expire(STAGE, end + 1, never) == 2
    worker.end_epoch()
    again = Worker(store)
    for key in ("a", "b"):
        found = [again.state(ONE, key, window).read() for window in WINDOWS]
        assert found == [None, 1, 1]
        assert [list(again.state(BAG, key, window).read()) for window in WINDOWS] == [[], [2], [2]]
    assert kinds(store) == {Kind.CELL: 8, Kind.EXPIRY: 4}


def test_a_window_that_is_waited_for_is_kept_and_looked_at_again() -> None:
    store = MemoryStore()
    worker = Worker(store)
    waiting = IntervalWindowCoder().encode(WINDOWS[0])
    for window in WINDOWS[:2]:
        worker.state(ONE, "a", window).write(1)
    worker.end_epoch()
    worker.state(ONE, "b", WINDOWS[0]).write(2)  # in memory only
    worker.end_bundle()
    late = WINDOWS[1].max_timestamp().micros + LATENESS + 1
    assert worker.cells.expire(STAGE, late, waiting.__eq__) == 1
    worker.end_epoch()
    assert worker.state(ONE, "a").read() == 1
    assert worker.state(ONE, "b").read() == 2
    assert worker.cells.expire(STAGE, late, never) == 2
    worker.end_epoch()
    assert store.rows == {}


def test_state_of_the_global_window_has_no_expiry_row_and_stays() -> None:
    store = MemoryStore()
    worker = Worker(store, GlobalWindowCoder())
    worker.state(ONE, "a", GlobalWindow()).write(1)
    worker.end_epoch()
    assert worker.cells.expire(STAGE, MAX_TIMESTAMP.micros, never) == 0
    assert kinds(store) == {Kind.CELL: 1}


def test_state_written_and_expired_in_one_epoch_is_never_written_to_the_store() -> None:
    store = CountingStore()
    worker = Worker(store)
    worker.state(ONE, "a").write(1)
    worker.state(LIST, "a").add((Timestamp(1), 1))
    worker.end_bundle()
    owners: list[bytes] = []
    assert worker.cells.expire(STAGE, MAX_TIMESTAMP.micros, never, owners.extend) == 1
    worker.end_epoch()
    assert store.calls["put"] == store.calls["delete"] == 0
    assert len(owners) == 1


def test_a_value_that_is_rewritten_stays_one_row() -> None:
    store = CountingStore()
    for count in range(50):
        worker = Worker(store, GlobalWindowCoder())
        cell = worker.state(ONE, "a", GlobalWindow())
        assert cell.read() == (count or None)
        cell.write(count + 1)
        total = worker.state(SUM, "a", GlobalWindow())
        assert total.read() == count
        total.add(1)
        total.read()
        worker.end_epoch()
        assert kinds(store) == {Kind.CELL: 2}
    assert store.calls["put"] == 100
    assert store.calls["scan"] == 0


def test_appending_to_a_large_bag_writes_what_is_new_and_a_small_head() -> None:
    store = CountingStore()
    payload = coders.BytesCoder()
    spec = userstate.BagStateSpec("blobs", payload)
    sizes = []
    for number in range(12):
        worker = Worker(store)
        worker.state(spec, "a").add(bytes([number]) * 2_000)
        before = dict(store.rows)
        worker.end_epoch()
        sizes.append(sum(len(v) for n, v in store.rows.items() if before.get(n) != v))
    assert max(sizes[1:]) < 2_100
    read = list(Worker(store).state(spec, "a").read())
    assert read == [bytes([number]) * 2_000 for number in range(12)]


def test_many_small_chunks_are_joined_when_the_cell_is_read_anyway() -> None:
    store = MemoryStore()
    spec = userstate.BagStateSpec("blobs", coders.BytesCoder())
    want = []
    for number in range(stored_logs.MANY_CHUNKS + 3):
        worker = Worker(store, GlobalWindowCoder())
        want.append(bytes([number]) * 600)
        worker.state(spec, "a", GlobalWindow()).add(want[-1])
        worker.end_epoch()
    assert len(store.rows) == len(want) + 1
    worker = Worker(store, GlobalWindowCoder())
    assert list(worker.state(spec, "a", GlobalWindow()).read()) == want
    worker.end_epoch()
    assert len(store.rows) == 2
    assert list(worker.state(spec, "a", GlobalWindow()).read()) == want


def test_equal_sort_keys_keep_the_order_of_writing_over_epochs() -> None:
    store = MemoryStore()
    impl = coders.TupleCoder([INT, INT]).get_impl()
    key = state_key("list", 0, 100)
    for number in range(4):
        worker = Worker(store)
        if number == 2:  # as a list that was read, it is sorted in place
            assert list(worker.cells.blocking_get(key, impl)) == [(1, 0), (1, 1), (5, 0), (5, 1)]
        worker.cells.extend(key, impl, [(5, number), (1, number)])
        worker.cells.flush()
    found = list(Worker(store).cells.blocking_get(key, impl))
    assert found == [(1, n) for n in range(4)] + [(5, n) for n in range(4)]


def test_a_list_used_as_a_queue_does_not_grow_in_the_store() -> None:
    store = MemoryStore()
    for second in range(200):
        worker = Worker(store)
        queue = worker.state(LIST, "a")
        queue.add((Timestamp(second), second))
        worker.end_bundle()
        queue = worker.state(LIST, "a")
        held = [int(moment) for moment, _ in queue.read()]
        assert held == list(range(max(0, second - 3), second + 1))
        queue.clear_range(Timestamp(0), Timestamp(second - 2))
        worker.end_epoch()
    assert sum(map(len, store.rows.values())) < 1_000


def test_cutting_a_list_that_is_not_there_makes_no_row() -> None:
    store = MemoryStore()
    worker = Worker(store)
    worker.state(LIST, "a").clear_range(Timestamp(1), Timestamp(5))
    worker.end_epoch()
    assert store.rows == {}


def test_a_value_changed_after_it_was_written_does_not_change_the_cell() -> None:
    spec = userstate.BagStateSpec("lists", coders.FastPrimitivesCoder())
    worker = Worker(MemoryStore())
    held = [1]
    worker.state(spec, "a").add(held)
    worker.end_bundle()
    held.append(2)
    next(iter(worker.state(spec, "a").read())).append(3)
    worker.end_epoch()
    assert list(worker.state(spec, "a").read()) == [[1]]


def test_rows_lie_at_the_place_of_their_key() -> None:
    store = MemoryStore()
    keys = ["a", "b", "long" * 100]
    for key in keys:
        worker = Worker(store)
        worker.state(ONE, key).write(1)
        worker.end_epoch()
    place = ShardOf(KEYS, KEY_GROUPS).any
    for kind in (Kind.CELL, Kind.EXPIRY):
        found = {key_group_of(row) for row in store.rows if kind_of(row) is kind}
        assert found == {place(key) for key in keys}


def epoch_cost(keys: int) -> Counter[str]:
    """What one epoch asks of a store with the state of so many keys, when it touches ten."""
    store = CountingStore()
    worker = Worker(store)
    for number in range(keys):
        worker.state(ONE, f"key {number}", WINDOWS[2]).write(number)
        worker.state(BAG, f"key {number}", WINDOWS[2]).add(number)
        if number < 3:
            worker.state(ONE, f"key {number}", WINDOWS[0]).write(number)
    worker.end_epoch()
    store.calls.clear()
    for number in range(10):
        cell = worker.state(ONE, f"key {number}", WINDOWS[2])
        cell.write(cell.read() + 1)
        worker.state(BAG, f"key {number}", WINDOWS[2]).add(5)
        worker.state(LIST, f"key {number}", WINDOWS[2]).add((Timestamp(1), 1))
    worker.end_bundle()
    assert worker.cells.expire(STAGE, 20 * SECOND, never) == 3
    worker.end_epoch()
    return store.calls


def test_an_epoch_costs_what_it_touches_and_not_what_is_there() -> None:
    few = epoch_cost(100)
    assert few == epoch_cost(10_000)
    assert few["put"] == 30
    assert few["delete"] == 6  # three cells and their rows in the index by expiry
    assert few["row"] == 6


def test_a_missing_chunk_is_an_error_and_not_a_shorter_bag() -> None:
    store = MemoryStore()
    spec = userstate.BagStateSpec("blobs", coders.BytesCoder())
    worker = Worker(store, GlobalWindowCoder())
    worker.state(spec, "a", GlobalWindow()).add(bytes(1_000))
    worker.end_epoch()
    store.delete(max(store.rows, key=lambda name: len(store.rows[name])))
    with pytest.raises(StateError, match="'blobs': chunk 0 of 1 is missing") as caught:
        list(worker.state(spec, "a", GlobalWindow()).read())
    # A good checkpoint is not to be given up for a bad copy of it.
    assert "Start the pipeline again" in str(caught.value)
    assert "older" not in str(caught.value)


def test_state_of_a_step_that_was_not_registered_is_refused() -> None:
    cells = StoredCells(SideInputs())
    cells.attach(MemoryStore())
    context = FnApiUserStateContext(cells, "stranger", KEYS, IntervalWindowCoder())
    with pytest.raises(HeadraceError, match="stranger asked for user state"):
        list(context.get_state(BAG, "a", WINDOWS[0]).read())


def test_state_is_refused_outside_an_epoch() -> None:
    worker = Worker(MemoryStore())
    worker.cells.flush()
    with pytest.raises(HeadraceError, match="attach a store first"):
        list(worker.state(BAG, "a").read())


def test_kinds_that_are_no_user_state_are_read_from_side_inputs_and_not_written() -> None:
    cells = StoredCells(SideInputs())
    cells.attach(MemoryStore())
    key = beam_fn_api_pb2.StateKey()
    key.iterable_side_input.transform_id = "reader"
    with pytest.raises(KeyError, match="reader"):  # asked of the side inputs, which have none
        cells.blocking_get(key, INT.get_impl())
    with pytest.raises(HeadraceError, match="iterable_side_input"):
        cells.extend(key, INT.get_impl(), [1])
    with pytest.raises(HeadraceError, match="iterable_side_input"):
        cells.clear(key)
