"""Any operations on stored cells leave what plain lists would hold, wherever epochs are cut."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam import coders
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.layout import Kind
from headrace.state.store import MemoryStore
from headrace.worker.userstate import cell_rows as stored_logs
from headrace.worker.userstate import stored_cells
from tests.worker.stored_kit import (
    BAG,
    INT,
    LIST,
    ONE,
    OTHER,
    SET,
    STAGE,
    STEP,
    SUM,
    WINDOWS,
    Worker,
    kinds,
    never,
    state_key,
)

SMALL = settings(max_examples=100, deadline=None)

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
        monkeypatch.setattr(stored_logs, "INLINE_BYTES", 6)
        monkeypatch.setattr(stored_logs, "MANY_CHUNKS", 3)
        monkeypatch.setattr(stored_logs, "BIG_CHUNK_BYTES", 60)
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
            store = MemoryStore()
            model: list[Any] = []
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
