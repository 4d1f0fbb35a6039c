"""Order numbers at the ends of a stage: how a writer makes them, and how they travel.

Takes the numbers of causes, gives those of what leaves. A super tuple carries the numbers of its
elements in a column of its own, which begins with the least of them, so that sorting rows by that
column brings them into order. Runs of equal steps take a few bytes; others are taken apart into
columns of 32 bits, each coded in as few bytes as it needs.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import lt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.errors import PlanError
from headrace.plan.order import BRANCH_BITS, SUB_BITS, PortOrder

Numbers = Sequence[int]

#: A column of 32-bit numbers: one value; type and bytes; or first, type and bytes of differences.
Coded = tuple[int] | tuple[str, bytes] | tuple[int, str, bytes]
_Body = tuple[int, int, int, int] | tuple[int, int, int, list[Coded]]

_RUN, _LIMBS = 0, 1
_LIMB_BITS = 32
_LIMBS_OF_NUMPY = 2  # so many fit NumPy's integers
_WIDEST = 1 << 63  # less fits signed ones, which are made from lists in half the time
_UNSIGNED = (np.uint8, np.uint16, np.uint32)
_SIGNED = (np.int8, np.int16, np.int32)


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


def joined(parts: Sequence[Numbers]) -> Numbers:
    """Put numbers behind one another; runs that go on where the last one ended stay one run.

    >>> joined([range(2, 4), range(4, 9)]), joined([range(2, 4), [7]])
    (range(2, 9), [2, 3, 7])
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if type(first) is range:
        end, step = first.start, first.step
        for part in parts:
            if type(part) is not range or part.step != step or part.start != end:
                break
            end += step * len(part)
        else:
            return range(first.start, end, step)
    return list(chain.from_iterable(parts))


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
    run = _as_run(numbers)
    if run is not None:
        least = min(run[0], run[-1])
        body: _Body = (_RUN, run.start, run.step, len(run))
    else:
        least = min(numbers)
        body = (_LIMBS, *_in_limbs(numbers, least))
    packed_sizes = None if sizes is None else _coded(np.asarray(sizes, np.uint32))
    return least.to_bytes(width, "big") + marshal.dumps((body, packed_sizes), 2)


def unpack(data: bytes, width: int) -> Packed:
    """Give the numbers that `pack` took."""
    (kind, *body), packed_sizes = marshal.loads(memoryview(data)[width:])
    numbers: Numbers
    if kind == _RUN:
        first, step, count = body
        numbers = range(first, first + step * count, step)
    else:
        numbers = _from_limbs(*body)
    if packed_sizes is None:
        return Packed(numbers, None)
    return Packed(numbers, _decoded(packed_sizes, len(numbers)).tolist())


def _as_run(numbers: Numbers) -> range | None:
    """Give numbers of equal steps as a run."""
    if type(numbers) is range:
        return numbers
    first, last, count = numbers[0], numbers[-1], len(numbers)
    step = numbers[1] - first if count > 1 else 1
    if step <= 0 or last - first != step * (count - 1):
        return None
    run = range(first, last + step, step)
    return run if list(run) == numbers else None


def _in_limbs(numbers: Numbers, least: int) -> tuple[int, int, list[Coded]]:
    """Take the numbers apart: the bits that all share, and a column of each 32 bits below.

    A column of sub-indexes is small numbers, one of times or partitions is mostly constant: each
    is coded in as few bytes as it needs.
    """
    most = max(numbers)
    count = max(1, -((least ^ most).bit_length() // -_LIMB_BITS))
    shared = least >> count * _LIMB_BITS
    base = shared << count * _LIMB_BITS
    if most - base < _WIDEST:
        low = np.array([n - base for n in numbers], np.int64)
        limbs = [low.astype(np.uint32)]
        if count > 1:
            limbs = [(low >> _LIMB_BITS).astype(np.uint32), *limbs]
    else:
        size = count * _LIMB_BITS // 8
        raw = b"".join([(n - base).to_bytes(size, "big") for n in numbers])
        limbs = list(np.frombuffer(raw, ">u4").astype(np.uint32).reshape(-1, count).T)
    return len(numbers), shared, [_coded(limb) for limb in limbs]


def _from_limbs(count: int, shared: int, coded: list[Coded]) -> list[int]:
    limbs = [_decoded(limb, count) for limb in coded]
    high = shared << len(limbs) * _LIMB_BITS
    if len(limbs) <= _LIMBS_OF_NUMPY:
        low = limbs[-1]
        if len(limbs) > 1:
            low = limbs[0].astype(np.uint64) << np.uint64(_LIMB_BITS) | low
        return [high + n for n in low.tolist()]
    size = len(limbs) * _LIMB_BITS // 8
    raw = np.stack(limbs, axis=1).astype(">u4").tobytes()
    return [
        high + int.from_bytes(raw[start : start + size], "big")
        for start in range(0, len(raw), size)
    ]


def _coded(column: NDArray[np.uint32]) -> Coded:
    """Code 32-bit numbers: as one if all are equal, else by themselves or by their differences."""
    first = int(column[0]) if len(column) else 0
    high = int(column.max(initial=0))
    if high == int(column.min(initial=high)):
        return (high,)
    # Modulo 2^32, so that a carry into the next limb is a small step here.
    steps = np.diff(column, prepend=column[:1]).view(np.int32)
    own = next(k for k in _UNSIGNED if high <= np.iinfo(k).max)
    low, high = int(steps.min()), int(steps.max())
    apart = next(k for k in _SIGNED if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    if np.dtype(apart).itemsize < np.dtype(own).itemsize:
        return first, np.dtype(apart).char, steps.astype(apart).tobytes()
    return np.dtype(own).char, column.astype(own).tobytes()


def _decoded(coded: Coded, count: int) -> NDArray[np.uint32]:
    match coded:
        case (int(value),):
            return np.full(count, value, np.uint32)
        case (int(first), kind, steps):
            above = np.frombuffer(steps, kind).astype(np.int64).cumsum() + first
            return above.astype(np.uint32)  # modulo 2^32
        case (kind, data):
            return np.frombuffer(data, kind).astype(np.uint32)


def is_sorted(numbers: Numbers) -> bool:
    """Whether no number is less than the one before."""
    if type(numbers) is range:
        return numbers.step > 0
    return not any(map(lt, numbers[1:], numbers))


def ends(sizes: Iterable[int]) -> list[int]:
    """Give where each of several pieces ends that stand one behind the other."""
    return list(accumulate(sizes))
