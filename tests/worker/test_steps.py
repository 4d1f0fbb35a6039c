"""Only a DoFn that wants the element, its time, window and pane, and constants is a simple step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms import userstate

from headrace.worker.batched.plain_values import all_frozen, is_frozen
from headrace.worker.batched.steps import Results, step_of
from tests.naming import steady_repr


def inside(transform: Any) -> Any:
    """The DoFn of a ParDo, and its arguments, as a worker unpickles them."""
    return transform.fn, transform.args, transform.kwargs


class Plain(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any) -> list[Any]:
        return [element, element]


class Stream(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, times: int = 2) -> Iterator[Any]:
        for _ in range(times):
            yield element


class WithKey(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, key: Any = beam.DoFn.KeyParam) -> Any:
        yield element, key


class WithState(beam.DoFn):  # type: ignore[misc]
    CELL = userstate.BagStateSpec("bag", coders.VarIntCoder())

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Any:  # noqa: B008
        yield element


class WithFinaliser(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, end: Any = beam.DoFn.BundleFinalizerParam) -> Any:
        yield element


class Batched(beam.DoFn):  # type: ignore[misc]
    def process_batch(self, batch: list[int]) -> Iterator[list[int]]:
        yield batch


@pytest.mark.parametrize(
    ("transform", "results", "given", "result"),
    [
        (beam.Map(lambda x: x + 1), Results.ONE, 1, 2),
        (beam.Map(str), Results.ONE, 1, "1"),
        (beam.Filter(lambda x: x > 1), Results.KEEP, 1, False),
        (beam.MapTuple(lambda a, b: a * b), Results.ONE, (3, 4), 12),
        (beam.FlatMap(lambda x: [x, x]), Results.FLAT, 1, [1, 1]),
        (beam.ParDo(Plain()), Results.MANY, 1, [1, 1]),
        (beam.Map(lambda x, y: x + y, 3), Results.ONE, 1, 4),
        (beam.Map(lambda x, y=1: x + y, y=3), Results.ONE, 1, 4),
        (beam.Map(lambda x, y, z=0: (x, y, z), 3, z=5), Results.ONE, 1, (1, 3, 5)),
        (beam.Filter(lambda x, low: x > low, 1), Results.KEEP, 2, True),
        (beam.MapTuple(lambda a, b=1, c=0: (a, b, c), 5, c=6), Results.ONE, (3,), (3, 5, 6)),
        (beam.FlatMap(lambda x, n: [x] * n, 3), Results.FLAT, 1, [1, 1, 1]),
    ],
    ids=["map", "map of a class", "filter", "map of tuples", "flat map", "dofn",
         "argument of a map", "keyword of a map", "both", "argument of a filter",
         "arguments of a map of tuples", "argument of a flat map"],
)
def test_the_function_inside_is_found_with_its_shape(
    transform: Any, results: Results, given: Any, result: Any
) -> None:
    step = step_of(*inside(transform))
    assert step is not None
    assert step.results is results
    assert step.function(given) == result


def test_a_generator_is_known_never_to_give_none() -> None:
    step = step_of(*inside(beam.ParDo(Stream())))
    assert step is not None
    assert step.results is Results.STREAM
    assert list(step.function(5)) == [5, 5]
    again = step_of(*inside(beam.ParDo(Stream(), 3)))
    assert again is not None
    assert (again.results, list(again.function(5))) == (Results.STREAM, [5, 5, 5])


@pytest.mark.parametrize(
    "transform",
    [
        beam.ParDo(WithKey()), beam.ParDo(WithState()),
        beam.ParDo(WithFinaliser()), beam.ParDo(Batched()),
        beam.Map(lambda x, time: (x, time), beam.DoFn.TimestampParam),
    ],
    ids=["key", "state", "finaliser", "batches", "time as an argument"],
)  # fmt: skip
def test_a_dofn_that_wants_more_than_the_element_is_left_to_beam(transform: Any) -> None:
    assert step_of(*inside(transform)) is None


@pytest.mark.parametrize(
    ("value", "frozen"),
    [
        (1, True), ("a", True), (None, True), (b"", True), (1.5, True), (1j, True),
        (frozenset({1}), True), ((), True), ((1, ("a", None)), True),
        (beam.window.TimestampedValue(1, 2), True),
        ((1, beam.window.Timestamp(2), beam.window.IntervalWindow(1, 2)), True),
        ([], False), ({}, False), (set(), False), ((1, []), False), (((1, [2]),), False),
        (bytearray(), False), (beam.window.TimestampedValue([], 2), False), (object(), False),
    ],
    ids=steady_repr,
)  # fmt: skip
def test_only_what_can_never_change_is_called_frozen(value: Any, frozen: bool) -> None:
    assert is_frozen(value) is frozen
    assert all_frozen([1, value]) is frozen
