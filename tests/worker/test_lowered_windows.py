"""Functions that ask for the window of their element give on columns what they give on objects."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.workloads.hibench.fixwindow import FirstAndCount
from headrace.testing import LocalRunner, LocalSession
from headrace.worker.batched.column_batches import as_rows
from tests.worker.lowering import on_columns

WORDS = "name string not null, number long not null, at double not null"
ROWS = [(f"k{i % 7}", i, float(i % 40)) for i in range(2_000)]
WINDOWS = {
    "global": None, "fixed": window.FixedWindows(10, 3), "sliding": window.SlidingWindows(20, 5),
}


def in_window(row: Any, span: Any = beam.DoFn.WindowParam) -> tuple[str, int, int, int]:
    return row.name, span.start.micros // 1_000, span.end.micros, row.number


def answer(
    found: tuple[str, tuple[int, int]], span: Any = beam.DoFn.WindowParam
) -> tuple[str, int, int, int]:
    name, (first, count) = found
    return name, span.start.micros // 1_000, first, count


def cubed(row: Any, span: Any = beam.DoFn.WindowParam) -> tuple[str, int, int, int]:
    cube = row.number * row.number * row.number % 1_000
    return row.name, span.start.micros, cube, 100 // (row.number - 7)


class Seen(beam.PTransform):  # type: ignore[misc]
    """A function of elements and their windows."""

    def __init__(self, windows: Any, function: Any = in_window) -> None:
        super().__init__()
        self._windows, self._function = windows, function

    def expand(self, rows: Any) -> Any:
        if self._windows is not None:
            rows = rows | beam.WindowInto(self._windows)
        return rows | "Seen" >> beam.Map(self._function)


class Answered(beam.PTransform):  # type: ignore[misc]
    """A combine, and a function of what it comes to and its window."""

    def __init__(self, windows: Any) -> None:
        super().__init__()
        self._windows = windows

    def expand(self, rows: Any) -> Any:
        if self._windows is not None:
            rows = rows | beam.WindowInto(self._windows)
        return (
            rows
            | "Pair" >> beam.Map(lambda row: (row.name, row.number))
            | "Combine" >> beam.CombinePerKey(FirstAndCount())
            | "Row" >> beam.Map(answer)
        )


def run(steps: Any, *flags: str, rows: Any = ROWS) -> list[tuple[Any, ...]]:
    found: list[Any] = []
    session = LocalSession()
    frame = session.createDataFrame(rows, WORDS)
    options = PipelineOptions(["--shards=2", *flags])
    with beam.Pipeline(LocalRunner(session), options) as pipeline:
        write = WriteToSpark(
            function=lambda made: found.extend(made.collect()),
            schema="name string, start long, more long, number long",
        )
        pipeline | ReadFromSpark(frame, timestamp="at") | steps | write
    return sorted(map(tuple, found))


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("steps", [Seen, Answered], ids=["elements", "combined"])
def test_windows_on_columns_are_those_of_objects(
    monkeypatch: pytest.MonkeyPatch, steps: Any, windows: str
) -> None:
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)
    found = {
        flags: run(steps(WINDOWS[windows]), *flags)
        for flags in ((), ("--columns=off",), ("--verify_columns",))
    }
    assert found[()] == found["--columns=off",] == found["--verify_columns",]
    assert len(found[()]) >= len(ROWS if steps is Seen else {row[0] for row in ROWS})


@on_columns
def test_a_function_that_asks_for_its_window_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []

    def counted(values: Any, meta: Any) -> Any:
        handed.append(len(values))
        return as_rows(values, meta)

    monkeypatch.setattr("headrace.worker.batched.lowered_step.as_rows", counted)
    assert run(Seen(WINDOWS["fixed"]))
    assert not handed
    assert run(Seen(WINDOWS["sliding"]))  # an element of several windows is seen once in each
    assert sum(handed) == len(ROWS)


@pytest.mark.parametrize("flags", [(), ("--verify_columns",)], ids=["plain", "verified"])
def test_a_row_that_columns_are_not_sure_of_takes_its_batch_along(flags: tuple[str, ...]) -> None:
    rows = [("a", 8, 5.0), ("b", 2**40, 15.0), ("c", 9, 25.0)]  # 2**120 has no column
    wanted = [
        (name, start * 1_000_000, number**3 % 1_000, 100 // (number - 7))
        for (name, number, _), start in zip(rows, (3, 13, 23), strict=True)
    ]
    assert run(Seen(WINDOWS["fixed"], cubed), *flags, rows=rows) == wanted
    with pytest.raises(ZeroDivisionError, match="Seen"):
        run(Seen(WINDOWS["fixed"], cubed), *flags, rows=[*rows, ("d", 7, 1.0)])
