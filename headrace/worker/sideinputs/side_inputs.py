"""Answers Beam's requests for views of side inputs; and the views of a bounded run, in memory.

Takes windowed values per channel, gives the values a view asks for. Multimaps are indexed when they
are first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from apache_beam.coders.coder_impl import create_InputStream

from headrace.errors import HeadraceError
from headrace.worker.beam_types import Key, Proto, Value, Window, WindowedCoder


class View(Protocol):
    """What a side input can be asked for; windows and keys are encoded."""

    def values(self, window: bytes) -> list[Value]:
        """Give all values of a window."""

    def multimap(self, window: bytes) -> dict[bytes, tuple[Key, list[Value]]]:
        """Give encoded key -> (key, values) of a window."""

    def lookup(self, window: bytes, key: bytes) -> list[Value]:
        """Give the values of one key of a window."""


class SideChannel:
    """Everything one broadcast channel brought, per window, in memory."""

    def __init__(self, windowed_coder: WindowedCoder) -> None:
        self._impl = windowed_coder.get_impl()
        self._coder = windowed_coder
        self._window_impl = windowed_coder.window_coder.get_impl()
        self._by_window: dict[bytes, list[Value]] = {}
        self._multimaps: dict[bytes, dict[bytes, tuple[Key, list[Value]]]] = {}

    def add_rows(self, payload: bytes) -> None:
        """Take one super tuple."""
        stream = create_InputStream(payload)
        decode = self._impl.decode_from_stream
        encoded: dict[Window, bytes] = {}
        while stream.size() > 0:
            element = decode(stream, True)
            for window in element.windows:
                name = encoded.get(window)
                if name is None:
                    name = encoded[window] = self._window_impl.encode(window)
                self._by_window.setdefault(name, []).append(element.value)
        self._multimaps.clear()

    def values(self, window: bytes) -> list[Value]:
        """Give all values of a window."""
        return self._by_window.get(window, [])

    def multimap(self, window: bytes) -> dict[bytes, tuple[Key, list[Value]]]:
        """Give encoded key -> (key, values) of a window."""
        found = self._multimaps.get(window)
        if found is None:
            found = self._multimaps[window] = {}
            encode = self._coder.wrapped_value_coder.key_coder().get_impl().encode_nested
            for key, value in self.values(window):
                found.setdefault(encode(key), (key, []))[1].append(value)
        return found


    def lookup(self, window: bytes, key: bytes) -> list[Value]:
        """Give the values of one key of a window."""
        return self.multimap(window).get(key, (None, []))[1]

    def advance(self, watermark: int) -> set[bytes]:  # noqa: ARG002 (the end of time)
        """Nobody waits for a window."""
        return set()

    def expire(self, watermark: int) -> int:  # noqa: ARG002 (the end of time)
        """Nothing is forgotten before the task is over."""
        return 0


class SideInputs:
    """All side inputs of the stages of one task."""

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str], View] = {}

    def bind(self, channels: Mapping[tuple[str, str], View]) -> None:
        """Say which (transform, tag) reads which channel."""
        self._channels.update(channels)

    def read(self, state_key: Proto) -> Iterable[Value]:
        """Answer Beam's request for a view."""
        kind = state_key.WhichOneof("type")
        match kind:
            case "iterable_side_input":
                asked = state_key.iterable_side_input
                return iter(self._of(asked).values(asked.window))
            case "multimap_side_input":
                asked = state_key.multimap_side_input
                return iter(self._of(asked).lookup(asked.window, asked.key))
            case "multimap_keys_side_input":
                asked = state_key.multimap_keys_side_input
                return iter([key for key, _ in self._of(asked).multimap(asked.window).values()])
            case "multimap_keys_values_side_input":
                asked = state_key.multimap_keys_values_side_input
                return iter(list(self._of(asked).multimap(asked.window).values()))
        msg = f"state of kind {kind} is not known to this runner"
        raise HeadraceError(msg)

    def _of(self, asked: Proto) -> View:
        return self._channels[asked.transform_id, asked.side_input_id]
