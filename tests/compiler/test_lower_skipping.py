"""Values are passed over only where `add_input` gives the very accumulator that it was given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.combiners import Largest, Smallest, TopCombineFn
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.one_step import NotLowered
from headrace.compiler.lower.skipping import lower_skipping
from headrace.lab.workloads.nexmark.q7 import KeepHighest
from headrace.plan.combines import Looks, SkippingCombine
from headrace.plan.shapes import FLOAT, INT, TEXT, Shape, TupleShape
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import of_objects

LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
BID = TupleShape((INT, INT, INT, INT, TEXT))


class Best(beam.CombineFn):  # type: ignore[misc]
    """The value with the greatest number; the others below differ from it."""

    def create_accumulator(self) -> Any:
        return -1, ()

    def add_input(self, accumulator: Any, element: Any) -> Any:
        if element[0] <= accumulator[0]:
            return accumulator
        return element[0], (element,)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return max(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator[1]


class Nested(Best):
    """Ways that part and meet, names for parts, and a way that is not understood."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        best, kept = accumulator
        number, _ = element
        twice = number * 2
        if twice > best:
            if number % 3 == 0:
                accumulator = twice, (*kept, element)
            else:
                return accumulator
        elif number < 0:
            print(number)
        return accumulator


class Raising(Best):
    """What may raise is evaluated before the test."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        share = 100 // element[0]
        return accumulator if share < accumulator[0] else (share, (element,))


class OneNumber(Best):
    """An accumulator that is a number."""

    def create_accumulator(self) -> Any:
        return 0.0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element[0] / 2 if element[0] / 2 > accumulator else accumulator


FNS: dict[str, tuple[Any, Any]] = {
    "best": (Best(), st.tuples(LONG, st.just(()))),
    "nested": (Nested(), st.tuples(LONG, st.just(()))),
    "raising": (Raising(), st.tuples(LONG, st.just(()))),
    "number": (OneNumber(), st.floats(allow_nan=True)),
}
PAIR = TupleShape((INT, TEXT))


@pytest.mark.parametrize("name", FNS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_passed_over_gives_the_accumulator_itself(name: str, data: Any) -> None:
    fn, accumulators = FNS[name]
    found = lower_skipping(fn, PAIR)
    assert isinstance(found, SkippingCombine), found
    pairs = st.tuples(accumulators, st.tuples(LONG, st.text(max_size=2)))
    rows = data.draw(st.lists(pairs, min_size=1, max_size=20))
    columns = of_objects(rows, TupleShape((found.shape, PAIR)))
    assert columns is not None
    outcome = kernel_of(found.changes)(columns)
    assert outcome.keep is not None
    given_back = set() if outcome.back is None else set(outcome.back.tolist())
    for place, ((accumulator, value), kept) in enumerate(
        zip(rows, outcome.keep.tolist(), strict=True)
    ):
        if not kept and place not in given_back:
            assert fn.add_input(accumulator, value) is accumulator


def test_values_below_the_best_are_passed_over() -> None:
    found = lower_skipping(Best(), PAIR)
    assert isinstance(found, SkippingCombine)
    rows = [((5, ()), (number, "")) for number in (4, 5, 6)]
    columns = of_objects(rows, TupleShape((found.shape, PAIR)))
    assert columns is not None
    outcome = kernel_of(found.changes)(columns)
    assert outcome.keep is not None
    assert outcome.keep.tolist() == [False, False, True]


def test_a_combine_with_its_own_add_inputs_is_found() -> None:
    found = lower_skipping(KeepHighest(), BID)
    assert isinstance(found, SkippingCombine)
    told = "gives the CombineFn nothing but values for which (x[2] >= accumulator[0])"
    assert str(found) == told


class Changed(Best):
    """Gives the same object, with something else in it."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        accumulator.append(element)
        return accumulator


class Equal(Best):
    """Gives another object that is equal: it may be of other types."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        best, kept = accumulator
        return best, kept


class Noted(Best):
    """Remembers how many values it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def add_inputs(self, accumulator: Any, elements: Any, *args: Any, **kwargs: Any) -> Any:
        for element in elements:
            self.seen += 1
            accumulator = self.add_input(accumulator, element)
        return accumulator


class Looped(Best):
    """Begins with more than an expression."""

    def create_accumulator(self) -> Any:
        found = []
        for number in range(2):
            found.append(number)
        return found


class More(Best):
    """Takes more than a value."""

    def add_input(self, accumulator: Any, element: Any, most: int = 3) -> Any:
        return accumulator if element[0] > most else (element[0], ())


@pytest.mark.parametrize("fn", [Changed, Equal, Noted, Looped, More])
def test_other_combines_are_given_every_value(fn: Any) -> None:
    assert isinstance(lower_skipping(fn(), PAIR), NotLowered)


@pytest.mark.parametrize("shape", [TEXT, FLOAT])
def test_values_without_such_parts_are_all_given(shape: Shape) -> None:
    assert isinstance(lower_skipping(Best(), shape), NotLowered)


@pytest.mark.parametrize(
    ("fn", "shape", "told"),
    [
        (TopCombineFn(3), INT, "(True if least is None else (least < x))"),
        (Largest(3), FLOAT, "(True if least is None else (least < x))"),
        (Smallest(3), TEXT, "(True if least is None else (least > x))"),
        (
            TopCombineFn(3, key=lambda pair: pair[0] % 7), PAIR,
            "(True if least is None else (least < (x[0] % 7)))",
        ),
    ],
)
def test_beams_top_passes_over_what_ranks_no_higher(fn: Any, shape: Shape, told: str) -> None:
    found = lower_skipping(fn, shape)
    assert isinstance(found, SkippingCombine), found
    assert found.looks is Looks.LEAST
    assert str(found.changes.keeps) == told


@pytest.mark.parametrize("fn", [TopCombineFn(3), TopCombineFn(3, key=lambda pair: [pair[0]])])
def test_what_is_ranked_by_more_than_a_number_or_text_is_given_to_top(fn: Any) -> None:
    assert isinstance(lower_skipping(fn, PAIR), NotLowered)
