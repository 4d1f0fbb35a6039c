"""What tests of stored state share: a store that counts, and a process with cells over a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.bundle_processor import FnApiUserStateContext
from apache_beam.transforms import userstate
from apache_beam.transforms.window import IntervalWindow

from headrace.state.layout import Kind, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.userstate.stored_cells import StoredCells

STEP, OTHER = "step", "another step"
STAGE = 7
KEYS = coders.StrUtf8Coder()
INT = coders.VarIntCoder()
SECOND = 1_000_000
LATENESS = 5 * SECOND

BAG = userstate.BagStateSpec("bag", INT)
SET = userstate.SetStateSpec("set", INT)
SUM = userstate.CombiningValueStateSpec("sum", combine_fn=sum)
ONE = userstate.ReadModifyWriteStateSpec("one", INT)
LIST = userstate.OrderedListStateSpec("list", INT)

WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20), IntervalWindow(20, 30)]


def never(window: bytes) -> bool:
    return False


class CountingStore(MemoryStore):
    """Counts what is asked of it, rows given by scans included."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def get(self, name: bytes) -> bytes | None:
        self.calls["get"] += 1
        return super().get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self.calls["put"] += 1
        super().put(name, value)

    def delete(self, name: bytes) -> None:
        self.calls["delete"] += 1
        super().delete(name)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        self.calls["scan"] += 1
        for row in super().scan(start, end):
            self.calls["row"] += 1
            yield row


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
