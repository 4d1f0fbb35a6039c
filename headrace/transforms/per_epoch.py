"""What the operators that fold a value per key and epoch begin with. No operator of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.transforms.arguments import function
from headrace.transforms.keys import check_epoch


class PerEpoch(beam.PTransform):  # type: ignore[misc]
    """Takes a key and a value of elements, and the length of an epoch."""

    def __init__(
        self,
        *,
        key: Callable[[Any], Any],
        value: Callable[[Any], Any],
        epoch: float | None = None,
    ) -> None:
        super().__init__()
        self._key = function("key", key)
        self._value = function("value", value)
        self._epoch = check_epoch(epoch)
