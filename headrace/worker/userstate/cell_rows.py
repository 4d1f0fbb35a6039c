"""How user state lies in a store: who owns a row, and how a cell's bytes become rows.

Takes encoded bytes, gives them back in the order of writing, or by sort key. A cell in memory holds
what one epoch did to it; `flush` writes rows. Knows nothing of Beam's state requests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from hashlib import blake2b
from operator import itemgetter
from struct import Struct

from headrace.plan.lateness import over_from
from headrace.state.layout import KEY_GROUPS, Kind, head, part
from headrace.state.store import Store, odd_rows
from headrace.worker.beam_types import Coder, CoderImpl, Value
from headrace.worker.exchange.keys import ShardOf

#: A cell up to this size is one row, and so is written again whole when something is appended.
#: Larger: more bytes in the change log per append. Smaller: more rows to read.
INLINE_BYTES = 512
#: A cell that is read anyway gets its last chunks joined when so many of them are small.
MANY_CHUNKS = 16
#: A chunk of this size is never joined with others, so a byte is written again a few times only.
BIG_CHUNK_BYTES = 1 << 16

_COUNT_BYTES = 4
_FIRST_SORT_KEY, _LAST_SORT_KEY = -(1 << 63), (1 << 63) - 1  # Beam's bounds of an ordered list
_ADD, _CUT = 0, 1
_OPERATION = Struct(">Bqq")  # kind; an addition: sort key, size of what follows; a cut: start, end
_sort_key = itemgetter(0)


class Owners:
    """Names who owns a row: one key and window of one step.

    An owner is the key group, the step, the key and the window, in this order, so that all rows of
    an owner stand side by side in every kind.
    """

    def __init__(self, transform_id: str, key_coder: Coder) -> None:
        self.step = blake2b(transform_id.encode(), digest_size=8).digest()
        self._key_group = ShardOf(key_coder, KEY_GROUPS).any
        self._decode = key_coder.get_impl().decode_nested
        self._keys: dict[bytes, bytes] = {}
        self._windows: dict[bytes, bytes] = {}

    def name(self, key: bytes, window: bytes) -> bytes:
        """Give the owner of a key in nested encoding and an encoded window."""
        start = self._keys.get(key)
        if start is None:
            key_group = self._key_group(self._decode(key)).to_bytes(4, "big")
            start = self._keys[key] = key_group + self.step + part(key)
        end = self._windows.get(window)
        if end is None:
            end = self._windows[window] = part(window)
        return start + end

    def forget(self) -> None:
        """Drop what was remembered of the epoch's keys and windows."""
        self._keys.clear()
        self._windows.clear()


class Step:
    """One stateful ParDo."""

    def __init__(
        self, transform_id: str, stage: int, key_coder: Coder, window_coder: Coder, lateness: int
    ) -> None:
        self.stage = stage
        self.owners = Owners(transform_id, key_coder)
        self.cells = head(Kind.CELL, stage)
        self.expiries = head(Kind.EXPIRY, stage)
        self._decode_window = window_coder.get_impl().decode
        self._lateness = lateness
        self._ends: dict[bytes, int] = {}
        self._states: dict[str, bytes] = {}

    def state_part(self, state: str) -> bytes:
        """Give a state's part of a row's name."""
        found = self._states.get(state)
        if found is None:
            found = self._states[state] = part(state.encode())
        return found

    def end(self, window: bytes) -> int:
        """Give the last moment at which a window's state may be asked for."""
        end = self._ends.get(window)
        if end is None:
            last = self._decode_window(window).max_timestamp().micros
            end = self._ends[window] = over_from(last, self._lateness) - 1
        return end

    def forget(self) -> None:
        """Drop what was remembered of the epoch's keys and windows."""
        self.owners.forget()
        self._ends.clear()


