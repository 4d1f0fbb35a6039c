"""CombineFns whose numbers go their own way become folds, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.combiners import MeanCombineFn
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.combine import lower_combine
from headrace.compiler.lower.one_step import NotLowered
from headrace.lab.workloads.hibench.fixwindow import FirstAndCount
from headrace.lab.workloads.windowed.aggregation import SumAndCount
from headrace.plan.combines import Fold, LoweredCombine
from headrace.plan.shapes import FLOAT, INT, TEXT, ScalarKind, Shape, TupleShape, nullable
from headrace.worker.batched.known_combines import known_combine
from headrace.worker.checks.verified_columns import same
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues, of_objects

LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
LATEST = 2**40


class Plain(beam.CombineFn):  # type: ignore[misc]
    """A sum; the others below differ from it."""

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return sum(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class Range(Plain):
    """Least, greatest, how many, and the sum of a product; written in several ways."""

    def create_accumulator(self) -> Any:
        return LATEST, -LATEST, 0, 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        low, high, count, total = accumulator
        left, right = element
        if left < low:
            low = left
        return low, max(right, high), 1 + count, total + left * 2

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        low, high = LATEST, -LATEST
        count = total = 0
        for other in accumulators:
            low = min(other[0], low)
            high = high if high >= other[1] else other[1]
            count, total = count + other[2], other[3] + total
        return low, high, count, total

    def extract_output(self, accumulator: Any) -> Any:
        low, high, count, total = accumulator
        return high - low, total / count


class Columns(Plain):
    """By columns of the accumulators."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator[0] + element, max(accumulator[1], element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        totals, greatest = zip(*accumulators, strict=True)
        return sum(totals), max(greatest)


class ZipOnly(Columns):
    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        totals, greatest = zip(*accumulators)  # noqa: B905 (as Beam's own writes it)
        return sum(totals), max(greatest)


GOOD: dict[str, tuple[Any, Shape, Any, tuple[Fold, ...]]] = {
    "plain": (Plain(), INT, LONG, (Fold.SUM,)),
    "first and count": (FirstAndCount(), INT, LONG, (Fold.LEAST, Fold.SUM)),
    "sum and count": (SumAndCount(), INT, LONG, (Fold.SUM, Fold.SUM)),
    "mean": (MeanCombineFn(), INT, LONG, (Fold.SUM, Fold.SUM)),
    "range": (
        Range(), TupleShape((INT, INT)), st.tuples(LONG, LONG),
        (Fold.LEAST, Fold.GREATEST, Fold.SUM, Fold.SUM),
    ),
    "columns": (Columns(), INT, LONG, (Fold.SUM, Fold.GREATEST)),
    "zip": (ZipOnly(), INT, LONG, (Fold.SUM, Fold.GREATEST)),
}


@pytest.mark.parametrize("name", GOOD)
@settings(max_examples=60)
@given(data=st.data())
def test_columns_come_to_what_the_methods_come_to(name: str, data: Any) -> None:
    fn, shape, values, folds = GOOD[name]
    made = lower_combine(fn, shape)
    assert isinstance(made, LoweredCombine), made
    assert made.folds == folds
    known = known_combine(fn, made)
    assert known is not None
    given_values = data.draw(st.lists(values, min_size=1, max_size=12))
    numbers = np.array([i % 3 for i in range(len(given_values))])
    groups = min(3, len(given_values))
    columns = of_objects(given_values, shape)
    assert columns is not None
    feeds = known.feed(columns)
    if feeds is None:
        return  # a value for which a kernel is not sure: the methods are asked
    leaves = known.columns(feeds, numbers, groups)
    if leaves is None:
        return  # a sum of more than 64 bits
    found = ColumnValues(made.shape, [Column(ScalarKind.INT, leaf) for leaf in leaves])
    wanted = [fn.create_accumulator() for _ in range(groups)]
    for number, value in zip(numbers.tolist(), given_values, strict=True):
        wanted[number] = fn.add_input(wanted[number], value)
    assert all(map(same, found.objects(), wanted))
    assert all(same(fn.merge_accumulators([a]), a) for a in wanted)
    results = known.extract(found)
    if results is not None:
        assert all(map(same, results.objects(), map(fn.extract_output, wanted)))


class Seeded(Plain):
    def create_accumulator(self) -> Any:
        return 1


class Last(Plain):
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element


class Crossed(Columns):
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator[1] + element, accumulator[0] + 1


class MergesOtherwise(Columns):
    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        totals, greatest = zip(*accumulators)  # noqa: B905 (as Beam's own writes it)
        return max(totals), sum(greatest)


class Sums(Columns):
    """Begins its loop where accumulators do not begin."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        total, count = 5, 0
        for a, b in accumulators:
            total += a
            count += b
        return total, count


class Breaks(Sums):
    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        total, count = 0, 0
        for a, b in accumulators:
            total += a
            count += b
            if count > 3:
                break
        return total, count


class Bulk(Plain):
    def add_inputs(self, accumulator: Any, elements: Iterable[Any], *_: Any) -> Any:
        return accumulator + 2 * sum(elements)


class Compacts(Plain):
    def compact(self, accumulator: Any) -> Any:
        return accumulator // 2


class Listing(Plain):
    def create_accumulator(self) -> Any:
        return []


class Floats(Plain):
    def create_accumulator(self) -> Any:
        return 0.0


class Depends(Plain):
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + (element if element > accumulator else 0)


class OneSided(Plain):
    """The lesser by another number than the one that is kept."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if element + 1 < accumulator else accumulator


BAD: list[tuple[type, Shape, str]] = [
    (Seeded, INT, "does not begin with 0"),
    (Last, INT, "computes x"),
    (Crossed, INT, "for number 0"),
    (MergesOtherwise, INT, "in another way than it adds"),
    (Sums, INT, "total does not begin as accumulators do"),
    (Breaks, INT, "line"),
    (Bulk, INT, "has add_inputs"),
    (Compacts, INT, "has compact"),
    (Listing, INT, "no tuple of whole numbers"),
    (Floats, INT, "no tuple of whole numbers"),
    (Depends, INT, "for number 0"),
    (OneSided, INT, "for number 0"),
    (Plain, FLOAT, "accumulator"),
    (Plain, TEXT, ""),
    (Plain, nullable(INT), ""),
]


@pytest.mark.parametrize(
    ("kind", "shape", "reason"), BAD, ids=[f"{k.__name__}-{s}" for k, s, _ in BAD]
)
def test_what_is_no_fold_stays_with_its_methods(kind: type, shape: Shape, reason: str) -> None:
    made = lower_combine(kind(), shape)
    assert isinstance(made, NotLowered)
    assert reason in made.reason


def test_a_combine_tells_what_it_computes() -> None:
    assert str(lower_combine(FirstAndCount(), INT)) == "min of x, sum of 1; gives (x[0], x[1])"
