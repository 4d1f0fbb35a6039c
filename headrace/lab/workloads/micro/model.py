"""The element of the micro benchmarks: three 64-bit numbers, 24 bytes."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """An element, stamped when it is made."""

    number: int  # place in the order of arrival
    time: int  # microseconds since 1970
    value: int
