"""The elements of the micro benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headrace.lab.data.randoms import I64, bits
from headrace.lab.workloads.kernels.paced import Cells, Numbers, Paced
from headrace.lab.workloads.micro.model import Item


@dataclass(frozen=True, slots=True)
class ItemGenerator(Paced):
    """Elements with a random value of 63 bits: all eight bytes of it count."""

    model: ClassVar[type] = Item
    own_fields: ClassVar[tuple[pa.Field, ...]] = (pa.field("value", pa.int64(), nullable=False),)

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Draw the values."""
        drawn = bits(self.settings.seed, 0, numbers) >> np.uint64(1)
        return (Numbers(drawn.astype(np.int64)),)
