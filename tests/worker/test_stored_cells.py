"""User state in a store is what plain dicts and lists would hold, wherever epochs are cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.bundle_processor import FnApiUserStateContext
from apache_beam.transforms import userstate
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, StateError
from headrace.state.layout import PLACES, Kind, kind_of, place_of
from headrace.state.store import MemoryStore
from headrace.worker import stored_cells
from headrace.worker.primitives import ShardOf
from headrace.worker.side_inputs import SideInputs
from headrace.worker.stored_cells import StoredCells
from tests.worker.test_stored_timers import CountingStore

STEP, OTHER = "step", "another step"
STAGE = 7
KEYS = coders.StrUtf8Coder()
INT = coders.VarIntCoder()
SECOND = 1_000_000
LATENESS = 5 * SECOND
SMALL = settings(max_examples=100, deadline=None)

BAG = userstate.BagStateSpec("bag", INT)
SET = userstate.SetStateSpec("set", INT)
SUM = userstate.CombiningValueStateSpec("sum", combine_fn=sum)
ONE = userstate.ReadModifyWriteStateSpec("one", INT)
LIST = userstate.OrderedListStateSpec("list", INT)

WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20), IntervalWindow(20, 30)]


def never(window: bytes) -> bool:
    return False


class Worker:
    """What a process has: state cells and Beam's runtime state objects over them."""

    def __init__(self, store: Any, windows: Any = None) -> None:
        self.cells = StoredCells(SideInputs())
        self.contexts = {}
        windows = windows or IntervalWindowCoder()
        for step in (STEP, OTHER):
            self.cells.register(step, STAGE, KEYS, windows, LATENESS)
            self.contexts[step] = FnApiUserStateContext(self.cells, step, KEYS, windows)
        self.store = store
        self.cells.attach(store)

    def state(self, spec: Any, key: str, window: Any = WINDOWS[0], step: str = STEP) -> Any:
        return self.contexts[step].get_state(spec, key, window)

    def end_bundle(self) -> None:
        for context in self.contexts.values():
            context.commit()
            context._all_states = {}  # as a reset does, which asks more of state than ours has

    def end_epoch(self) -> None:
        self.end_bundle()
        self.cells.flush()
        self.cells.attach(self.store)


def kinds(store: MemoryStore) -> Counter[Kind]:
    return Counter(map(kind_of, store.rows))


# What user code may do, on small domains so that operations meet.
numbers = st.integers(-(1 << 40), 1 << 40)
moments = st.integers(-3, 12)
operations = st.one_of(
    st.tuples(st.just("bag add"), numbers),
    st.tuples(st.just("bag clear"), st.none()),
    st.tuples(st.just("bag read"), st.none()),
    st.tuples(st.just("set add"), st.integers(0, 3)),
    st.tuples(st.just("set clear"), st.none()),
    st.tuples(st.just("sum add"), numbers),
    st.tuples(st.just("sum clear"), st.none()),
    st.tuples(st.just("sum read"), st.none()),
    st.tuples(st.just("one write"), numbers),
    st.tuples(st.just("one clear"), st.none()),
    st.tuples(st.just("list add"), st.tuples(moments, numbers)),
    st.tuples(st.just("list clear"), st.none()),
    st.tuples(st.just("list cut"), st.tuples(moments, moments)),
    st.tuples(st.just("list part"), st.tuples(moments, moments)),
)
steps = st.one_of(
    st.tuples(
        st.sampled_from(["a", "b", "k" * 200]), st.sampled_from(WINDOWS[:2]),
        st.sampled_from([STEP, OTHER]), operations,
    ),
    st.sampled_from(["bundle", "epoch", "process", "crash"]),
)  # fmt: skip


EVERYTHING = (-(1 << 63), (1 << 63) - 1)  # the bounds Beam gives when it means the whole list
bag_steps = st.one_of(
    st.sampled_from(["epoch", "epoch", "read", "clear"]),
    st.lists(st.integers(0, 1 << 20), max_size=3),
)
ranges = st.one_of(st.tuples(moments, moments), st.tuples(moments, moments), st.just(EVERYTHING))
list_steps = st.one_of(
    st.just("epoch"),
    st.builds(lambda bounds: ("cut", *bounds), ranges),
    st.builds(lambda bounds: ("read", *bounds), ranges),
    st.tuples(st.just("add"), st.lists(st.tuples(moments, st.integers(0, 99)), max_size=3)),
)


