"""The mergers of an ordered region, as its authors describe them; each restores the source's order.

A merger takes items channel by channel, each channel in order, and gives what may leave. Items are
`Item`s; a pulse says up to which number all has come on its channel.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple, Protocol


class Item(NamedTuple):
    """A tuple or a pulse on its way."""

    number: int  # of the source's tuple that it comes from
    part: int = 0  # which of the results of that tuple
    pulse: bool = False


#: A pulse stands behind all results of the tuple whose number it has.
_BEHIND = 1 << 30


def pulse_after(number: int) -> Item:
    """Give the pulse that says: on this channel, all up to this number has come."""
    return Item(number, _BEHIND, pulse=True)


class Strategy(Enum):
    """How a region restores order."""

    ROUND_ROBIN = "round robin"  # no state, one result for each tuple: the order of channels
    NUMBERS = "sequence numbers"  # state by key, one result for each tuple
    PULSES = "sequence numbers and pulses"  # tuples may be dropped
    SUB_INDEX = "sequence number and sub-index"  # tuples may have several results, or none

    @property
    def numbered(self) -> bool:
        """Whether the splitter gives each tuple a number."""
        return self is not Strategy.ROUND_ROBIN

    @property
    def pulsed(self) -> bool:
        """Whether the splitter sends pulses."""
        return self in (Strategy.PULSES, Strategy.SUB_INDEX)


class Merger(Protocol):
    """Takes items, gives those that may leave."""

    def take(self, channel: int, item: Item) -> list[Item]:
        """Take an item of a channel; give what may leave now, in order."""


class RoundRobin:
    """Waits for the channel whose turn it is."""

    def __init__(self, channels: int) -> None:
        self._queues: list[deque[Item]] = [deque() for _ in range(channels)]
        self._next = 0

    def take(self, channel: int, item: Item) -> list[Item]:
        """Take an item of a channel; give what may leave now, in order."""
        self._queues[channel].append(item)
        out: list[Item] = []
        while self._queues[self._next]:
            out.append(self._queues[self._next].popleft())
            self._next = (self._next + 1) % len(self._queues)
        return out


class NextHeap:
    """Waits for the number that follows the last one; the next-heap holds the heads of queues."""

    def __init__(self, channels: int) -> None:
        self._queues: list[deque[Item]] = [deque() for _ in range(channels)]
        self._heads: list[tuple[Item, int]] = []
        self._last = -1

    def take(self, channel: int, item: Item) -> list[Item]:
        """Take an item of a channel; give what may leave now, in order."""
        queue = self._queues[channel]
        queue.append(item)
        if len(queue) == 1:
            heappush(self._heads, (item, channel))
        out: list[Item] = []
        while self._heads and self._heads[0][0].number == self._last + 1:
            head, source = self._heads[0]
            self._queues[source].popleft()
            if self._queues[source]:
                heapreplace(self._heads, (self._queues[source][0], source))
            else:
                heappop(self._heads)
            self._last = head.number
            out.append(head)
        return out


class SeenHeap:
    """Lets a number go when no lower one can come: the least of what channels were last seen with.

    The seen-heap is lazy: an entry that its channel has left behind is put right when it is met.

    Args:
        channels: how many.
        several: a tuple may have several results, so the number that follows the last one may
            come after more of the last one.
        keep_pulses: give each pulse once, for the region that follows; else none.
    """

    def __init__(self, channels: int, *, several: bool = False, keep_pulses: bool = False) -> None:
        self._queues: list[deque[Item]] = [deque() for _ in range(channels)]
        self._heads: list[tuple[Item, int]] = []
        self._newest = [-1] * channels
        self._seen = [(-1, channel) for channel in range(channels)]
        self._last = -1
        self._last_pulse = -1
        self._several = several
        self._keep = keep_pulses

    def _least_seen(self) -> int:
        while True:
            number, channel = self._seen[0]
            if number == self._newest[channel]:
                return number
            heapreplace(self._seen, (self._newest[channel], channel))

    def take(self, channel: int, item: Item) -> list[Item]:
        """Take an item of a channel; give what may leave now, in order."""
        queue = self._queues[channel]
        queue.append(item)
        self._newest[channel] = item.number
        if len(queue) == 1:
            heappush(self._heads, (item, channel))
        out: list[Item] = []
        while self._heads:
            head, source = self._heads[0]
            follows = not self._several and not head.pulse and head.number == self._last + 1
            if not follows and head.number > self._least_seen():
                break
            self._queues[source].popleft()
            if self._queues[source]:
                heapreplace(self._heads, (self._queues[source][0], source))
            else:
                heappop(self._heads)
            if not head.pulse:
                self._last = head.number
                out.append(head)
            elif self._keep and head.number > self._last_pulse:
                self._last_pulse = head.number
                out.append(head)
        return out


def merger_of(strategy: Strategy, channels: int, *, keep_pulses: bool = False) -> Merger:
    """Build the merger of a strategy."""
    match strategy:
        case Strategy.ROUND_ROBIN:
            return RoundRobin(channels)
        case Strategy.NUMBERS:
            return NextHeap(channels)
        case Strategy.PULSES:
            return SeenHeap(channels, keep_pulses=keep_pulses)
        case Strategy.SUB_INDEX:
            return SeenHeap(channels, several=True, keep_pulses=keep_pulses)
