"""CoGroupByKey and loops behind a GroupByKey, from rows to rows: on columns as on objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows

from headrace.io import ReadFromSpark
from headrace.io.watermarks import BoundedOutOfOrderness
from headrace.testing import LocalRunner, LocalSession, ScriptedStream
from headrace.worker.batched.join_step import JoinNode
from tests.worker.lowering import on_columns

WORDS = "side long, key long, name string, value long, at double not null"
Rows = list[tuple[Any, ...]]
#: The ends of 64 bits, keys with one side alone, many values of one key, a name that is empty.
ROWS: Rows = [
    *((i % 2, i * i % 11, f"n{i % 5}", (i * 37) % 101 - 50, float(i % 40)) for i in range(300)),
    (0, -(2**63), "low", 1, 3.0), (1, -(2**63), "low", 2**63 - 1, 4.0), (0, 77, "alone", 1, 5.0),
    (1, 78, "", 2, 6.0),
]
WINDOWS = {
    "global": GlobalWindows(), "fixed": FixedWindows(10), "sliding": SlidingWindows(12, 4),
    "uneven": SlidingWindows(10, 3),
}
SEEN: list[str] = []
MODES = ["--columns=on", "--verify_columns"]


def note(value: Any) -> None:
    SEEN.append(repr(value))


@pytest.fixture(autouse=True)
def all_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys came to loops as columns, window by window."""
    found: list[int] = []
    groups = JoinNode.groups

    def noted(self: JoinNode, given: Any, meta: Any) -> None:
        found.append(len(given))
        groups(self, given, meta)

    monkeypatch.setattr(JoinNode, "groups", noted)
    return found


def run(steps: Callable[[Any], Any], rows: Rows, *flags: str) -> Counter[str]:
    SEEN.clear()
    frame = LocalSession().createDataFrame(rows, WORDS)
    options = PipelineOptions(["--shards=2", *flags])
    with beam.Pipeline(LocalRunner(frame.sparkSession), options) as pipeline:
        steps(pipeline | ReadFromSpark(frame, timestamp="at")) | "Note" >> beam.Map(note)
    return Counter(SEEN)


def streamed(steps: Callable[[Any], Any], epochs: list[Rows], *flags: str) -> Counter[str]:
    SEEN.clear()
    stream = ScriptedStream(WORDS)
    options = PipelineOptions(["--shards=2", "--streaming", *flags])
    pipeline = beam.Pipeline(LocalRunner(stream.sparkSession), options)
    read = ReadFromSpark(stream, timestamp="at", watermark=BoundedOutOfOrderness(2))
    steps(pipeline | read) | "Note" >> beam.Map(note)
    for rows in epochs:
        stream.add(*rows)
    result: Any = pipeline.run()
    result.settle()
    result.drain()
    return Counter(SEEN)


def meet(
    group: tuple[int, Any], window: Any = beam.DoFn.WindowParam
) -> Iterator[tuple[int, int, str, int]]:
    key, sides = group
    for name in sides["names"]:
        for value in sides["values"]:
            if value != 7:
                yield key, window.end.micros, name, value


def by_sides(windows: Any, loops: Any = meet) -> Callable[[Any], Any]:
    """Names and values of a key, which are of two types."""

    def steps(rows: Any) -> Any:
        names = (
            rows
            | "Of 0" >> beam.Filter(lambda row: row.side == 0)
            | "Name" >> beam.Map(lambda row: (row.key, row.name))
            | "Windows 0" >> beam.WindowInto(windows)
        )
        values = (
            rows
            | "Of 1" >> beam.Filter(lambda row: row.side == 1)
            | "Value" >> beam.Map(lambda row: (row.key, row.value))
            | "Windows 1" >> beam.WindowInto(windows)
        )
        sides = {"names": names, "values": values}
        return sides | beam.CoGroupByKey() | "Meet" >> beam.FlatMap(loops)

    return steps


def alike(windows: Any) -> Callable[[Any], Any]:
    """Two sides of one type: their pairs are of one shape. A tuple is a value, too."""

    def steps(rows: Any) -> Any:
        def side(number: int) -> Any:
            return (
                rows
                | f"Of {number}" >> beam.Filter(lambda row, it: row.side == it, number)
                | f"Pair {number}" >> beam.Map(lambda row: (row.name, (row.value, row.name)))
                | f"Windows {number}" >> beam.WindowInto(windows)
            )

        both = {"left": side(0), "right": side(1)} | beam.CoGroupByKey()
        return both | "Meet" >> beam.FlatMapTuple(
            lambda key, sides: [
                (key, a[0], b) for b in sides["right"] for a in sides["left"] if a[0] > b[0]
            ]
        )

    return steps


