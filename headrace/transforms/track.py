"""What a continuous window knows of one key: who waits, and what the window holds.

Pure bookkeeping on plain lists and tuples, without Beam: `continuous_window.py` keeps them in state
and sets the timer. Times are microseconds; a tick is a millisecond, as fine as Beam's timers are.

An entry that waits is (time, rank, number) or (time, rank, number, element): rank decides among
equal times, number (of arrival) among equal ranks; without an element of its own the rank is it.
Entries wait in `near`, sorted, and from the time `fence` on in a far heap that the caller keeps in
no order. Near is bounded, so what a firing reads and writes does not grow with what waits: the far
heap is read only when near has run dry, and an eighth of it or more is then taken over.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

Entry = tuple[Any, ...]

TICK_MICROS = 1_000
#: Near is cut when it grows beyond this. More makes each key's state longer to read and write in
#: every bundle, fewer lets the far heap be read more often.
NEAR_MOST = 512
_TAKE_LEAST = NEAR_MOST // 2
_TAKE_SHARE = 8


def tick(micros: int) -> int:
    """Give the beginning of the tick that a time is in."""
    return micros - micros % TICK_MICROS


class Track:
    """The books of one key."""

    __slots__ = ("done", "fence", "near", "number", "tail")

    def __init__(
        self,
        done: int | None = None,
        number: int = 0,
        fence: int | None = None,
        near: list[Entry] | None = None,
        tail: list[Any] | None = None,
    ) -> None:
        self.done = done  # the tick of the last entry that was taken; None before the first
        self.number = number  # of the next arrival
        self.fence = fence  # a tick: entries from here on are far; None: none is
        self.near: list[Entry] = [] if near is None else near
        self.tail: list[Any] = [] if tail is None else tail  # what the next window begins with

    def plain(self) -> tuple[Any, ...]:
        """Give the arguments that make these books again."""
        return self.done, self.number, self.fence, self.near, self.tail

    def is_late(self, micros: int) -> bool:
        """Whether an entry that is younger by a tick or more has been taken."""
        return self.done is not None and micros < self.done

    def first(self) -> int | None:
        """Give the tick at which the next entry is due; None when nobody waits."""
        return tick(self.near[0][0]) if self.near else None

    def put(self, entry: Entry) -> list[Entry]:
        """Let an entry wait; gives those that the caller must add to the far heap."""
        self.number += 1
        if self.fence is not None and entry[0] >= self.fence:
            return [entry]
        near = self.near
        insort(near, entry)
        if len(near) <= NEAR_MOST:
            return []
        cut = _end_of_tick(near, _TAKE_LEAST)
        if cut == len(near):
            return []  # one tick cannot be divided between near and far
        far = near[cut:]
        del near[cut:]
        self.fence = tick(far[0][0])
        return far

    def take(self, now: int) -> list[Entry]:
        """Take out the near entries that are due when event time has reached `now`."""
        near = self.near
        cut = bisect_left(near, (tick(now) + TICK_MICROS,))
        due = near[:cut]
        del near[:cut]
        if due:
            self.done = tick(due[-1][0])
        return due

    def must_load(self) -> bool:
        """Whether near has run dry while others wait far away."""
        return self.fence is not None and not self.near

    def load(self, far: list[Entry]) -> list[Entry]:
        """Take over the first entries of the far heap; gives those that stay there."""
        far.sort()
        cut = _end_of_tick(far, max(_TAKE_LEAST, len(far) // _TAKE_SHARE))
        self.near = far[:cut]
        rest = far[cut:]
        self.fence = tick(rest[0][0]) if rest else None
        return rest


def _end_of_tick(entries: list[Entry], least: int) -> int:
    """Give the first place from `least` on at which a new tick begins, or the end."""
    if least >= len(entries):
        return len(entries)
    return bisect_left(entries, (tick(entries[least - 1][0]) + TICK_MICROS,), lo=least)


def last_elements(tail: list[Any], elements: list[Any], count: int) -> Iterator[list[Any]]:
    """Give for each element the last `count` up to it; `tail` is brought up to date.

    >>> tail = ["a"]
    >>> list(last_elements(tail, ["b", "c"], 2)), tail
    ([['a', 'b'], ['b', 'c']], ['c'])
    """
    for element in elements:
        window = [*tail, element]
        yield window
        tail.append(element)
        if len(tail) >= count:
            del tail[0]


def last_micros(tail: list[Any], timed: list[tuple[int, Any]], span: int) -> Iterator[list[Any]]:
    """Give for each (time, element) the elements less than `span` older, up to it.

    >>> tail = []
    >>> list(last_micros(tail, [(0, "a"), (4, "b"), (5, "c")], 5)), tail
    ([['a'], ['a', 'b'], ['b', 'c']], [(4, 'b'), (5, 'c')])
    """
    for entry in timed:
        oldest = entry[0] - span
        begin = 0
        while begin < len(tail) and tail[begin][0] <= oldest:
            begin += 1
        del tail[:begin]
        tail.append(entry)
        yield [element for _, element in tail]
