"""Order numbers at the ends of a stage: how a writer makes them, and how they travel.

Takes the numbers of causes, gives those of what leaves. A super tuple carries the numbers of its
elements in a column of its own, which begins with the least of them, so that sorting rows by that
column brings them into order. Runs of equal steps take a few bytes, others are coded by their
differences.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import lt
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import PlanError
from headrace.plan.order import BRANCH_BITS, SUB_BITS, PortOrder

Numbers = Sequence[int]

_RUN, _STEPS, _WIDE = 0, 1, 2
_SMALLEST = (np.int8, np.int16, np.int32, np.int64)
_WIDEST = 1 << 62  # differences below this fit NumPy's integers


class Numberer:
    """Numbers what leaves a stage by one port."""

    def __init__(self, order: PortOrder) -> None:
        self._shift = order.shift + (0 if order.branch is None else BRANCH_BITS)
        self._branch = order.branch or 0
        self._many = order.many
        self._last: int | None = None
        self._sub = 0

    def forget(self) -> None:
        """Begin an epoch."""
        self._last, self._sub = None, 0

    def one(self, cause: int | None) -> int:
        """Number one element."""
        number = _known(cause) << self._shift | self._branch
        if not self._many:
            return number
        if number == self._last:
            self._sub += 1
        else:
            self._last, self._sub = number, 0
        return number << SUB_BITS | self._sub

    def each(self, causes: Numbers) -> Numbers:
        """Number elements by what caused them."""
        if causes:
            _known(causes[0])
        numbers = widened(causes, self._shift, self._branch)
        return self._counted(numbers) if self._many else numbers

    def _counted(self, numbers: Numbers) -> Numbers:
        """Put a sub-index behind each number: the n-th that leaves by the same cause."""
        if type(numbers) is range and numbers and numbers[0] != self._last:
            self._last, self._sub = numbers[-1], 0
            first, step = numbers.start << SUB_BITS, numbers.step << SUB_BITS
            return range(first, first + step * len(numbers), step)
        last, sub = self._last, self._sub
        made = []
        for number in numbers:
            if number == last:
                sub += 1
            else:
                last, sub = number, 0
            made.append(number << SUB_BITS | sub)
        self._last, self._sub = last, sub
        return made


def widened(numbers: Numbers, shift: int, low: int = 0) -> Numbers:
    """Shift numbers to the left and put the same bits behind each.

    >>> widened(range(2, 4), 4, 1), widened([7], 4)
    (range(33, 65, 16), [112])
    """
    if not shift:
        return numbers
    if type(numbers) is range:
        start, step = numbers.start << shift | low, numbers.step << shift
        return range(start, start + step * len(numbers), step)
    return [number << shift | low for number in numbers]


def _known(cause: int | None) -> int:
    if cause is None:
        msg = (
            "something was put out that no element, timer or pane has caused, so that its place in "
            "the order is not known; run without --ordered, or put it out in process"
        )
        raise PlanError(msg)
    return cause


class Packed(NamedTuple):
    """Order numbers and, of elements that stand one behind the other, their sizes in bytes."""

    numbers: Numbers
    sizes: Sequence[int] | None


def pack(numbers: Numbers, width: int, sizes: Sequence[int] | None = None) -> bytes:
    """Give the bytes by which numbers travel; `width` is that of one number, in bytes.

    >>> unpack(pack(range(5, 9), 9), 9)
    Packed(numbers=range(5, 9), sizes=None)
    """
    least = min(numbers[0], numbers[-1]) if type(numbers) is range else min(numbers)
    body: tuple[Any, ...]
    if type(numbers) is range:
        body = (_RUN, numbers.start, numbers.step, len(numbers))
    else:
        body = _steps(numbers, least)
    packed_sizes = None if sizes is None else np.asarray(sizes, np.uint32).tobytes()
    return least.to_bytes(width, "big") + marshal.dumps((*body, packed_sizes), 2)


def _steps(numbers: Numbers, least: int) -> tuple[Any, ...]:
    if max(numbers) - least >= _WIDEST:
        return _WIDE, list(numbers)
    if len(numbers) == 1:
        return _RUN, least, 1, 1
    above = np.fromiter((n - least for n in numbers), np.int64, len(numbers))
    steps = np.diff(above, prepend=0)
    low, high = int(steps[1:].min()), int(steps[1:].max())
    if low == high and low > 0:
        return _RUN, least, low, len(numbers)
    low, high = min(low, int(steps[0])), max(high, int(steps[0]))
    kind = next(k for k in _SMALLEST if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return _STEPS, np.dtype(kind).char, steps.astype(kind).tobytes()


def unpack(data: bytes, width: int) -> Packed:
    """Give the numbers that `pack` took."""
    kind, *body, packed_sizes = marshal.loads(memoryview(data)[width:])
    sizes = None if packed_sizes is None else np.frombuffer(packed_sizes, np.uint32).tolist()
    if kind == _RUN:
        first, step, count = body
        return Packed(range(first, first + step * count, step), sizes)
    if kind == _WIDE:
        return Packed(body[0], sizes)
    char, steps = body
    least = int.from_bytes(data[:width], "big")
    above = np.cumsum(np.frombuffer(steps, char), dtype=np.int64).tolist()
    return Packed([least + n for n in above], sizes)


def is_sorted(numbers: Numbers) -> bool:
    """Whether no number is less than the one before."""
    if type(numbers) is range:
        return numbers.step > 0
    return not any(map(lt, numbers[1:], numbers))


def ends(sizes: Iterable[int]) -> list[int]:
    """Give where each of several pieces ends that stand one behind the other."""
    return list(accumulate(sizes))
