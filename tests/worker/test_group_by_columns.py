"""Beam's `GroupBy` and keys that are tuples, from rows to rows: on columns as on objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import FixedWindows, SlidingWindows

from headrace.io import ReadFromSpark
from headrace.testing import LocalRunner, LocalSession
from tests.worker.lowering import not_called, on_columns

WORDS = "name string, place long, number long, share double, at double not null"
#: 4 * (2**62) needs 65 bits; the ends of 64, None, -0.0 and what is not a number.
ROWS: list[tuple[Any, ...]] = [
    *((f"k{i * i % 7}", i % 3, (i * 37) % 101 - 50, i / 8, float(i % 40)) for i in range(900)),
    *[("large", 1, 2**62, 0.5, 1.0)] * 4,
    ("", 2**63 - 1, -(2**63), -0.0, 3.0),
    ("", -(2**63), 2**63 - 1, float("nan"), 3.0),
]
WITH_NONE: list[tuple[Any, ...]] = [
    *ROWS, (None, 1, 5, 0.5, 2.0), ("k1", None, 6, 0.5, 2.0), (None, None, 7, None, 2.0),
]
SEEN: list[str] = []
MODES = ["--columns=off", "--columns=on", "--verify_columns"]


def note(value: Any) -> None:
    SEEN.append(f"{type(value).__name__} {value!r}")


def run(steps: Callable[[Any], Any], rows: Any, *flags: str) -> list[str]:
    """Give what leaves the steps, with its types, in order of its text."""
    SEEN.clear()
    session = LocalSession()
    frame = session.createDataFrame(rows, WORDS)
    options = PipelineOptions(["--shards=3", *flags])
    with beam.Pipeline(LocalRunner(session), options) as pipeline:
        steps(pipeline | ReadFromSpark(frame, timestamp="at")) | "Note" >> beam.Map(note)
    return sorted(SEEN)


def grouped(rows: Any, keys: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        found[keys(row)].append(row)
    return found


@pytest.fixture(autouse=True)
def all_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)


AGGREGATED = (
    beam.GroupBy("name", spot=lambda row: row.place)
    .aggregate_field("number", sum, "total")
    .aggregate_field(lambda row: row.number // 2, max, "most")
    .aggregate_field("number", combiners.MeanCombineFn(), "mean")
    .aggregate_field("share", combiners.CountCombineFn(), "count")
)


@pytest.mark.parametrize("rows", [ROWS, [r for r in ROWS if r[0] != "large"]], ids=["wide", "all"])
@pytest.mark.parametrize("mode", MODES)
def test_fields_are_aggregated_as_plain_python_would(mode: str, rows: Any) -> None:
    wanted = []
    for (name, place), found in grouped(rows, lambda row: row[:2]).items():
        numbers = [row[2] for row in found]
        wanted.append(
            f"Result Result(name={name!r}, spot={place!r}, total={sum(numbers)!r}, "
            f"most={max(n // 2 for n in numbers)!r}, "
            f"mean={sum(numbers) / float(len(numbers))!r}, count={len(found)!r})"
        )
    assert run(lambda it: it | AGGREGATED, rows, mode) == sorted(wanted)


@not_called
@on_columns
def test_fields_are_aggregated_without_a_call_of_any_combine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def called(*_: Any) -> None:
        msg = "its methods were called"
        raise AssertionError(msg)

    wanted = run(lambda it: it | AGGREGATED, ROWS[:900], "--columns=off")
    for name in ("add_input", "add_inputs", "merge_accumulators", "extract_output"):
        monkeypatch.setattr(combiners.TupleCombineFn, name, called)
    assert run(lambda it: it | AGGREGATED, ROWS[:900], "--columns=on") == wanted


@pytest.mark.parametrize(
    "windows", [FixedWindows(10), SlidingWindows(20, 5)], ids=["fixed", "sliding"]
)
@pytest.mark.parametrize("key", [2, 3])
def test_keys_of_tuples_are_grouped_as_objects_are(windows: Any, key: int) -> None:
    """With None among them, a name that is empty, and numbers at the ends of 64 bits."""
    def steps(it: Any) -> Any:
        pair = beam.Map(lambda row: ((row.name, row.place), row.number))
        triple = beam.Map(lambda row: ((row.name, row.place, "x"), row.number))
        made = it | "Pair" >> (pair if key == 2 else triple) | beam.WindowInto(windows)
        return made | beam.CombinePerKey(min)

    by_objects = run(steps, WITH_NONE, "--columns=off")
    assert len(by_objects) > 20
    for mode in MODES[1:]:
        assert run(steps, WITH_NONE, mode) == by_objects


def test_groups_of_tuples_have_the_values_that_objects_have() -> None:
    def steps(it: Any) -> Any:
        pairs = it | "Pair" >> beam.Map(lambda row: ((row.name, row.place), row.share))
        return pairs | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sorted(map(repr, v))))

    by_objects = run(steps, WITH_NONE, "--columns=off")
    wanted = grouped(WITH_NONE, lambda row: row[:2])
    shown = [("tuple " + repr((k, sorted(repr(r[3]) for r in v)))) for k, v in wanted.items()]
    assert by_objects == sorted(shown)
    for mode in MODES[1:]:
        assert run(steps, WITH_NONE, mode) == by_objects


@pytest.mark.parametrize("mode", MODES)
def test_what_an_aggregation_raises_is_what_objects_raise(mode: str) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        run(lambda it: it | AGGREGATED, [*ROWS, ("k1", 1, None, 0.5, 2.0)], mode)


@pytest.mark.parametrize("mode", MODES)
def test_groups_by_fields_hold_the_rows(mode: str) -> None:
    def steps(it: Any) -> Any:
        return it | beam.GroupBy("name", "place") | beam.MapTuple(
            lambda key, rows: (key.name, key.place, sorted(row.number for row in rows))
        )

    wanted = [
        f"tuple {(*key, sorted(row[2] for row in rows))!r}"
        for key, rows in grouped(ROWS, lambda row: row[:2]).items()
    ]
    assert run(steps, ROWS, mode) == sorted(wanted)


@pytest.mark.parametrize("mode", MODES)
def test_no_window_hears_of_what_is_added_in_another(mode: str) -> None:
    """Columns first, then products that need more than 64 bits: Beam's sum adds to a list."""
    batches = [[(1, 5.0), (2, 6.0)], [(2**62, 5.0), (5, 6.0)]]
    words = "number long not null, at double not null"
    kinds = pa.schema([("number", pa.int64()), ("at", pa.float64())])
    table = pa.concat_tables(
        pa.table(list(map(list, zip(*rows, strict=True))), schema=kinds) for rows in batches
    )
    session = LocalSession()
    SEEN.clear()
    with beam.Pipeline(LocalRunner(session), PipelineOptions(["--shards=2", mode])) as pipeline:
        (
            pipeline
            | ReadFromSpark(session.createDataFrame(table, words), timestamp="at")
            | beam.WindowInto(
                SlidingWindows(12, 4), trigger=Repeatedly(AfterProcessingTime(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
            | beam.Map(lambda row: ("key", row.number * 4))
            | beam.CombinePerKey(combiners.SingleInputTupleCombineFn(sum, max))
            | "Note" >> beam.Map(note)
        )  # fmt: skip
    numbers = [4 * number for rows in batches for number, _ in rows]
    assert SEEN == 3 * [f"tuple ('key', ({sum(numbers)}, {max(numbers)}))"]