def state_key(cell: str, start: int | None = None, end: int | None = None) -> Any:
    """Give the key with which Beam asks for a cell, or for a range of an ordered list."""
    key = beam_fn_api_pb2.StateKey()
    part = key.bag_user_state if start is None else key.ordered_list_user_state
    part.transform_id, part.user_state_id = STEP, cell
    part.window = IntervalWindowCoder().encode(WINDOWS[0])
    part.key = KEYS.get_impl().encode_nested("a")
    if start is not None:
        part.range.start, part.range.end = start, end
    return key


class Model:
    """The same cells as plain lists; equal moments of the ordered list are told apart by order."""

    def __init__(self) -> None:
        self.bag: list[int] = []
        self.set: set[int] = set()
        self.sum = 0
        self.one: int | None = None
        self.list: list[tuple[int, int]] = []

    def copy(self) -> Model:
        other = Model()
        other.bag, other.set, other.list = list(self.bag), set(self.set), list(self.list)
        other.sum, other.one = self.sum, self.one
        return other


def within(found: Any, start: int, end: int) -> list[tuple[int, int]]:
    """Sort entries by moment and value: Beam itself leaves the order of equal moments open."""
    return sorted((m, v) for m, v in found if start <= m < end)


def seconds(found: Any) -> list[tuple[int, int]]:
    pairs = [(int(moment), value) for moment, value in found]
    assert [m for m, _ in pairs] == sorted(m for m, _ in pairs)
    return sorted(pairs)


def perform(worker: Worker, at: tuple[str, Any, str], model: Model, operation: Any) -> None:
    key, window, step = at
    name, value = operation
    cell = name.split()[0]
    spec = {"bag": BAG, "set": SET, "sum": SUM, "one": ONE, "list": LIST}[cell]
    state = worker.state(spec, key, window, step)
    match name:
        case "bag add":
            state.add(value)
            model.bag.append(value)
        case "bag clear":
            state.clear()
            model.bag = []
        case "bag read":
            assert list(state.read()) == model.bag
        case "set add":
            state.add(value)
            model.set.add(value)
        case "set clear":
            state.clear()
            model.set = set()
        case "sum add":
            state.add(value)
            model.sum += value
        case "sum clear":
            state.clear()
            model.sum = 0
        case "sum read":
            assert state.read() == model.sum
        case "one write":
            state.write(value)
            model.one = value
        case "one clear":
            state.clear()
            model.one = None
        case "list add":
            state.add((Timestamp(value[0]), value[1]))
            model.list.append(value)
        case "list clear":
            state.clear()
            model.list = []
        case "list cut":
            state.clear_range(Timestamp(value[0]), Timestamp(value[1]))
            model.list = [e for e in model.list if not value[0] <= e[0] < value[1]]
        case "list part":
            found = state.read_range(Timestamp(value[0]), Timestamp(value[1]))
            assert seconds(found) == within(model.list, *value)


def check_all(worker: Worker, models: dict[Any, Model]) -> None:
    for (key, window, step), model in models.items():
        at = (key, window, step)
        assert list(worker.state(BAG, *at).read()) == model.bag
        assert set(worker.state(SET, *at).read()) == model.set
        assert worker.state(SUM, *at).read() == model.sum
        assert worker.state(ONE, *at).read() == model.one
        assert seconds(worker.state(LIST, *at).read()) == within(model.list, -99, 99)


@pytest.fixture(params=[True, False], ids=["tiny chunks", "usual chunks"])
def chunks(request: Any, monkeypatch: Any) -> None:
    """Chunks so small that every way of storing a cell is met, and those of real life."""
    if request.param:
        monkeypatch.setattr(stored_cells, "INLINE_BYTES", 6)
        monkeypatch.setattr(stored_cells, "MANY_CHUNKS", 3)
        monkeypatch.setattr(stored_cells, "BIG_CHUNK_BYTES", 60)
        monkeypatch.setattr(stored_cells, "EXPIRY_SLICE_ROWS", 2)


