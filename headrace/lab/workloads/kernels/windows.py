"""Fixed windows given in milliseconds, and what their rows say of them."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration

_MICROS_PER_MS = 1_000


def fixed(window_ms: int) -> Any:
    """Give windows of so many milliseconds."""
    return FixedWindows(Duration(micros=window_ms * _MICROS_PER_MS))


def start_ms(window: Any) -> int:
    """Give the start of a window, milliseconds since 1970."""
    return int(window.start.micros // _MICROS_PER_MS)
