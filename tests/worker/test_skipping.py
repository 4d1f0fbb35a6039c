"""Values that change nothing stay columns, and the answer is that of all values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window
from apache_beam.transforms.combiners import Largest, Smallest, TopCombineFn

from headrace.errors import ColumnsDifferError
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.testing import LocalRunner, LocalSession
from headrace.worker.batched import skipping
from tests.worker.lowering import not_called, on_columns

ROWS = [(f"k{i * i % 5}", (i * 7_919) % 4_001, float(i % 40)) for i in range(6_000)]
WORDS = "name string not null, number long not null, at double not null"
WINDOWS: dict[str, tuple[Any, Any]] = {
    "global": (None, lambda at: [0]),
    "fixed": (window.FixedWindows(10), lambda at: [at - at % 10]),
    "sliding": (
        window.SlidingWindows(20, 10),
        lambda at: [start for start in range(-20, 45, 10) if start <= at < start + 20],
    ),
}


class Widest(beam.CombineFn):  # type: ignore[misc]
    """All values with the greatest remainder, in a list that is changed in place."""

    def create_accumulator(self) -> Any:
        return -1, []

    def add_input(self, accumulator: Any, element: int) -> Any:
        rest = element % 1_000
        if rest < accumulator[0]:
            return accumulator
        if rest > accumulator[0]:
            return rest, [element]
        accumulator[1].append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        held = list(accumulators)
        best = max(rest for rest, _ in held)
        return best, [value for rest, values in held if rest == best for value in values]

    def extract_output(self, accumulator: Any) -> list[int]:
        return sorted(accumulator[1])


class Strict(Widest):
    """Refuses a value that it looks at."""

    def add_input(self, accumulator: Any, element: int) -> Any:
        if element < accumulator[0]:
            return accumulator
        if element == 4_000:
            msg = f"{element} is too many"
            raise ValueError(msg)
        return element, [element]


class Two(Widest):
    """Adds many values in another way than one: no combine."""

    def add_inputs(self, accumulator: Any, elements: Any, *args: Any, **kwargs: Any) -> Any:
        found = list(elements)
        return max(found) % 1_000, [len(found)]


def answers(fn: Any, windows: Any, flags: list[str], rows: Any = ROWS) -> list[Any]:
    """Run it by key; give (key, start of the window, answer)."""
    session = LocalSession()
    found: list[Any] = []
    frame = session.createDataFrame(rows, WORDS)
    options = PipelineOptions(["--shards=2", *flags])
    with beam.Pipeline(LocalRunner(session), options) as pipeline:
        pairs = (
            pipeline
            | ReadFromSpark(frame, timestamp="at")
            | "Pair" >> beam.Map(lambda row: (row.name, row.number)).with_output_types(
                tuple[str, int]
            )
        )
        if windows is not None:
            pairs = pairs | beam.WindowInto(windows)
        write = WriteToSpark(
            function=found.append, schema="name string, start long, answer string"
        )
        _ = pairs | beam.CombinePerKey(fn) | "Row" >> beam.Map(_row) | write
    return sorted(map(tuple, found[0].collect()))


def _row(pair: Any, span: Any = beam.DoFn.WindowParam) -> tuple[str, int, str]:
    start = span.start.micros if isinstance(span, window.IntervalWindow) else 0
    return pair[0], start, repr(pair[1])


def model(starts: Any) -> list[tuple[str, int, str]]:
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name, number, at in ROWS:
        for start in starts(int(at)):
            groups[name, start * 1_000_000].append(number)
    found = []
    for (name, start), numbers in groups.items():
        best = max(number % 1_000 for number in numbers)
        kept = sorted(number for number in numbers if number % 1_000 == best)
        found.append((name, start, repr(kept)))
    return sorted(found)


@pytest.mark.parametrize("first", [1, skipping.FIRST_ROWS, 100_000])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("flags", [[], ["--verify_columns"]], ids=["on", "verified"])
def test_the_answer_is_that_of_all_values(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], windows: str, first: int
) -> None:
    monkeypatch.setattr(skipping, "FIRST_ROWS", first)
    into, starts = WINDOWS[windows]
    assert answers(Widest(), into, flags) == model(starts)


@not_called
@on_columns
@pytest.mark.parametrize("fn", [Widest(), TopCombineFn(3)], ids=["users", "top"])
def test_most_values_are_never_objects(monkeypatch: pytest.MonkeyPatch, fn: Any) -> None:
    seen: list[int] = []
    give = skipping.Skipping._give

    def counting(self: Any, values: Any, rows: Any, *args: Any) -> None:
        seen.append(len(rows))
        give(self, values, rows, *args)

    monkeypatch.setattr(skipping.Skipping, "_give", counting)
    answers(fn, None, [])
    assert 0 < sum(seen) < len(ROWS) // 5


@pytest.mark.parametrize("flags", [[], ["--columns=off"]], ids=["on", "off"])
def test_an_exception_is_the_users_own(flags: list[str]) -> None:
    with pytest.raises(ValueError, match="4000 is too many"):
        answers(Strict(), None, flags)


@on_columns
def test_verifying_finds_methods_that_add_in_two_ways() -> None:
    with pytest.raises(ColumnsDifferError, match="CombinePerKey"):
        answers(Two(), None, ["--verify_columns"])


TOPS: dict[str, tuple[Any, Any]] = {
    "largest": (Largest(3), lambda numbers: sorted(numbers)[: -4 : -1]),
    "smallest": (Smallest(3), lambda numbers: sorted(numbers)[:3]),
    "one": (TopCombineFn(1), lambda numbers: [max(numbers)]),
    "none": (TopCombineFn(0), lambda numbers: []),
    "more than there are": (TopCombineFn(5_000), lambda numbers: sorted(numbers)[::-1]),
}


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("flags", [[], ["--verify_columns"]], ids=["on", "verified"])
@pytest.mark.parametrize("name", TOPS)
def test_beams_top_gives_what_sorting_gives(name: str, flags: list[str], windows: str) -> None:
    into, starts = WINDOWS[windows]
    fn, answer = TOPS[name]
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, number, at in ROWS:
        for start in starts(int(at)):
            groups[key, start * 1_000_000].append(number)
    wanted = sorted((*found, repr(answer(numbers))) for found, numbers in groups.items())
    assert answers(fn, into, flags) == wanted


@pytest.mark.parametrize("flags", [[], ["--verify_columns"]], ids=["on", "verified"])
def test_values_of_equal_rank_are_kept_as_objects_keep_them(flags: list[str]) -> None:
    fn = TopCombineFn(4, key=lambda number: number % 10)
    assert answers(fn, None, flags) == answers(fn, None, ["--columns=off"])


@on_columns
def test_where_most_values_change_something_batches_are_not_looked_at() -> None:
    looked: list[int] = []

    class Counting(skipping.Skipping):
        def _may_change(self, values: Any, rows: Any, *args: Any) -> Any:
            looked.append(len(rows))
            return super()._may_change(values, rows, *args)

    rising = [("a", number, 1.0) for number in range(40_000 * 4)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("headrace.worker.batched.combining.Skipping", Counting)
        found = answers(TopCombineFn(2), None, [], rising)
    assert found == [("a", 0, "[159999, 159998]")]
    assert len(looked) == 3  # at the first of five batches
