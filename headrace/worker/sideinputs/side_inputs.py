"""Holds the side inputs of one task, by window, and answers reads of them.

Takes decoded windowed values per channel, gives the values a view asks for. Multimaps are indexed
when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apache_beam.coders.coder_impl import create_InputStream

from headrace.errors import HeadraceError


class SideChannel:
    """Everything one broadcast channel brought, per window."""

    def __init__(self, windowed_coder: Any) -> None:
        self._impl = windowed_coder.get_impl()
        self._coder = windowed_coder
        self._window_impl = windowed_coder.window_coder.get_impl()
        self._by_window: dict[bytes, list[Any]] = {}
        self._multimaps: dict[bytes, dict[bytes, tuple[Any, list[Any]]]] = {}

    def add_rows(self, payload: bytes) -> None:
        """Take one super tuple."""
        stream = create_InputStream(payload)
        decode = self._impl.decode_from_stream
        encoded: dict[Any, bytes] = {}
        while stream.size() > 0:
            element = decode(stream, True)
            for window in element.windows:
                name = encoded.get(window)
                if name is None:
                    name = encoded[window] = self._window_impl.encode(window)
                self._by_window.setdefault(name, []).append(element.value)
        self._multimaps.clear()

    def values(self, window: bytes) -> list[Any]:
        """Give all values of a window."""
        return self._by_window.get(window, [])

    def multimap(self, window: bytes) -> dict[bytes, tuple[Any, list[Any]]]:
        """Give encoded key -> (key, values) of a window."""
        found = self._multimaps.get(window)
        if found is None:
            found = self._multimaps[window] = {}
            encode = self._coder.wrapped_value_coder.key_coder().get_impl().encode_nested
            for key, value in self.values(window):
                found.setdefault(encode(key), (key, []))[1].append(value)
        return found


class SideInputs:
    """All side inputs of the stages of one task."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str], SideChannel] = {}

    def bind(self, channels: Mapping[tuple[str, str], SideChannel]) -> None:
        """Say which (transform, tag) reads which channel."""
        self._channels.update(channels)

    def read(self, state_key: Any) -> Iterable[Any]:
        """Answer Beam's request for a view."""
        kind = state_key.WhichOneof("type")
        if kind not in (
            "iterable_side_input",
            "multimap_side_input",
            "multimap_keys_side_input",
            "multimap_keys_values_side_input",
        ):
            msg = f"state of kind {kind} is not known to this runner"
            raise HeadraceError(msg)
        part = getattr(state_key, kind)
        channel = self._channels[part.transform_id, part.side_input_id]
        match kind:
            case "iterable_side_input":
                return iter(channel.values(part.window))
            case "multimap_side_input":
                return iter(channel.multimap(part.window).get(part.key, (None, []))[1])
            case "multimap_keys_side_input":
                return iter([key for key, _ in channel.multimap(part.window).values()])
            case _:
                return iter(list(channel.multimap(part.window).values()))
