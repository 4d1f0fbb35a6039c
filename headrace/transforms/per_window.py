"""What the operators that fold a value per key and window begin with. No operator of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.transforms.arguments import function
from headrace.transforms.keys import check_window


class PerWindow(beam.PTransform):  # type: ignore[misc]
    """Takes a key and a value of elements, and the length of a window."""

    def __init__(
        self,
        *,
        key: Callable[[Any], Any],
        value: Callable[[Any], Any],
        window: float | None = None,
    ) -> None:
        super().__init__()
        self._key = function("key", key)
        self._value = function("value", value)
        self._window = check_window(window)
