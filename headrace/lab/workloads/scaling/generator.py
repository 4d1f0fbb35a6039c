"""The events of the scalability graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from headrace.lab.data.randoms import I64, below
from headrace.lab.workloads.kernels.paced import Cells, Numbers, Paced
from headrace.lab.workloads.scaling.model import Item

_KEY, _VALUE = 0, 1  # streams of random numbers


@dataclass(frozen=True, slots=True)
class ItemGenerator(Paced):
    """Random keys and values."""

    model: ClassVar[type] = Item
    own_fields: ClassVar[tuple[pa.Field, ...]] = (
        pa.field("key", pa.int64(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
    )

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Draw both."""
        settings = self.settings
        return (
            Numbers(below(settings.seed, _KEY, numbers, settings.keys)),
            Numbers(below(settings.seed, _VALUE, numbers, 2**31)),
        )
