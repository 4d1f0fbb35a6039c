"""Windows and combines on columns give what they give on objects, and what a plain model gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import combiners, window
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.errors import ColumnsDifferError
from headrace.lab.workloads.hibench.fixwindow import FirstAndCount
from headrace.plan.expressions import Lowered
from headrace.plan.shapes import INT, TEXT, TupleShape
from headrace.worker.batched import column_combining, known_combines
from headrace.worker.batched.column_batches import TimeColumns
from headrace.worker.columns.values import of_arrow
from tests.worker.lowering import field, in_tuple, maps, not_called, on_columns, shape_of
from tests.worker.test_lowered_steps import run

EVENTS = "name string not null, number long not null, share double not null, at double not null"
SHAPE = shape_of(EVENTS)
ROWS = [(f"k{i * i % 11}", (i * 37) % 101 - 50, i / 8, float(i % 40)) for i in range(3_000)]
#: 4 * (2**62) needs 65 bits.
LARGE = [("a", 2**62, 0.5, 1.0)] * 4 + [("a", -3, 0.25, 2.0), ("b", -(2**63), 0.0, 3.0)]


class Spread(beam.CombineFn):  # type: ignore[misc]
    """A combine of the user's, of which nothing is known."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return sorted([*accumulator, element])[:: max(1, len(accumulator))]

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        found = sorted(value for held in accumulators for value in held)
        return [found[0], found[-1]]

    def extract_output(self, accumulator: list[int]) -> int:
        return max(accumulator) - min(accumulator)


def lowered_pair(value: str) -> Lowered:
    return maps(SHAPE, in_tuple(field(SHAPE, "name"), field(SHAPE, value)))


def pair_of(value: str) -> Any:
    kind = float if value == "share" else int
    return beam.Map(lambda row: (row.name, getattr(row, value))).with_output_types(
        tuple[str, kind]  # type: ignore[valid-type]
    )


class Combined(beam.PTransform):  # type: ignore[misc]
    """Pairs, windows, a combine, and rows with the window's start."""

    def __init__(self, windows: Any, combine: Any, value: str = "number") -> None:
        super().__init__()
        self._windows, self._combine, self._value = windows, combine, value

    def expand(self, rows: Any) -> Any:
        pairs = rows | "Pair" >> pair_of(self._value)
        if self._windows is not None:
            pairs = pairs | beam.WindowInto(self._windows)
        return pairs | beam.CombinePerKey(self._combine) | "Row" >> beam.Map(_row)


def _row(pair: Any, span: Any = beam.DoFn.WindowParam) -> tuple[str, int, str]:
    start = span.start.micros if isinstance(span, window.IntervalWindow) else 0
    return pair[0], start, repr(pair[1])  # the type shows too


ANSWERS = "name string, start long, answer string"
WINDOWS = {
    "global": (None, lambda at: [0]),
    "fixed": (window.FixedWindows(10, 3), lambda at: [at - (at - 3) % 10]),
    "sliding": (
        window.SlidingWindows(20, 5),
        lambda at: [start for start in range(-20, 45, 5) if start <= at < start + 20],
    ),
    "odd sliding": (  # the size is no multiple of the period: no grid, so objects
        window.SlidingWindows(20, 6),
        lambda at: [start for start in range(-24, 48, 6) if start <= at < start + 20],
    ),
}
COMBINES: dict[str, tuple[Any, Callable[[list[Any]], Any]]] = {
    "sum": (sum, sum),
    "min": (min, min),
    "max": (max, max),
    "count": (combiners.CountCombineFn(), len),
    "mean": (combiners.MeanCombineFn(), lambda values: sum(values) / float(len(values))),
    "folds": (FirstAndCount(), lambda values: (min(2**62, *values, 2**62), len(values))),
    "several": (
        combiners.SingleInputTupleCombineFn(
            sum, FirstAndCount(), max, combiners.MeanCombineFn(), combiners.CountCombineFn()
        ),
        lambda values: (
            sum(values), (min(2**62, *values, 2**62), len(values)), max(values),
            sum(values) / float(len(values)), len(values),
        ),
    ),
    "users": (Spread(), lambda values: max(values) - min(values)),
}