@pytest.mark.usefixtures("chunks")
class TestAnyOperations:
    def test_cells_hold_what_plain_lists_would_however_epochs_are_cut(self) -> None:
        @given(script=st.lists(steps, min_size=20, max_size=80))
        @SMALL
        def runs(script: list[Any]) -> None:
            store = MemoryStore()
            worker = Worker(store)
            models: dict[Any, Model] = {}
            kept: dict[Any, Model] = {}
            for step in script:
                match step:
                    case "bundle":
                        worker.end_bundle()
                    case "epoch" | "process":
                        worker.end_epoch()
                        kept = {at: model.copy() for at, model in models.items()}
                        if step == "process":
                            worker = Worker(store)
                    case "crash":  # an epoch that fails leaves nothing behind
                        models = {at: model.copy() for at, model in kept.items()}
                        for context in worker.contexts.values():
                            context._all_states = {}
                        worker.cells.attach(store)
                    case (key, window, name, operation):
                        model = models.setdefault((key, window, name), Model())
                        perform(worker, (key, window, name), model, operation)
            check_all(worker, models)
            worker.end_epoch()
            worker = Worker(store)
            check_all(worker, models)
            for at in models:
                for spec in (BAG, SET, SUM, ONE, LIST):
                    worker.state(spec, *at).clear()
            worker.end_epoch()
            assert kinds(store)[Kind.CELL] == 0

        runs()

    def test_one_bag_is_a_plain_list(self) -> None:
        @given(script=st.lists(bag_steps, min_size=10, max_size=50))
        @SMALL
        def runs(script: list[Any]) -> None:
            store, model = MemoryStore(), []
            cells, key, impl = Worker(store).cells, state_key("bag"), INT.get_impl()
            for step in script:
                match step:
                    case "epoch":
                        cells.flush()
                        cells = Worker(store).cells
                    case "clear":
                        cells.clear(key)
                        model = []
                    case "read":
                        assert list(cells.blocking_get(key, impl)) == model
                    case values:
                        cells.extend(key, impl, values)
                        model += values
            cells.flush()
            cells = Worker(store).cells
            assert list(cells.blocking_get(key, impl)) == model
            cells.clear(key)
            cells.flush()
            assert kinds(store)[Kind.CELL] == 0

        runs()

    def test_one_ordered_list_is_a_plain_sorted_list(self) -> None:
        @given(script=st.lists(list_steps, min_size=10, max_size=50))
        @SMALL
        def runs(script: list[Any]) -> None:
            store = MemoryStore()
            model: list[tuple[int, int]] = []
            cells, impl = Worker(store).cells, coders.TupleCoder([INT, INT]).get_impl()
            for step in script:
                match step:
                    case "epoch":
                        cells.flush()
                        cells = Worker(store).cells
                    case ("cut", start, end):
                        cells.clear(state_key("list", start, end))
                        model = [e for e in model if not start <= e[0] < end]
                    case ("read", start, end):
                        want = [e for e in model if start <= e[0] < end]
                        key = state_key("list", start, end)
                        assert list(cells.blocking_get(key, impl)) == want
                    case ("add", entries):
                        cells.extend(state_key("list", 0, 0), impl, entries)
                        model = sorted([*model, *entries], key=lambda entry: entry[0])
            cells.flush()
            cells = Worker(store).cells
            assert list(cells.blocking_get(state_key("list", *EVERYTHING), impl)) == model
            cells.clear(state_key("list", *EVERYTHING))
            cells.flush()
            assert kinds(store)[Kind.CELL] == 0

        runs()

    def test_everything_expires_and_leaves_no_row(self) -> None:
        @given(script=st.lists(steps, min_size=5, max_size=60), early=st.booleans())
        @SMALL
        def runs(script: list[Any], early: bool) -> None:
            store = MemoryStore()
            worker = Worker(store)
            written = set()
            for step in script:
                match step:
                    case (key, window, name, operation):
                        if operation[0].endswith((" add", " write")):
                            perform(worker, (key, window, name), Model(), operation)
                            written.add((key, window, name))
                    case _:
                        worker.end_epoch()
            worker.end_bundle()
            if not early:
                worker.end_epoch()
            told: list[bytes] = []
            far = MAX_TIMESTAMP.micros
            assert worker.cells.expire(STAGE, far, never, told.extend) == len(written)
            assert len(told) == len(set(told)) == len(written)
            worker.end_epoch()
            assert store.rows == {}

        runs()


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
    for number in range(stored_cells.MANY_CHUNKS + 3):
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
    place = ShardOf(KEYS, PLACES).any
    for kind in (Kind.CELL, Kind.EXPIRY):
        found = {place_of(row) for row in store.rows if kind_of(row) is kind}
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
    assert few == epoch_cost(100_000)
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
    with pytest.raises(StateError, match="'blobs': chunk 0 of 1 is missing"):
        list(worker.state(spec, "a", GlobalWindow()).read())


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