def plain(windows: Any) -> Callable[[Any], Any]:
    """A GroupByKey whose lists are taken apart again."""

    def steps(rows: Any) -> Any:
        pairs = rows | "Pair" >> beam.Map(lambda row: ((row.side, row.name), row.value))
        grouped = pairs | beam.WindowInto(windows) | beam.GroupByKey()
        return grouped | beam.FlatMap(lambda group: [(group[0], v * 2) for v in group[1]])

    return steps


@on_columns
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("steps", [by_sides, alike, plain])
def test_loops_over_columns_give_what_loops_over_lists_give(
    joined: list[int], steps: Any, windows: str
) -> None:
    made = steps(WINDOWS[windows])
    wanted = run(made, ROWS, "--columns=off")
    assert not joined and len(wanted) > 50
    for mode in MODES:
        joined.clear()
        assert run(made, ROWS, mode) == wanted
        assert sum(joined) > 3 or windows == "uneven"  # such windows are given to objects


def test_a_join_in_windows_is_what_plain_python_says() -> None:
    wanted = Counter(
        repr((a[1], (int(a[4]) // 10 + 1) * 10_000_000, a[2], b[3]))
        for a in ROWS if a[0] == 0
        for b in ROWS if b[0] == 1
        if a[1] == b[1] and a[4] // 10 == b[4] // 10 and b[3] != 7
    )
    assert run(by_sides(WINDOWS["fixed"]), ROWS) == wanted


@on_columns
@pytest.mark.parametrize("windows", ["fixed", "sliding"])
@pytest.mark.parametrize("steps", [by_sides, alike, plain])
def test_a_stream_with_late_rows_gives_the_same_in_any_epochs(
    joined: list[int], steps: Any, windows: str
) -> None:
    """The last epochs bring rows that are late, of windows that left, and some that wait."""
    made = steps(WINDOWS[windows])
    rows = sorted(ROWS, key=lambda row: row[4])
    epochs = [rows[:140], rows[140:200], [*rows[:20], *rows[200:260]], rows[260:]]
    wanted = streamed(made, epochs, "--columns=off")
    assert len(wanted) > 50 and not joined
    for mode in MODES:
        assert streamed(made, epochs, mode) == wanted
    assert joined


def test_rows_without_a_key_or_without_a_value_are_objects() -> None:
    rows: Rows = [*ROWS, (0, None, "x", 1, 1.0), (1, None, "x", 2, 1.0), (1, 3, "x", None, 1.0)]
    made = by_sides(WINDOWS["fixed"])
    wanted = run(made, rows, "--columns=off")
    assert any("None" in row for row in wanted)
    for mode in MODES:
        assert run(made, rows, mode) == wanted


def shares(group: tuple[int, Any]) -> Iterator[tuple[int, int]]:
    key, sides = group
    for name in sides["names"]:
        for value in sides["values"]:
            yield key, 1_000 // (value + len(name))


@on_columns
def test_a_pair_that_columns_hand_back_goes_to_the_function_by_itself(joined: list[int]) -> None:
    rows = [row for row in ROWS if row[3] + len(row[2]) and row[3] + 2]
    made = by_sides(WINDOWS["fixed"], shares)
    wanted = run(made, rows, "--columns=off")
    rows += [(0, 5, "", 0, 1.0), (1, 5, "x", 2**62, 1.0), (0, 5, "x" * 300, 0, 1.0)]
    wanted = run(made, rows, "--columns=off")
    for mode in MODES:
        assert run(made, rows, mode) == wanted
    assert joined
    with pytest.raises(ZeroDivisionError, match="while running 'Meet'"):
        run(made, [*rows, (1, 4, "", 0, 2.0), (0, 4, "", 0, 2.0)])


def wider(group: tuple[int, Any]) -> Iterator[tuple[int, int]]:
    for value in group[1]["values"]:
        yield group[0], value * value


@on_columns
def test_a_number_of_more_than_64_bits_makes_objects_of_its_batch(joined: list[int]) -> None:
    made = by_sides(WINDOWS["sliding"], wider)
    wanted = run(made, ROWS, "--columns=off")
    assert any(len(row) > 40 for row in wanted)
    for mode in MODES:
        assert run(made, ROWS, mode) == wanted
    assert joined