def model(
    rows: Any, starts: Callable[[int], list[int]], answer: Callable[[list[Any]], Any], place: int
) -> list[tuple[str, int, str]]:
    groups: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for row in rows:
        for start in starts(int(row[3])):
            groups[row[0], start * 1_000_000].append(row[place])
    return sorted((name, at, repr(answer(values))) for (name, at), values in groups.items())


@pytest.mark.parametrize("rows", [ROWS, LARGE], ids=["many", "large"])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("combine", COMBINES)
def test_a_combine_on_columns_gives_what_a_plain_model_gives(
    monkeypatch: pytest.MonkeyPatch, combine: str, windows: str, rows: Any
) -> None:
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)
    (into, starts), (fn, answer) = WINDOWS[windows], COMBINES[combine]
    found = run(
        Combined(into, fn), "--verify_columns", rows=rows, words=EVENTS, schema=ANSWERS,
        timestamp="at", Pair=lowered_pair("number"),
    )
    assert sorted(found) == model(rows, starts, answer, 1)


def called(*_: Any) -> None:
    msg = "its methods were called"
    raise AssertionError(msg)


@not_called
@on_columns
def test_a_combine_of_the_users_that_folds_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.batched.combining.PreCombine._add_general", called)
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)
    (into, starts), (fn, answer) = WINDOWS["sliding"], COMBINES["folds"]
    found = run(
        Combined(into, fn), rows=ROWS, words=EVENTS, schema=ANSWERS, timestamp="at",
        Pair=lowered_pair("number"),
    )
    assert sorted(found) == model(ROWS, starts, answer, 1)


PAIR_OF_NUMBERS = maps(
    SHAPE, in_tuple(field(SHAPE, "name"), in_tuple(field(SHAPE, "number"), field(SHAPE, "number")))
)


