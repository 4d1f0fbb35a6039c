"""Decides which events a partition has: event numbers of a run to offsets of a partition and back.

Blocks of event numbers are dealt to the partitions in turn, so all of them are equally far in the
run at any time. An offset counts a partition's own events from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import I64

#: Events of a block where there is one partition; generators work in columns.
LARGEST = 8_192
#: With several partitions a block is what is due in so many seconds: none may run far ahead.
TURN_SECONDS = 0.01


def block_for(rate: float, partitions: int) -> int:
    """Choose the size of blocks."""
    if partitions == 1:
        return LARGEST
    return int(min(LARGEST, max(16, rate * TURN_SECONDS)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One partition of a run.

    >>> second = Share(partition=1, partitions=3, block=10)
    >>> [second.number(offset) for offset in (0, 9, 10)]
    [10, 19, 40]
    >>> [second.offset_at(number) for number in (5, 10, 15, 25, 45)]
    [0, 0, 5, 10, 15]
    """

    partition: int  # from 0
    partitions: int
    block: int  # events

    def __post_init__(self) -> None:
        if not (0 <= self.partition < self.partitions and self.block > 0):
            msg = f"partition {self.partition} of {self.partitions} in blocks of {self.block}"
            raise OptionError(msg)

    def number(self, offset: int) -> int:
        """Give the event that stands at an offset."""
        turn, rest = divmod(offset, self.block)
        return (turn * self.partitions + self.partition) * self.block + rest

    def offset_at(self, number: int) -> int:
        """Give how many of the events below a number are this partition's."""
        turn, rest = divmod(number, self.block * self.partitions)
        return turn * self.block + min(self.block, max(0, rest - self.partition * self.block))

    def left_in_block(self, offset: int) -> int:
        """Give how many events follow each other from an offset on."""
        return self.block - offset % self.block

    def partition_of(self, numbers: I64) -> I64:
        """Give the partitions that events belong to."""
        return np.asarray(numbers // self.block % self.partitions)
