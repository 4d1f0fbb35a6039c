"""Keeps what side inputs brought, per window and over many epochs, and answers reads of it.

Takes super tuples and the side watermark, gives views, and says which windows may be looked at.
Values are decoded only when a view asks for them. Knows nothing of who waits: see `pending`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.transforms import sideinputs
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration

from headrace.errors import HeadraceError, StateError
from headrace.state.byte_cache import ByteCache
from headrace.state.layout import Kind, moment, name, part, rest_of, stamp, under, until
from headrace.state.store import Store, odd_rows
from headrace.worker.sideinputs.firings import Firing, firing_of, patience_of

#: A row of a window's elements is closed when it is this long; longer ones only cost memory.
MAX_CHUNK_BYTES = 1 << 20
#: Encoded size of the decoded views that a channel keeps between epochs, beside the latest one.
MAX_CACHED_BYTES = 16 << 20

_LIST, _MAP = b"l", b"m"  # how a channel's elements are kept: by window, or by window and key
_HEAD, _CHUNK, _KEY = b"h", b"c", b"k"
_ONE, _MANY = b"\x01", b"\x00"  # a key's row holds its elements, or says how many rows hold them
_TOKEN_BYTES = 16
_HEAD_ROW = struct.Struct(f">IQ{_TOKEN_BYTES}s")
#: Before the end of time, so that it passes every deadline.
_LAST_DEADLINE = MAX_TIMESTAMP.micros - 1
#: Time of the row that holds a channel's watermark: never before any watermark, so never expired.
_FOR_EVER = (1 << 63) - 1


def lookback_of(mapping: Any) -> int | None:
    """Give how long before a main window's end the side window it asks for may end.

    Microseconds; None if nobody can know. Beam's own mappings ask for the side window that holds
    the main window's end; of others only an attribute `maximum_lookback` (seconds) can tell.
    """
    bound = getattr(mapping, "maximum_lookback", None)
    if bound is not None:
        return int(Duration.of(bound).micros)
    own = getattr(mapping, "__module__", "") == sideinputs.__name__
    return 0 if own else None


def window_key(window: Any) -> Any:
    """Give what a dict may find a window by: hashing Beam's own interval windows is slow."""
    if type(window) is IntervalWindow:
        return window._start_micros, window._end_micros  # noqa: SLF001 (others build objects)
    return window


class _Part:
    """What came in one epoch for one window, or for one key of it."""

    __slots__ = ("_from", "_source", "_spans", "_to", "pane", "values")

    def __init__(self, pane: int) -> None:
        self.pane = pane
        self.values: list[Any] = []
        self._spans: list[bytes] = []
        self._source = b""
        self._from = self._to = 0

    def take(self, value: Any, payload: bytes, start: int, end: int) -> None:
        """Add an element that stands in a payload; neighbours become one span."""
        self.values.append(value)
        if self._source is payload and self._to == start:
            self._to = end
            return
        self._cut()
        self._source, self._from, self._to = payload, start, end

    def spans(self) -> list[bytes]:
        """Give the elements as they were encoded."""
        self._cut()
        return self._spans

    def _cut(self) -> None:
        if self._to > self._from:
            self._spans.append(self._source[self._from : self._to])
        self._source, self._from, self._to = b"", 0, 0


class _Arrived(NamedTuple):
    """A window that got elements in this epoch."""

    name: bytes
    time: int  # its last moment
    replaces: bool  # what came counts instead of what was there
    parts: dict[bytes, _Part]  # by encoded key; one part without key where keys do not matter


class _Head(NamedTuple):
    """What a window's first row says."""

    chunks: int
    size: int  # encoded bytes written
    token: bytes  # stands for the content: equal tokens, equal content


_NO_HEAD = _Head(0, 0, b"")


