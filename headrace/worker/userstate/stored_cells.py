"""Answers Beam's state requests inside the task from a store: user state that outlives the epoch.

Takes Beam's state keys, gives decoded values. During an epoch a touched cell is a small object in
memory; rows are written by `flush` alone. Knows neither the clock nor how a cell becomes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream
from apache_beam.transforms.window import GlobalWindow

from headrace.errors import HeadraceError
from headrace.state.layout import Kind, head, stamp, under, until
from headrace.state.store import Store
from headrace.worker.beam_operations import Done
from headrace.worker.beam_types import CellKey, Coder, CoderImpl, Proto, Value
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.userstate.cell_rows import Log, OrderedLog, Step
from headrace.worker.userstate.cells import DONE

#: Expired windows are dropped in slices of so many rows: memory stays flat when millions expire.
EXPIRY_SLICE_ROWS = 20_000
#: Windows that end here or later live as long as the pipeline: no index row is spent on them.
END_OF_TIME = GlobalWindow().max_timestamp().micros

_TIME_END = 11  # kind, stage, time; see layout.name
_EMPTY: tuple[bytes, ...] = ()


class StoredCells:
    """Beam's state handler over a store; serves all stages of a superstep, epoch after epoch."""

    takes_plain_names = True  # a cell may be named by a `CellKey`

    def __init__(self, side_inputs: SideInputs) -> None:
        self._side_inputs = side_inputs
        self._steps: dict[str, Step] = {}
        self._store: Store | None = None
        #: By the name, or by the serialized state key: cheaper to get than its fields. The same
        #: cell is always asked for in the same form.
        self._bags: dict[bytes | CellKey, Log] = {}
        self._ordered: dict[tuple[str, str, bytes, bytes], OrderedLog] = {}

    def register(
        self,
        transform_id: str,
        stage: int,
        key_coder: Coder,
        window_coder: Coder,
        allowed_lateness: int,
    ) -> None:
        """Say what a stateful ParDo's state keys are made of; lateness in microseconds."""
        self._steps[transform_id] = Step(
            transform_id, stage, key_coder, window_coder, allowed_lateness
        )

    @property
    def registered(self) -> bool:
        """Whether any ParDo has state."""
        return bool(self._steps)

    def attach(self, store: Store) -> None:
        """Begin an epoch; what an epoch that failed left behind is forgotten."""
        self._forget()
        self._store = store

    def flush(self) -> None:
        """End the epoch: write every touched cell, keep nothing."""
        store = self._open()
        noted: set[bytes] = set()
        for bag in self._bags.values():
            if bag.flush(store):
                self._note_expiry(store, bag, noted)
        for ordered in self._ordered.values():
            if ordered.flush(store):
                self._note_expiry(store, ordered.log, noted)
        self._forget()
        self._store = None

    def _forget(self) -> None:
        self._bags = {}
        self._ordered = {}
        for step in self._steps.values():
            step.forget()

    def _open(self) -> Store:
        if self._store is None:
            msg = "user state was asked for outside an epoch: attach a store first"
            raise HeadraceError(msg)
        return self._store

    def _note_expiry(self, store: Store, log: Log, noted: set[bytes]) -> None:
        """Put the owner of a new cell into the index by expiry, unless it is there."""
        end = log.step.end(log.window)
        if end >= END_OF_TIME:
            return
        row = log.step.expiries + stamp(end) + log.owner()
        if row not in noted:
            noted.add(row)
            if store.get(row) is None:
                store.put(row, log.window)

    def _find(self, state_key: Proto) -> tuple[bytes | CellKey, Log | None]:
        """Give what a cell is found by, and the cell; None: it is no bag, or not in memory yet."""
        if type(state_key) is CellKey:
            return state_key, self._bags.get(state_key) or self._new_bag(state_key, state_key)
        name: bytes = state_key.SerializeToString()
        return name, self._bags.get(name)

    def blocking_get(self, state_key: Proto, coder: CoderImpl) -> Iterable[Value]:
        """Read a cell or a view of a side input."""
        name, bag = self._find(state_key)
        if bag is None:
            match state_key.WhichOneof("type"):
                case "bag_user_state":
                    bag = self._new_bag(name, state_key.bag_user_state)
                case "ordered_list_user_state":
                    cell = state_key.ordered_list_user_state
                    found = self._list(cell).entries(
                        self._open(), cell.range.start, cell.range.end
                    )
                    return (coder.decode_nested(data) for _, data in found)
                case _:
                    return self._side_inputs.read(state_key)
        store = self._open()
        whole = bag.whole(store)
        if whole is None:
            pieces = bag.pieces(store)
            return _decode(pieces, coder) if pieces else _EMPTY
        stream = create_InputStream(whole)
        found = []
        while stream.size() > 0:
            found.append(coder.decode_from_stream(stream, True))
        return found

    def extend(self, state_key: Proto, coder: CoderImpl, elements: Iterable[Value]) -> Done:
        """Append to a cell."""
        name, bag = self._find(state_key)
        if bag is None:
            match state_key.WhichOneof("type"):
                case "bag_user_state":
                    bag = self._new_bag(name, state_key.bag_user_state)
                case "ordered_list_user_state":
                    self._list(state_key.ordered_list_user_state).add(coder, elements)
                    return DONE
                case other:
                    msg = f"a write to state of kind {other} was asked for; only user state is"
                    raise HeadraceError(msg)
        out = create_OutputStream()
        encode = coder.encode_to_stream
        for element in elements:
            encode(element, out, True)
        if encoded := out.get():
            bag.added.append(encoded)
        return DONE

    def clear(self, state_key: Proto) -> Done:
        """Empty a cell, or a range of an ordered list."""
        name, bag = self._find(state_key)
        if bag is None:
            match state_key.WhichOneof("type"):
                case "bag_user_state":
                    bag = self._new_bag(name, state_key.bag_user_state)
                case "ordered_list_user_state":
                    cell = state_key.ordered_list_user_state
                    self._list(cell).cut(cell.range.start, cell.range.end)
                    return DONE
                case other:
                    msg = f"clearing state of kind {other} was asked for; only user state is"
                    raise HeadraceError(msg)
        bag.clear()
        return DONE

    def _new_bag(self, name: bytes | CellKey, cell: CellKey) -> Log:
        step = self._step(cell.transform_id)
        bag = self._bags[name] = Log(step, cell.user_state_id, cell.window, cell.key)
        return bag

    def _list(self, cell: Proto) -> OrderedLog:
        name = (cell.transform_id, cell.user_state_id, cell.window, cell.key)
        found = self._ordered.get(name)
        if found is None:
            found = self._ordered[name] = OrderedLog(Log(self._step(name[0]), *name[1:]))
        return found

    def _step(self, transform_id: str) -> Step:
        step = self._steps.get(transform_id)
        if step is None:
            msg = f"{transform_id} asked for user state, but was not registered as stateful"
            raise HeadraceError(msg)
        return step

    def expire(
        self,
        stage: int,
        watermark: int,
        waits: Callable[[bytes], bool],
        drop: Callable[[Collection[bytes]], object] | None = None,
    ) -> int:
        """Drop the state of windows that no element can reach any more.

        Args:
            stage: the stage whose input watermark moved.
            watermark: windows with max_timestamp + lateness before it are dropped.
            waits: whether elements of an encoded window are still pushed back; then it is kept and
                looked at again the next time.
            drop: told of the owners that were dropped; `StoredTimers.drop` fits.

        Returns:
            How many (step, key, window) were dropped.
        """
        store = self._open()
        gone = self._expire_touched(stage, watermark, waits)
        count = len(gone)
        if gone and drop is not None:
            drop(gone)
        cells = head(Kind.CELL, stage)
        start, end = until(Kind.EXPIRY, stage, watermark - 1)
        while rows := list(islice(store.scan(start, end), EXPIRY_SLICE_ROWS)):
            start = rows[-1][0] + b"\0"
            owners: list[bytes] = []
            for row, window in rows:
                if waits(window):
                    continue
                owner = row[_TIME_END:]
                for name, _ in list(store.scan(*under(cells + owner))):
                    store.delete(name)
                store.delete(row)
                if owner not in gone:
                    owners.append(owner)
            count += len(owners)
            if owners and drop is not None:
                drop(owners)
        return count

    def _expire_touched(
        self, stage: int, watermark: int, waits: Callable[[bytes], bool]
    ) -> set[bytes]:
        """Forget cells in memory; give the owners of those that the epoch wrote to."""
        gone: set[bytes] = set()

        def expired(log: Log) -> bool:
            if log.step.stage != stage:
                return False
            end = log.step.end(log.window)
            if end >= watermark or end >= END_OF_TIME or waits(log.window):
                return False
            if log.added:
                gone.add(log.owner())
            return True

        for name in [name for name, bag in self._bags.items() if expired(bag)]:
            del self._bags[name]
        for cell in [cell for cell, found in self._ordered.items() if expired(found.log)]:
            del self._ordered[cell]
        return gone

    @contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: list[Proto]) -> Iterator[None]:  # noqa: ARG002
        """Nothing is cached between bundles, so a bundle needs no token."""
        yield

    def done(self) -> None:
        """End of use; nothing is held outside this object."""


def _decode(pieces: list[bytes], coder: CoderImpl) -> Iterator[Value]:
    decode = coder.decode_from_stream
    for piece in pieces:
        stream = create_InputStream(piece)
        while stream.size() > 0:
            yield decode(stream, True)
