"""How a side input's windows lie in a store: a head for each, then chunks, or a row for each key.

Bytes in, bytes out: knows neither how elements are decoded nor who asks for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from headrace.errors import StateError
from headrace.state.layout import Kind, moment, name, part, rest_of, stamp, under, until
from headrace.state.store import Store, odd_rows
from headrace.worker.sideinputs.arrivals import Arrived

#: A row of a window's elements is closed when it is this long; longer ones only cost memory.
MAX_CHUNK_BYTES = 1 << 20

_LIST, _MAP = b"l", b"m"  # how a channel's elements are kept: by window, or by window and key
_HEAD, _CHUNK, _KEY = b"h", b"c", b"k"
_ONE, _MANY = b"\x01", b"\x00"  # a key's row holds its elements, or says how many rows hold them
_TOKEN_BYTES = 16
_HEAD_ROW = struct.Struct(f">IQ{_TOKEN_BYTES}s")
#: Time of the row that holds a channel's watermark: never before any watermark, so never expired.
_FOR_EVER = (1 << 63) - 1


class Head(NamedTuple):
    """What a window's first row says."""

    chunks: int
    size: int  # encoded bytes written
    token: bytes  # stands for the content: equal tokens, equal content


NO_HEAD = Head(0, 0, b"")


class ViewRows:
    """The rows of one broadcast channel."""

    def __init__(self, channel: int, multimap: bool) -> None:
        self._channel = channel
        self._multimap = multimap
        self._form = _MAP if multimap else _LIST
        self._mark_row = name(Kind.SIDE, channel, 0, self._form, time=_FOR_EVER)
        self._store: Store | None = None
        self._bases: dict[bytes, bytes] = {}

    def attach(self, store: Store | None) -> None:
        """Begin an epoch, or end it: None."""
        self._store = store
        self._bases = {}

    def _open(self) -> Store:
        if self._store is None:
            msg = f"side input {self._channel} is used outside of an epoch"
            raise StateError(msg)
        return self._store

    def base(self, window: bytes) -> bytes | None:
        """Give how the names of a window's rows begin, if `name` was called for it before."""
        return self._bases.get(window)

    def name(self, window: bytes, time: int) -> bytes:
        """Give how the names of a window's rows begin; `time` is its last moment."""
        made = name(Kind.SIDE, self._channel, 0, self._form, part(window), time=time)
        self._bases[window] = made
        return made

    # -- reading

    def watermark(self) -> int | None:
        """Give the side watermark that was written down last."""
        row = self._open().get(self._mark_row)
        return None if row is None else moment(row)

    def filled(self, base: bytes) -> bool:
        """Whether a window has got elements."""
        return self._open().get(base + _HEAD) is not None

    def head(self, base: bytes) -> Head:
        """Give what a window's first row says."""
        row = self._open().get(base + _HEAD)
        return NO_HEAD if row is None else Head._make(_HEAD_ROW.unpack(row))

    def chunks(self, base: bytes, head: Head) -> Iterator[bytes]:
        """Give the elements of a window."""
        for number in range(head.chunks):
            yield self._part(base + _CHUNK + number.to_bytes(4, "big"))

    def all_keys(self, base: bytes) -> Iterator[bytes]:
        """Give the elements of a window, key by key."""
        for _, data in self._open().scan(*under(base + _KEY)):
            if not data.startswith(_MANY):
                yield data[1:]

    def of_key(self, base: bytes, key: bytes) -> Iterator[bytes]:
        """Give the elements of one key of a window."""
        row = base + _KEY + part(key)
        data = self._open().get(row)
        if data is None:
            return
        if data.startswith(_ONE):
            yield data[1:]
            return
        for number in range(int.from_bytes(data[1:], "big")):
            yield self._part(row + number.to_bytes(4, "big"))[1:]

    def _part(self, row: bytes) -> bytes:
        data = self._open().get(row)
        if data is None:
            msg = f"a part of side input {self._channel} is missing in the store"
            raise odd_rows(msg)
        return data

    # -- writing

    def keep_watermark(self, watermark: int) -> None:
        """Write the side watermark down."""
        self._open().put(self._mark_row, stamp(watermark))

    def expire(self, last: int) -> int:
        """Forget the windows that end until then; give how many rows that were."""
        store, forgotten = self._open(), 0
        for row, _ in store.scan(*until(Kind.SIDE, self._channel, last)):
            if rest_of(row).startswith(self._form):
                store.delete(row)
                forgotten += 1
        return forgotten

    def write(self, base: bytes, arrived: Arrived) -> Head:
        """Add what came for a window, or put it in the place of what was there."""
        head = self.head(base)
        # The token is made of the content alone, so that a view decoded in an epoch that then fails
        # is found again only by an epoch that really has the same content.
        digest = blake2b(digest_size=_TOKEN_BYTES)
        if arrived.replaces and not self._multimap:
            for number in range(head.chunks):
                self._open().delete(base + _CHUNK + number.to_bytes(4, "big"))
            head = NO_HEAD
        digest.update(b"%d %s" % (arrived.replaces, head.token.hex().encode()))
        if self._multimap:
            chunks, size = 0, self._write_keys(base, arrived, digest)
        else:
            chunks, size = self._write_chunks(base, arrived, head.chunks, digest)
        new = Head(chunks, head.size + size, digest.digest())
        self._open().put(base + _HEAD, _HEAD_ROW.pack(*new))
        return new

    def _write_chunks(
        self, base: bytes, arrived: Arrived, chunks: int, digest: blake2b
    ) -> tuple[int, int]:
        """Append rows; give how many the window has now, and the bytes written."""
        spans = [span for held in arrived.parts.values() for span in held.spans()]
        size, first, bytes_held = 0, 0, 0
        for last, span in enumerate(spans):
            digest.update(span)
            size += len(span)
            bytes_held += len(span)
            if bytes_held >= MAX_CHUNK_BYTES or last == len(spans) - 1:
                row = base + _CHUNK + chunks.to_bytes(4, "big")
                self._open().put(row, b"".join(spans[first : last + 1]))
                chunks, first, bytes_held = chunks + 1, last + 1, 0
        return chunks, size

    def _write_keys(self, base: bytes, arrived: Arrived, digest: blake2b) -> int:
        size = 0
        for key, held in arrived.parts.items():
            data = b"".join(held.spans())
            digest.update(b"%d %d " % (len(key), len(data)))
            digest.update(key)
            digest.update(data)
            size += self._write_key(base + _KEY + part(key), data, arrived.replaces)
        return size

    def _write_key(self, row: bytes, data: bytes, replaces: bool) -> int:
        """Write a key's elements: in its row at first, later in rows behind it.

        Gives by how many bytes the key grew.
        """
        store = self._open()
        old = store.get(row)
        count = int.from_bytes(old[1:], "big") if old is not None and old[:1] == _MANY else 0
        if old is None or replaces:
            for number in range(count):
                store.delete(row + number.to_bytes(4, "big"))
            store.put(row, _ONE + data)
            return len(data) - (0 if old is None else len(old) - 1)
        if not count:
            store.put(row + (0).to_bytes(4, "big"), old)
            count = 1
        store.put(row + count.to_bytes(4, "big"), _ONE + data)
        store.put(row, _MANY + (count + 1).to_bytes(4, "big"))
        return len(data)
