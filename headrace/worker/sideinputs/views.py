"""Keeps what side inputs brought, per window and over many epochs, and answers reads of it.

Takes super tuples and the side watermark, gives views, and says which windows may be looked at.
Values are decoded only when a view asks for them. Knows nothing of who waits: see `pending`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from headrace.errors import HeadraceError
from headrace.state.byte_cache import ByteCache
from headrace.state.store import Store
from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_types import Key, Value, Window, WindowedCoder, Windowing
from headrace.worker.sideinputs.arrivals import Arrived, Part
from headrace.worker.sideinputs.firings import Firing, firing_of, patience_of
from headrace.worker.sideinputs.view_rows import NO_HEAD, ViewRows

#: Encoded size of the decoded views that a channel keeps between epochs, beside the latest one.
MAX_CACHED_BYTES = 16 << 20
#: Before the end of time, so that it passes every deadline.
_LAST_DEADLINE = MAX_TIMESTAMP.micros - 1


class StoredSide:
    """Everything one broadcast channel brought, per window, in a store."""

    def __init__(
        self,
        channel: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
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
        self._rows = ViewRows(channel, multimap)
        # Decoded views by their window and content; the latest always, whatever its size.
        self._cache = ByteCache[tuple[bytes, bytes], Value](MAX_CACHED_BYTES, keep_latest=True)
        self._forget_epoch()
        self._watermark = self._marked = 0

    def _forget_epoch(self) -> None:
        self._arrived: dict[WindowKey, Arrived] = {}
        self._named: dict[bytes, Arrived] = {}
        self._lists: dict[bytes, list[Value]] = {}
        self._maps: dict[bytes, dict[bytes, tuple[Key, list[Value]]]] = {}
        self._found: dict[tuple[bytes, bytes], list[Value]] = {}
        self._filled: dict[WindowKey, bool] = {}

    # -- one epoch

    def attach(self, store: Store, watermark: int) -> None:
        """Begin an epoch; `watermark` is the side watermark as far as the caller remembers it."""
        self._forget_epoch()
        self._rows.attach(store)
        if self._firing is Firing.LATE and (marked := self._rows.watermark()) is not None:
            watermark = max(watermark, marked)
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
                    held = arrived.parts[key] = Part(pane)
                elif held.pane > pane:
                    continue
                held.take(value, payload, start, end)
            start = end

    def _arrive(self, window: Window) -> Arrived:
        encoded = self._window_impl.encode(window)
        time = window.max_timestamp().micros
        replaces = self._firing is Firing.OFTEN or (
            self._firing is Firing.LATE and self._marked > time
        )
        arrived = Arrived(encoded, time, replaces, {})
        self._arrived[window_key(window)] = self._named[encoded] = arrived
        return arrived

    def advance(self, watermark: int) -> set[bytes]:
        """Take the side watermark of this epoch; give the (encoded) windows that got elements."""
        self._watermark = max(self._watermark, watermark)
        return set(self._named)

    def deadline(self, window: Window) -> int:
        """Give the last moment at which a window that is still empty may fire for the first time.

        When the watermark has passed it, the view is there, empty or not.
        """
        return int(min(window.max_timestamp().micros + self._patience, _LAST_DEADLINE))

    def ready(self, window: Window) -> bool:
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
            known = self._filled[key] = self._rows.filled(base)
        return known

    def flush(self) -> None:
        """Write what came to the store; nothing of the epoch stays but decoded views."""
        for arrived in self._named.values():
            head = self._rows.write(self._base(arrived.name), arrived)
            views: dict[bytes, Value] = self._maps if self._multimap else self._lists
            if arrived.name in views:
                self._cache.put((arrived.name, head.token), views[arrived.name], head.size)
        if self._firing is Firing.LATE and self._watermark > self._marked:
            self._rows.keep_watermark(self._watermark)
        self._forget_epoch()
        self._rows.attach(None)

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
        return self._rows.expire(last)

    # -- views

    def values(self, window: bytes) -> list[Value]:
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

    def multimap(self, window: bytes) -> dict[bytes, tuple[Key, list[Value]]]:
        """Give encoded key -> (key, values) of a window."""
        found = self._maps.get(window)
        if found is None:
            found = self._mapped(window) if self._multimap else self._index(self.values(window))
            self._maps[window] = found
        return found

    def lookup(self, window: bytes, key: bytes) -> list[Value]:
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
                rows = self._rows.of_key(self._base(window), key)
                found = [pair[1] for data in rows for pair in self._read(data)]
            if came is not None:
                found += [pair[1] for pair in came.values]
            self._found[window, key] = found
        return found

    def _listed(self, window: bytes) -> list[Value]:
        arrived = self._named.get(window)
        came = (
            []
            if arrived is None
            else [value for held in arrived.parts.values() for value in held.values]
        )
        if arrived is not None and arrived.replaces:
            return came
        stored: list[Value] = self._stored(window)
        return stored + came if came else stored

    def _mapped(self, window: bytes) -> dict[bytes, tuple[Key, list[Value]]]:
        stored: dict[bytes, tuple[Key, list[Value]]] = self._stored(window)
        arrived = self._named.get(window)
        if arrived is None:
            return stored
        found = dict(stored)  # the stored one may be in the cache, and stays as it is
        for key, held in arrived.parts.items():
            before = [] if arrived.replaces or key not in found else found[key][1]
            found[key] = held.values[0][0], before + [pair[1] for pair in held.values]
        return found

    def _stored(self, window: bytes) -> Value:
        """Give a window's content as it was when the epoch began; not to be changed."""
        base = self._base(window)
        head = self._rows.head(base)
        if head is NO_HEAD:
            return {} if self._multimap else []
        found = self._cache.get((window, head.token))
        if found is None:
            if self._multimap:
                keys = self._rows.all_keys(base)
                found = self._index(pair for data in keys for pair in self._read(data))
            else:
                chunks = self._rows.chunks(base, head)
                found = [value for data in chunks for value in self._read(data)]
            self._cache.put((window, head.token), found, head.size)
        return found

    def _index(self, pairs: Iterable[Value]) -> dict[bytes, tuple[Key, list[Value]]]:
        found: dict[bytes, tuple[Key, list[Value]]] = {}
        encode = self._encode_key
        if encode is None:
            msg = f"side input {self._channel} is read by key, but its elements have none"
            raise HeadraceError(msg)
        for key, value in pairs:
            found.setdefault(encode(key), (key, []))[1].append(value)
        return found

    def _read(self, data: bytes) -> Iterator[Value]:
        stream = create_InputStream(data)
        decode = self._decode
        while stream.size() > 0:
            yield decode(stream, True).value

    def _base(self, window: bytes) -> bytes:
        """Give how the names of a window's rows begin."""
        known = self._rows.base(window)
        if known is not None:
            return known
        arrived = self._named.get(window)
        if arrived is not None:
            return self._rows.name(window, arrived.time)
        return self._rows.name(window, self._window_impl.decode(window).max_timestamp().micros)