@on_columns
@pytest.mark.parametrize(
    "columns", ["--verify_columns", pytest.param("--columns=on", marks=not_called)]
)
def test_a_tuple_of_combines_takes_the_items_of_tuples(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    class Both(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            pairs = rows | "Pair" >> beam.Map(lambda row: (row.name, (row.number, row.number)))
            made = pairs | beam.CombinePerKey(combiners.TupleCombineFn(min, sum))
            return made | "Row" >> beam.Map(_row)

    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)
    if columns != "--verify_columns":
        monkeypatch.setattr("headrace.worker.batched.combining.PreCombine._add_general", called)
    found = run(
        Both(), columns, rows=ROWS, words=EVENTS, schema=ANSWERS, Pair=PAIR_OF_NUMBERS
    )
    wanted = model(ROWS, WINDOWS["global"][1], lambda values: (min(values), sum(values)), 1)
    assert sorted(found) == wanted


@pytest.mark.parametrize("combine", ["sum", "min", "max", "count", "mean"])
def test_a_combine_of_floats_adds_them_in_the_order_of_objects(combine: str) -> None:
    fn, answer = COMBINES[combine]
    rows = [(f"k{i % 3}", i, (i * 0.1) ** 3, float(i % 40)) for i in range(2_000)]
    found = run(
        Combined(None, fn, "share"), rows=rows, words=EVENTS, schema=ANSWERS, timestamp="at",
        Pair=lowered_pair("share"),
    )
    assert sorted(found) == model(rows, lambda _: [0], answer, 2)


def test_keys_of_batches_and_of_objects_meet_in_one_accumulator() -> None:
    class Both(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            fast = rows | "Pair" >> pair_of("number")
            slow = rows | "Slow" >> pair_of("number")
            return (fast, slow) | beam.Flatten() | beam.CombinePerKey(sum) | beam.Map(_row)

    found = run(
        Both(), rows=ROWS, words=EVENTS, schema=ANSWERS, timestamp="at", Pair=lowered_pair("number")
    )
    assert sorted(found) == model(ROWS + ROWS, lambda _: [0], sum, 1)


def test_more_keys_than_may_be_held_are_sent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.batched.combining.MAX_KEYS_TINY", 5)
    monkeypatch.setattr("headrace.worker.batched.combining.HELD_VALUES", 100)
    found = run(
        Combined(None, sum), "--max_bundle_elements=700", rows=ROWS, words=EVENTS, schema=ANSWERS,
        timestamp="at", Pair=lowered_pair("number"),
    )
    assert sorted(found) == model(ROWS, lambda _: [0], sum, 1)


@pytest.mark.parametrize("rows", [ROWS, LARGE], ids=["many", "large"])
@pytest.mark.parametrize("combine", COMBINES)
def test_a_combine_of_a_whole_collection_runs_on_columns(combine: str, rows: Any) -> None:
    fn, answer = COMBINES[combine]
    number = beam.Map(lambda row: row.number).with_output_types(int)
    steps = _Chained(
        "Number" >> number, beam.CombineGlobally(fn), beam.Map(lambda v: ("all", 0, repr(v)))
    )
    found = run(
        steps, "--verify_columns", rows=rows, words=EVENTS, schema=ANSWERS,
        Number=maps(SHAPE, field(SHAPE, "number")),
    )
    assert found == [("all", 0, repr(answer([row[1] for row in rows])))]


@on_columns
def test_verify_columns_finds_a_sum_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(known_combines._BUILTINS[sum], feed=lambda _: [None])
    monkeypatch.setitem(known_combines._BUILTINS, sum, wrong)
    with pytest.raises(ColumnsDifferError, match=r"for key 'a' your function gave \[5\]"):
        run(
            Combined(None, sum), "--verify_columns", rows=[("a", 5, 0.0, 1.0)], words=EVENTS,
            schema=ANSWERS, timestamp="at", Pair=lowered_pair("number"),
        )


def test_a_key_that_may_be_missing_is_grouped_as_objects_are() -> None:
    words = "name string, number long"
    shape = shape_of(words)
    rows = [("a", 1), (None, 2), ("a", 3), (None, 5)]
    pair = beam.Map(lambda row: (row.name, row.number))
    steps = _Chained("Pair" >> pair, beam.CombinePerKey(sum), beam.MapTuple(lambda k, v: (k, v)))
    found = run(
        steps, rows=rows, words=words, schema=words,
        Pair=maps(shape, in_tuple(field(shape, "name"), field(shape, "number"))),
    )
    assert sorted(found, key=repr) == [("a", 4), (None, 7)]


class _Chained(beam.PTransform):  # type: ignore[misc]
    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self._steps = steps

    def expand(self, rows: Any) -> Any:
        for step in self._steps:
            rows = rows | step
        return rows


def test_sums_of_keys_that_are_numbers() -> None:
    shape = shape_of(EVENTS)
    lowered = maps(shape, in_tuple(field(shape, "number"), field(shape, "number")))
    pair = beam.Map(lambda row: (row.number, row.number)).with_output_types(tuple[int, int])
    steps = _Chained("Pair" >> pair, beam.CombinePerKey(sum))
    found = run(steps, rows=ROWS, words=EVENTS, schema="number long, total long", Pair=lowered)
    wanted: dict[int, int] = defaultdict(int)
    for _, number, _, _ in ROWS:
        wanted[number] += number
    assert sorted(found) == sorted(wanted.items())
    assert INT in lowered.result.items  # type: ignore[union-attr]


def test_pairs_that_wait_do_not_keep_the_batch_they_came_in() -> None:
    arrays = [pa.array(["a", "b"] * 500), pa.array(range(1_000))]
    batch = of_arrow(arrays, TupleShape((TEXT, INT)), 1_000)
    assert batch is not None
    part = batch.slice(10, 20)
    pairs = column_combining.pairs_of(part, TimeColumns(np.arange(10), (), PANE_INFO_UNKNOWN))
    assert pairs is not None
    own = column_combining.owned(pairs)
    assert own.values.objects() == pairs.values.objects()
    assert own.keys.objects() == pairs.keys.objects()
    assert not np.shares_memory(own.values.leaves[0].data, batch.leaves[1].data)
    assert own.keys.leaves[0].data.get_total_buffer_size() < 200
