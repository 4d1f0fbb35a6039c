"""Makes windows out of slices: the values of a window are those of its slices, in order.

Takes the tables of slices, oldest first, gives the groups of one window after the other. What a
slice brings is kept once, whatever the number of windows it is in. Knows no store and no wire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.plan.slices import Slices
from headrace.worker.batched.plain_values import is_frozen
from headrace.worker.beam_types import Key, Value

#: The values of each key of one slice.
Table = dict[Key, list[Value]]
#: Makes one accumulator of several.
Merge = Callable[[Sequence[Value]], Value]
#: Gives values that share nothing with those it is given.
Copy = Callable[[list[Value]], list[Value]]


def slice_of(spans: Sequence[tuple[int, int]], slices: Slices) -> tuple[int, int] | None:
    """Give the slice whose windows these are; None if they are not all windows of one slice."""
    if len(spans) != slices.count:
        return None
    starts = [span[0] for span in spans]
    last = max(starts)
    if last - min(starts) != slices.size - slices.period:
        return None
    return last, last + slices.period


def spans_of(start: int, slices: Slices) -> Iterator[tuple[int, int]]:
    """Give the windows that a slice is in, the first to end first."""
    for end in range(start + slices.period, start + slices.size + 1, slices.period):
        yield end - slices.size, end


def ends_between(
    starts: Sequence[int], slices: Slices, after: int, until: int
) -> Iterator[int]:
    """Give the ends of the windows that have a slice and end after one moment, until another.

    Args:
        starts: of the slices, sorted.
        slices: how they lie.
        after: windows that ended until then are done.
        until: windows that end later are not due.
    """
    last = None
    for start in starts:
        first = start + slices.period
        if last is not None:
            first = max(first, last + slices.period)
        if first <= after:
            first = start + slices.period * (1 + (after - start) // slices.period)
        for end in range(first, min(start + slices.size, until) + 1, slices.period):
            yield end
            last = end


class Parts(ABC):
    """What the slices of the current window hold for one key, oldest first."""

    __slots__ = ()

    @abstractmethod
    def push(self, values: list[Value]) -> None:
        """Take the values of a slice that follows."""

    @abstractmethod
    def pop(self) -> bool:
        """Drop the oldest slice; give whether any is left."""

    @abstractmethod
    def values(self) -> list[Value]:
        """Give what the window hands on for the key."""


class _Joined(Parts):
    """All values, one slice after the other."""

    __slots__ = ("_copy", "_parts")

    def __init__(self, copy: Copy | None) -> None:
        self._parts: deque[list[Value]] = deque()
        self._copy = copy

    def push(self, values: list[Value]) -> None:
        self._parts.append(values)

    def pop(self) -> bool:
        self._parts.popleft()
        return bool(self._parts)

    def values(self) -> list[Value]:
        found = [value for part in self._parts for value in part]
        return found if self._copy is None else self._copy(found)


class _Reduced(Parts):
    """One plain value per slice, reduced by a builtin whose accumulators are lists of values."""

    __slots__ = ("_function", "_parts")

    def __init__(self, function: Callable[[Iterable[Value]], Value]) -> None:
        self._parts: deque[Value] = deque()
        self._function = function

    def push(self, values: list[Value]) -> None:
        if len(values) == 1 and len(values[0]) == 1:
            self._parts.append(values[0][0])
        else:
            self._parts.append(self._function([v for held in values for v in held]))

    def pop(self) -> bool:
        self._parts.popleft()
        return bool(self._parts)

    def values(self) -> list[Value]:
        return [[self._function(self._parts)]]


class _Stacks(Parts):
    """One accumulator per slice in two stacks, so that a window costs a few merges, not `count`.

    `_old` holds, for the older slices, what each of them and all after it up to the turn come to;
    `_new` holds the younger slices, `_total` what they come to. When `_old` is empty, the younger
    ones are turned over: each slice is merged twice and asked for often.
    """

    __slots__ = ("_merge", "_new", "_old", "_total")

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._old: list[Value] = []
        self._new: list[Value] = []
        self._total: Value = None

    def push(self, values: list[Value]) -> None:
        merged = values[0] if len(values) == 1 else self._merge(values)
        self._total = self._merge((self._total, merged)) if self._new else merged
        self._new.append(merged)

    def pop(self) -> bool:
        if not self._old:
            self._turn()
        self._old.pop()
        return bool(self._old or self._new)

    def _turn(self) -> None:
        old, merge = self._old, self._merge
        while self._new:
            younger = self._new.pop()
            old.append(merge((younger, old[-1])) if old else younger)
        self._total = None

    def values(self) -> list[Value]:
        if not self._old:
            return [self._total]
        if not self._new:
            return [self._old[-1]]
        return [self._merge((self._old[-1], self._total))]


class Combination:
    """How the values of slices become those of a window.

    Args:
        merge: given where values are accumulators.
        builtin: given where accumulators are lists of values that a builtin has yet to reduce.
        copy: gives values that share nothing with the given ones. Merging may change accumulators,
            and a slice is merged into several windows.
    """

    def __init__(
        self,
        merge: Merge | None = None,
        builtin: Callable[[Iterable[Value]], Value] | None = None,
        copy: Copy | None = None,
    ) -> None:
        self._merge, self._builtin, self._copy = merge, builtin, copy

    def parts(self, sample: list[Value]) -> Parts:
        """Begin the parts of a key, by what its first slice holds."""
        if self._builtin is not None:
            return _Reduced(self._builtin)
        if self._merge is None:
            return _Joined(None)
        if all(map(is_frozen, sample)):
            return _Stacks(self._merge)
        return self.joined()

    def joined(self) -> Parts:
        """Begin parts that keep all values as they are."""
        return _Joined(self._copy)


class Composer:
    """Goes from window to window, in the order of their ends."""

    def __init__(
        self, tables: dict[int, Table], slices: Slices, combination: Combination
    ) -> None:
        self._tables = tables
        self._slices = slices
        self._combination = combination
        self._starts = sorted(tables)
        self._first = 0  # of the slices in the current window
        self._next = 0  # the slice after the current window
        self._keys: dict[Key, Parts] = {}

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Give the ends of the windows that are due; see `ends_between`."""
        return ends_between(self._starts, self._slices, after, until)

    def window(self, end: int) -> Iterator[tuple[Key, list[Value]]]:
        """Give the groups of the window with this end; ends must not go back."""
        self._leave(end - self._slices.size)
        self._enter(end)
        return ((key, parts.values()) for key, parts in self._keys.items())

    def _enter(self, end: int) -> None:
        keys, parts = self._keys, self._combination.parts
        while self._next < len(self._starts) and self._starts[self._next] < end:
            for key, values in self._tables[self._starts[self._next]].items():
                found = keys.get(key)
                if found is None:
                    found = keys[key] = parts(values)
                elif type(found) is _Stacks and not all(map(is_frozen, values)):
                    found = keys[key] = self._again(key)
                found.push(values)
            self._next += 1

    def _again(self, key: Key) -> Parts:
        """Begin a key's parts anew: what its slices hold may change when it is merged."""
        parts = self._combination.joined()
        for start in self._starts[self._first : self._next]:
            values = self._tables[start].get(key)
            if values is not None:
                parts.push(values)
        return parts

    def _leave(self, begin: int) -> None:
        keys = self._keys
        while self._first < len(self._starts) and self._starts[self._first] < begin:
            if self._first < self._next:
                for key in self._tables[self._starts[self._first]]:
                    if not keys[key].pop():
                        del keys[key]
            else:
                self._next += 1  # it was in no window that was asked for
            self._first += 1
