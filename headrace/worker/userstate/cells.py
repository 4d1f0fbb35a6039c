"""Answers Beam's state requests inside the task: user state that ends with it, in memory.

Takes Beam's state keys, gives decoded values. Cells hold encoded bytes, so that a value changed
after it was written does not change what was written.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream

from headrace.errors import HeadraceError
from headrace.worker.beam_types import CellKey, Coder, CoderImpl, Key, Proto, Value
from headrace.worker.sideinputs.side_inputs import SideInputs


class _Done:
    """A state request that has been answered already."""

    def get(self, timeout: float | None = None) -> None:  # noqa: ARG002 (Beam's future)
        return None


DONE = _Done()


class MemoryCells:
    """Beam's state handler, in memory."""

    takes_plain_names = True  # a cell may be named by a `CellKey`

    def __init__(self, side_inputs: SideInputs) -> None:
        self._side_inputs = side_inputs
        self._bags: dict[CellKey, list[bytes]] = {}
        self._ordered: dict[CellKey, list[tuple[int, int, bytes]]] = {}
        self._order = 0

    def blocking_get(self, state_key: Proto, coder: CoderImpl) -> Iterable[Value]:
        """Read a cell or a view of a side input."""
        if type(state_key) is CellKey:
            return _decode(list(self._bags.get(state_key, ())), coder)
        match state_key.WhichOneof("type"):
            case "bag_user_state":
                chunks = self._bags.get(_cell(state_key.bag_user_state), ())
                return _decode(list(chunks), coder)
            case "ordered_list_user_state":
                return self._read_range(state_key.ordered_list_user_state, coder)
            case _:
                return self._side_inputs.read(state_key)

    def extend(self, state_key: Proto, coder: CoderImpl, elements: Iterable[Value]) -> _Done:
        """Append to a cell."""
        if type(state_key) is CellKey:
            self._bags.setdefault(state_key, []).append(_encode(elements, coder))
            return DONE
        match state_key.WhichOneof("type"):
            case "bag_user_state":
                name = _cell(state_key.bag_user_state)
                self._bags.setdefault(name, []).append(_encode(elements, coder))
            case "ordered_list_user_state":
                rows = self._ordered.setdefault(_cell(state_key.ordered_list_user_state), [])
                for element in elements:
                    self._order += 1  # equal sort keys keep the order of their writing
                    insort(rows, (element[0], self._order, coder.encode_nested(element)))
            case other:
                msg = f"a write to state of kind {other} was asked for; only user state is written"
                raise HeadraceError(msg)
        return DONE

    def clear(self, state_key: Proto) -> _Done:
        """Empty a cell, or a range of an ordered list."""
        if type(state_key) is CellKey:
            self._bags.pop(state_key, None)
            return DONE
        match state_key.WhichOneof("type"):
            case "bag_user_state":
                self._bags.pop(_cell(state_key.bag_user_state), None)
            case "ordered_list_user_state":
                cell = state_key.ordered_list_user_state
                rows = self._ordered.get(_cell(cell), [])
                del rows[_position(rows, cell.range.start) : _position(rows, cell.range.end)]
            case other:
                msg = f"clearing state of kind {other} was asked for; only user state is cleared"
                raise HeadraceError(msg)
        return DONE

    def register(
        self, transform_id: str, stage: int, key_coder: Coder, window_coder: Coder,
        allowed_lateness: int,
    ) -> None:
        """Nothing need be known: cells are found by Beam's own keys."""

    def expire(
        self, stage: int, watermark: int, waits: Callable[[bytes], bool],  # noqa: ARG002
        drop: Callable[[Collection[bytes]], object] | None = None,  # noqa: ARG002
    ) -> int:
        """Nothing expires before the end of time, and everything ends there."""
        return 0

    def _read_range(self, cell: Proto, coder: CoderImpl) -> Iterator[Value]:
        rows = self._ordered.get(_cell(cell), [])
        chosen = rows[_position(rows, cell.range.start) : _position(rows, cell.range.end)]
        return (coder.decode_nested(data) for _, _, data in chosen)

    @contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: list[Proto]) -> Iterator[None]:  # noqa: ARG002
        """Nothing is cached between bundles, so a bundle needs no token."""
        yield

    def done(self) -> None:
        """End of use; nothing is held outside this object."""


def _cell(key: Key) -> CellKey:
    return CellKey(key.transform_id, key.user_state_id, key.window, key.key)


def _encode(elements: Iterable[Value], coder: CoderImpl) -> bytes:
    out = create_OutputStream()
    for element in elements:
        coder.encode_to_stream(element, out, True)
    return bytes(out.get())


def _position(rows: list[tuple[int, int, bytes]], sort_key: int) -> int:
    return bisect_left(rows, (sort_key,))


def _decode(chunks: list[bytes], coder: CoderImpl) -> Iterator[Value]:
    for chunk in chunks:
        stream = create_InputStream(chunk)
        while stream.size() > 0:
            yield coder.decode_from_stream(stream, True)