class StoredSide:
    """Everything one broadcast channel brought, per window, in a store."""

    def __init__(
        self,
        channel: int,
        windowed_coder: Any,
        windowing: Any,
        multimap: bool,
        lookback: int | None = 0,
    ) -> None:
        """Describe a channel.

        Args:
            channel: its number; names its rows.
            windowed_coder: of its elements.
            windowing: Beam's windowing of the side input.
            multimap: keep elements by key, and replace key by key. Both kinds of view can be asked
                for either way.
            lookback: how long to keep windows, see `lookback_of`; None: for ever.
        """
        self._channel = channel
        self._decode = windowed_coder.get_impl().decode_from_stream
        self._window_impl = windowed_coder.window_coder.get_impl()
        self._firing = firing_of(windowing)
        self._patience = patience_of(windowing)
        self._multimap = multimap
        self._lookback = lookback
        elements = windowed_coder.wrapped_value_coder
        self._keyed = multimap or (self._firing is not Firing.ONCE and elements.is_kv_coder())
        # A channel kept by window may be read by key too, if its elements are pairs.
        self._encode_key = (
            elements.key_coder().get_impl().encode_nested
            if multimap or elements.is_kv_coder()
            else None
        )
        self._form = _MAP if multimap else _LIST
        self._mark_row = name(Kind.SIDE, channel, 0, self._form, time=_FOR_EVER)
        # Decoded views by their window and content; the latest always, whatever its size.
        self._cache = ByteCache[tuple[bytes, bytes], Any](MAX_CACHED_BYTES, keep_latest=True)
        self._store: Store | None = None
        self._forget_epoch()
        self._watermark = self._marked = 0

    def _forget_epoch(self) -> None:
        self._arrived: dict[Any, _Arrived] = {}
        self._named: dict[bytes, _Arrived] = {}
        self._lists: dict[bytes, list[Any]] = {}
        self._maps: dict[bytes, dict[bytes, tuple[Any, list[Any]]]] = {}
        self._found: dict[tuple[bytes, bytes], list[Any]] = {}
        self._bases: dict[bytes, bytes] = {}
        self._filled: dict[Any, bool] = {}

    # -- one epoch

    def attach(self, store: Store, watermark: int) -> None:
        """Begin an epoch; `watermark` is the side watermark as far as the caller remembers it."""
        self._forget_epoch()
        self._store = store
        if self._firing is Firing.LATE:
            row = store.get(self._mark_row)
            watermark = watermark if row is None else max(watermark, moment(row))
        self._watermark = self._marked = watermark

    @property
    def watermark(self) -> int:
        """How far the side input has come."""
        return self._watermark

    def add_rows(self, payload: bytes) -> None:
        """Take one super tuple of windowed values."""
        stream = create_InputStream(payload)
        decode, whole, start = self._decode, len(payload), 0
        key = b""
        for_key = self._encode_key if self._keyed else None
        while stream.size() > 0:
            element = decode(stream, True)
            end = whole - stream.size()
            value = element.value
            if for_key is not None:
                key = for_key(value[0])
            for window in element.windows:
                arrived = self._arrived.get(window_key(window)) or self._arrive(window)
                pane = element.pane_info.index if arrived.replaces else 0
                held = arrived.parts.get(key)
                if held is None or held.pane < pane:
                    # Of two firings in one epoch the later one counts, as if in two epochs.
                    held = arrived.parts[key] = _Part(pane)
                elif held.pane > pane:
                    continue
                held.take(value, payload, start, end)
            start = end

    def _arrive(self, window: Any) -> _Arrived:
        encoded = self._window_impl.encode(window)
        time = window.max_timestamp().micros
        replaces = self._firing is Firing.OFTEN or (
            self._firing is Firing.LATE and self._marked > time
        )
        arrived = _Arrived(encoded, time, replaces, {})
        self._arrived[window_key(window)] = self._named[encoded] = arrived
        return arrived

    def advance(self, watermark: int) -> set[bytes]:
        """Take the side watermark of this epoch; give the (encoded) windows that got elements."""
        self._watermark = max(self._watermark, watermark)
        return set(self._named)

    def deadline(self, window: Any) -> int:
        """Give the last moment at which a window that is still empty may fire for the first time.

        When the watermark has passed it, the view is there, empty or not.
        """
        return int(min(window.max_timestamp().micros + self._patience, _LAST_DEADLINE))

    def ready(self, window: Any) -> bool:
        """Whether a view of this window may be looked at."""
        if self._watermark > self.deadline(window):
            return True
        if self._firing is not Firing.OFTEN:
            return False
        key = window_key(window)
        if key in self._arrived:
            return True
        known = self._filled.get(key)
        if known is None:
            base = self._base(self._window_impl.encode(window))
            known = self._filled[key] = self._rows.get(base + _HEAD) is not None
        return known

    def flush(self) -> None:
        """Write what came to the store; nothing of the epoch stays but decoded views."""
        for arrived in self._named.values():
            self._write(arrived)
        if self._firing is Firing.LATE and self._watermark > self._marked:
            self._rows.put(self._mark_row, stamp(self._watermark))
        self._forget_epoch()
        self._store = None

    def expire(self, watermark: int) -> int:
        """Forget the windows that nobody can ask for any more; give how many rows that were.

        The caller answers for `watermark`: no main window that ends before it may still get or
        hold elements, so neither late data nor elements that are pushed back.
        """
        if self._lookback is None:
            return 0
        last = watermark - self._lookback - 1
        for key, arrived in list(self._arrived.items()):
            if arrived.time <= last:
                del self._arrived[key], self._named[arrived.name]
                for views in (self._lists, self._maps):
                    views.pop(arrived.name, None)
        store, forgotten = self._rows, 0
        for row, _ in store.scan(*until(Kind.SIDE, self._channel, last)):
            if rest_of(row).startswith(self._form):
                store.delete(row)
                forgotten += 1
        return forgotten

    # -- views

    def values(self, window: bytes) -> list[Any]:
        """Give all values of a window."""
        found = self._lists.get(window)
        if found is None:
            if self._multimap:
                found = [
                    (key, value)
                    for key, values in self.multimap(window).values()
                    for value in values
                ]
            else:
                found = self._listed(window)
            self._lists[window] = found
        return found

    def multimap(self, window: bytes) -> dict[bytes, tuple[Any, list[Any]]]:
        """Give encoded key -> (key, values) of a window."""
        found = self._maps.get(window)
        if found is None:
            found = self._mapped(window) if self._multimap else self._index(self.values(window))
            self._maps[window] = found
        return found

    def lookup(self, window: bytes, key: bytes) -> list[Any]:
        """Give the values of one key of a window; reads no other key where it need not."""
        known = self._maps.get(window)
        if known is None and not self._multimap:
            known = self.multimap(window)
        if known is not None:
            return known.get(key, (None, []))[1]
        found = self._found.get((window, key))
        if found is None:
            arrived = self._named.get(window)
            came = None if arrived is None else arrived.parts.get(key)
            found = []
            if arrived is None or came is None or not arrived.replaces:
                row = self._base(window) + _KEY + part(key)
                found = [pair[1] for data in self._key_rows(row) for pair in self._read(data)]
            if came is not None:
                found += [pair[1] for pair in came.values]
            self._found[window, key] = found
        return found

    def _listed(self, window: bytes) -> list[Any]:
        arrived = self._named.get(window)
        came = (
            []
            if arrived is None
            else [value for held in arrived.parts.values() for value in held.values]
        )
        if arrived is not None and arrived.replaces:
            return came
        stored: list[Any] = self._stored(window)
        return stored + came if came else stored

    def _mapped(self, window: bytes) -> dict[bytes, tuple[Any, list[Any]]]:
        stored: dict[bytes, tuple[Any, list[Any]]] = self._stored(window)
        arrived = self._named.get(window)
        if arrived is None:
            return stored
        found = dict(stored)  # the stored one may be in the cache, and stays as it is
        for key, held in arrived.parts.items():
            before = [] if arrived.replaces or key not in found else found[key][1]
            found[key] = held.values[0][0], before + [pair[1] for pair in held.values]
        return found

    def _stored(self, window: bytes) -> Any:
        """Give a window's content as it was when the epoch began; not to be changed."""
        base = self._base(window)
        head = self._head(base)
        if head is _NO_HEAD:
            return {} if self._multimap else []
        found = self._cache.get((window, head.token))
        if found is None:
            found = self._decode_map(base) if self._multimap else self._decode_list(base, head)
            self._cache.put((window, head.token), found, head.size)
        return found

    def _decode_list(self, base: bytes, head: _Head) -> list[Any]:
        found: list[Any] = []
        for number in range(head.chunks):
            data = self._rows.get(base + _CHUNK + number.to_bytes(4, "big"))
            if data is None:
                msg = f"a part of side input {self._channel} is missing in the store"
                raise odd_rows(msg)
            found += self._read(data)
        return found

    def _decode_map(self, base: bytes) -> dict[bytes, tuple[Any, list[Any]]]:
        pairs = (
            pair
            for _, data in self._rows.scan(*under(base + _KEY))
            if not data.startswith(_MANY)
            for pair in self._read(data[1:])
        )
        return self._index(pairs)

    def _index(self, pairs: Iterable[Any]) -> dict[bytes, tuple[Any, list[Any]]]:
        found: dict[bytes, tuple[Any, list[Any]]] = {}
        encode = self._encode_key
        if encode is None:
            msg = f"side input {self._channel} is read by key, but its elements have none"
            raise HeadraceError(msg)
        for key, value in pairs:
            found.setdefault(encode(key), (key, []))[1].append(value)
        return found

    def _read(self, data: bytes) -> Iterator[Any]:
        stream = create_InputStream(data)
        decode = self._decode
        while stream.size() > 0:
            yield decode(stream, True).value

    # -- rows

    @property
    def _rows(self) -> Store:
        if self._store is None:
            msg = f"side input {self._channel} is used outside of an epoch"
            raise StateError(msg)
        return self._store

    def _base(self, window: bytes) -> bytes:
        """Give how the names of a window's rows begin."""
        base = self._bases.get(window)
        if base is None:
            arrived = self._named.get(window)
            time = (
                self._window_impl.decode(window).max_timestamp().micros
                if arrived is None
                else arrived.time
            )
            base = name(Kind.SIDE, self._channel, 0, self._form, part(window), time=time)
            self._bases[window] = base
        return base

    def _head(self, base: bytes) -> _Head:
        row = self._rows.get(base + _HEAD)
        return _NO_HEAD if row is None else _Head._make(_HEAD_ROW.unpack(row))

    def _write(self, arrived: _Arrived) -> None:
        base = self._base(arrived.name)
        head = self._head(base)
        # The token is made of the content alone, so that a view decoded in an epoch that then fails
        # is found again only by an epoch that really has the same content.
        digest = blake2b(digest_size=_TOKEN_BYTES)
        if arrived.replaces and not self._multimap:
            for number in range(head.chunks):
                self._rows.delete(base + _CHUNK + number.to_bytes(4, "big"))
            head = _NO_HEAD
        digest.update(b"%d %s" % (arrived.replaces, head.token.hex().encode()))
        if self._multimap:
            chunks, size = 0, self._write_keys(base, arrived, digest)
        else:
            chunks, size = self._write_chunks(base, arrived, head.chunks, digest)
        new = _Head(chunks, head.size + size, digest.digest())
        self._rows.put(base + _HEAD, _HEAD_ROW.pack(*new))
        views: dict[bytes, Any] = self._maps if self._multimap else self._lists
        if arrived.name in views:
            self._cache.put((arrived.name, new.token), views[arrived.name], new.size)

    def _write_chunks(
        self, base: bytes, arrived: _Arrived, chunks: int, digest: Any
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
                self._rows.put(row, b"".join(spans[first : last + 1]))
                chunks, first, bytes_held = chunks + 1, last + 1, 0
        return chunks, size

    def _write_keys(self, base: bytes, arrived: _Arrived, digest: Any) -> int:
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
        store = self._rows
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

    def _key_rows(self, row: bytes) -> Iterator[bytes]:
        data = self._rows.get(row)
        if data is None:
            return
        if data.startswith(_ONE):
            yield data[1:]
            return
        for number in range(int.from_bytes(data[1:], "big")):
            one = self._rows.get(row + number.to_bytes(4, "big"))
            if one is None:
                msg = f"a part of side input {self._channel} is missing in the store"
                raise odd_rows(msg)
            yield one[1:]