class Log:
    """The bytes of one cell, as a sequence of pieces that is only appended to or cleared.

    In the store: a row with the number of chunks and the last few bytes, and one row per chunk.
    What is sealed in a chunk is not written again by an append.
    """

    __slots__ = ("_chunks", "_count", "_row", "_tail", "added", "cleared", "key", "state", "step",
                 "window")  # fmt: skip

    def __init__(self, step: Step, state: str, window: bytes, key: bytes) -> None:
        self.step = step
        self.state = state
        self.window = window
        self.key = key
        self.cleared = False
        self.added: list[bytes] = []
        self._row = b""
        self._count = -1  # not known yet
        self._tail: bytes | None = None
        self._chunks: list[bytes] | None = None

    def owner(self) -> bytes:
        """Give the owner's name."""
        return self.step.owners.name(self.key, self.window)

    def clear(self) -> None:
        """Forget everything, in the store too once this is flushed."""
        self.cleared = True
        self.added = []
        self._chunks = None

    def exists(self, store: Store) -> bool:
        """Whether the cell had rows when the epoch began."""
        if self._count < 0:
            step = self.step
            owner = step.owners.name(self.key, self.window)
            self._row = step.cells + owner + step.state_part(self.state)
            found = store.get(self._row)
            if found is None:
                self._count = 0
            else:
                self._count = int.from_bytes(found[:_COUNT_BYTES], "big")
                self._tail = found[_COUNT_BYTES:]
        return self._tail is not None

    def pieces(self, store: Store) -> list[bytes]:
        """Give all bytes, oldest first."""
        if self.cleared:
            return self.added[:]
        if self._chunks is None:
            self.exists(store)
            self._chunks = [self._chunk(store, index) for index in range(self._count)]
        return [*self._chunks, *((self._tail,) if self._tail else ()), *self.added]

    def whole(self, store: Store) -> bytes | None:
        """Give all bytes if they are one small piece in the store, as most cells are."""
        if self.cleared or self.added or not self.exists(store) or self._count:
            return None
        return self._tail

    def _chunk(self, store: Store, index: int) -> bytes:
        found = store.get(self._chunk_row(index))
        if found is None:
            msg = f"state {self.state!r}: chunk {index} of {self._count} is missing in the store"
            raise odd_rows(msg)
        return found

    def _chunk_row(self, index: int) -> bytes:
        return self._row + index.to_bytes(_COUNT_BYTES, "big")

    def flush(self, store: Store) -> bool:
        """Write what changed; say whether the cell had no row before and has one now."""
        joined = not self.cleared and self._join_small(store)
        if not (self.cleared or self.added or joined):
            return False
        existed, before = self.exists(store), self._count
        if self.cleared and not self.added:
            if existed:
                store.delete(self._row)
            self._delete_chunks(store, 0, before)
            return False
        count = 0 if self.cleared else before
        old = b"" if self.cleared else self._tail or b""
        data = b"".join((old, *self.added))
        if len(data) > INLINE_BYTES:
            store.put(self._chunk_row(count), data)
            count, data = count + 1, b""
        store.put(self._row, count.to_bytes(_COUNT_BYTES, "big") + data)
        self._delete_chunks(store, count, before)
        return not existed

    def _delete_chunks(self, store: Store, start: int, end: int) -> None:
        for index in range(start, end):
            store.delete(self._chunk_row(index))

    def _join_small(self, store: Store) -> bool:
        if self._chunks is None or self._count < MANY_CHUNKS:
            return False
        first = self._count
        while first and len(self._chunks[first - 1]) < BIG_CHUNK_BYTES:
            first -= 1
        if self._count - first < MANY_CHUNKS:
            return False
        store.put(self._chunk_row(first), b"".join(self._chunks[first:]))
        self._delete_chunks(store, first + 1, self._count)
        self._count = first + 1
        return True


class OrderedLog:
    """An ordered list: its log tells what was added and which ranges were cut out.

    Additions and cuts need no reading. A list that was read is written anew when most of its log
    tells of entries that are gone.
    """

    __slots__ = ("_blind_cuts", "_operations", "_rows", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self._rows: list[tuple[int, bytes]] | None = None
        self._operations = 0
        self._blind_cuts = False

    def add(self, coder: CoderImpl, elements: Iterable[Value]) -> None:
        """Add entries; of equal sort keys the one added first stays first."""
        entries = [(element[0], coder.encode_nested(element)) for element in elements]
        if not entries:
            return
        self.log.added.append(_additions(entries))
        if self._rows is not None:
            self._operations += len(entries)
            for entry in entries:
                insort(self._rows, entry, key=_sort_key)

    def cut(self, start: int, end: int) -> None:
        """Take out the entries with start <= sort key < end."""
        if start <= _FIRST_SORT_KEY and end >= _LAST_SORT_KEY:
            self.log.clear()
            self._rows = None
            self._blind_cuts = False
            return
        if self._rows is None:
            self._blind_cuts = True
        elif not _cut(self._rows, start, end):
            return
        self._operations += 1
        self.log.added.append(_OPERATION.pack(_CUT, start, end))

    def entries(self, store: Store, start: int, end: int) -> list[tuple[int, bytes]]:
        """Give (sort key, encoded entry) with start <= sort key < end, in order."""
        rows = self._load(store)
        return rows[_position(rows, start) : _position(rows, end)]

    def _load(self, store: Store) -> list[tuple[int, bytes]]:
        if self._rows is None:
            rows: list[tuple[int, bytes]] = []
            self._operations = 0
            for piece in self.log.pieces(store):
                self._operations += _replay(piece, rows)
            rows.sort(key=_sort_key)
            self._rows = rows
        return self._rows

    def flush(self, store: Store) -> bool:
        """Write what changed; say whether the cell had no row before and has one now."""
        if self._blind_cuts and not self.log.exists(store):
            self._load(store)  # cuts of a list that is not there are not worth a row
        rows = self._rows
        if rows is not None and self._operations > 2 * len(rows):
            self.log.clear()
            if rows:
                self.log.added.append(_additions(rows))
        return self.log.flush(store)


def _position(rows: list[tuple[int, bytes]], sort_key: int) -> int:
    return bisect_left(rows, sort_key, key=_sort_key)


def _cut(rows: list[tuple[int, bytes]], start: int, end: int) -> bool:
    first, last = _position(rows, start), _position(rows, end)
    del rows[first:last]
    return first < last


def _additions(entries: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(
        [_OPERATION.pack(_ADD, sort_key, len(data)) + data for sort_key, data in entries]
    )


def _replay(piece: bytes, rows: list[tuple[int, bytes]]) -> int:
    """Apply a piece of a log to rows, which need not be sorted; give how many operations it has."""
    at = operations = 0
    while at < len(piece):
        kind, first, second = _OPERATION.unpack_from(piece, at)
        at += _OPERATION.size
        operations += 1
        if kind == _ADD:
            rows.append((first, piece[at : at + second]))
            at += second
        else:
            rows.sort(key=_sort_key)
            _cut(rows, first, second)
    return operations
