"""What a grouping can do, whichever way it is computed.

In streaming groups live over many epochs: those that wait lie in the shard's store, never in memory
alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

from headrace.state.layout import Kind, head, time_of, under
from headrace.state.store import Store
from headrace.worker.beam_types import Value
from headrace.worker.grouping.bounded import Push

#: Makes one of many values that belong together, as a combiner merges its accumulators; of none,
#: the accumulator of nothing.
Compact = Callable[[list[Value]], list[Value]]

MIN_MICROS: int = MIN_TIMESTAMP.micros
MAX_MICROS: int = MAX_TIMESTAMP.micros
#: Elements travel with whole milliseconds: a hold between two of them would make late what is not.
_WIRE_MICROS = 1_000


class Grouper(Protocol):
    """Groups the elements of one stage on one shard."""

    #: Elements dropped in this epoch, as they came too late.
    dropped: int

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""

    def advance(self, watermark: int, now: int, push: Push) -> None:
        """Move the time, when all input of the epoch is in, and hand on what is due, in order."""

    def hold(self) -> int:
        """Say, after `advance`, what the output watermark may not pass."""

    def next_wakeup(self) -> int | None:
        """Say, after `advance`, at what processing time something is due; None if never."""


class StreamGrouper(ABC):
    """Groups the elements of one stage on one shard, epoch after epoch.

    An epoch is: attach, add as often as needed, advance, ask for hold and wakeup, flush. An epoch
    that fails in the middle leaves nothing behind: the next attach begins anew.
    """

    #: Elements dropped since attach, as their window had expired or its trigger had finished; an
    #: element counts once per window.
    dropped: int = 0

    @abstractmethod
    def attach(self, store: Store, watermark: int, now: int = 0) -> None:
        """Begin an epoch.

        Args:
            store: of the shard; rows are read and written here until the next attach.
            watermark: the input watermark at the end of the last epoch.
            now: processing time.
        """

    @abstractmethod
    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""

    @abstractmethod
    def advance(self, watermark: int, now: int, push: Push) -> None:
        """Move the time, when all input of the epoch is in, and hand on what is due, in order.

        Args:
            watermark: the input watermark; one that goes back is taken as standing still.
            now: processing time.
            push: takes groups and what they share.
        """

    @abstractmethod
    def hold(self) -> int:
        """Say, after `advance`, what the output watermark may not pass."""

    @abstractmethod
    def next_wakeup(self) -> int | None:
        """Say, after `advance`, at what processing time something is due; None if never."""

    @abstractmethod
    def flush(self) -> None:
        """End the epoch: write what waits to the store and forget it."""


def held_at(micros: int) -> int:
    """Give the hold of an output with this timestamp, as it looks after travelling."""
    return micros if micros >= MAX_MICROS else micros // _WIRE_MICROS * _WIRE_MICROS


def first_time(store: Store, kind: Kind, stage: int) -> int | None:
    """Give the earliest time among the rows of a kind that is ordered by time."""
    for row, _ in store.scan(*under(head(kind, stage))):
        return time_of(row)
    return None
