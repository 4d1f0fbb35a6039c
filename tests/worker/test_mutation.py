"""What user code has put out stays as it was, whatever the code does to the object later on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest

from tests.worker.harness import collect, gathered, gathered_by_beam, on_headrace, sorted_values


class ReusedList(beam.DoFn):  # type: ignore[misc]
    """Yields one list again and again, and empties it afterwards."""

    def process(self, element: int) -> Iterator[list[int]]:
        held: list[int] = []
        for i in range(3):
            held.append(element * 10 + i)
            yield held
        held.clear()


class ReusedValue(beam.DoFn):  # type: ignore[misc]
    """Yields pairs whose value is one dict, changed after each."""

    def process(self, element: int) -> Iterator[tuple[int, dict[str, int]]]:
        held: dict[str, int] = {}
        for i in range(3):
            held["last"] = element * 10 + i
            yield element % 2, held
        held.clear()


class ReusedListOfResults(beam.DoFn):  # type: ignore[misc]
    """Returns the list of its results, and changes that list in the next call."""

    def setup(self) -> None:
        self._out: list[int] = []

    def process(self, element: int) -> list[int]:
        self._out.clear()
        self._out.append(element)
        return self._out


def lists(element: int) -> list[int]:
    return [element * 10 + i for i in range(3)]


EXPECTED = [lists(x)[: i + 1] for x in (1, 2, 3, 4) for i in range(3)]


def test_a_list_emptied_after_it_was_yielded_passes_a_map_as_it_was() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2, 3, 4]) | beam.ParDo(ReusedList())
        made | "Copy" >> beam.Map(tuple) | "Same" >> beam.Map(list) | collect()

    assert gathered(build) == sorted(EXPECTED, key=repr)
    assert gathered_by_beam(build) == sorted(EXPECTED, key=repr)


def test_a_list_emptied_after_it_was_yielded_is_grouped_as_it_was() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2, 3, 4]) | beam.ParDo(ReusedList())
        made | beam.Map(lambda x: ("k", x)) | beam.GroupByKey() | beam.Map(sorted_values) | (
            collect()
        )

    assert gathered(build) == [("k", sorted(EXPECTED, key=repr))]


@pytest.mark.parametrize("typed", [False, True], ids=["any", "typed"])
def test_a_value_changed_after_it_was_yielded_is_grouped_as_it_was(typed: bool) -> None:
    def build(p: beam.Pipeline) -> None:
        step = beam.ParDo(ReusedValue())
        if typed:
            step = step.with_output_types(tuple[int, dict[str, int]])
        made = p | beam.Create([1, 2, 3, 4]) | step
        made | beam.GroupByKey() | beam.Map(sorted_values) | collect()

    def dicts(*numbers: int) -> list[dict[str, int]]:
        return [{"last": n} for n in numbers]

    assert gathered(build) == [
        (0, dicts(20, 21, 22, 40, 41, 42)), (1, dicts(10, 11, 12, 30, 31, 32)),
    ]  # fmt: skip


def test_a_value_changed_after_it_was_yielded_is_combined_as_it_was() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2, 3, 4]) | beam.ParDo(ReusedValue())
        made | beam.CombinePerKey(LastSum()) | collect()

    assert gathered(build) == [(0, 20 + 21 + 22 + 40 + 41 + 42), (1, 10 + 11 + 12 + 30 + 31 + 32)]


class LastSum(beam.CombineFn):  # type: ignore[misc]
    """Adds what the dicts hold."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: dict[str, int]) -> int:
        return accumulator + element["last"]

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


def test_a_list_of_results_that_is_used_again_loses_nothing() -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create(list(range(20))) | beam.ParDo(ReusedListOfResults()) | collect()

    assert sorted(gathered(build)) == list(range(20))


def test_two_consumers_of_a_list_see_it_as_it_was_put_out() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2]) | beam.ParDo(ReusedList())
        made | "Sum" >> beam.Map(sum) | collect("sums")
        made | "Size" >> beam.Map(len) | collect("sizes")

    found = on_headrace(build)[0]
    assert sorted(found["sums"]) == [10, 20, 21, 33, 41, 63]
    assert sorted(found["sizes"]) == [1, 1, 2, 2, 3, 3]


class OneBuffer:
    """Gives one list for every element, with other contents each time."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def __call__(self, element: int) -> list[int]:
        self._held[:] = [element]
        return self._held


def test_a_map_that_uses_one_list_for_all_its_results_loses_none() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2, 3], reshuffle=False) | "Buffer" >> beam.Map(OneBuffer())
        made | "Copy" >> beam.Map(tuple) | collect()

    assert gathered(build) == [(1,), (2,), (3,)]
