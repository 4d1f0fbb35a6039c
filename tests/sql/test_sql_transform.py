"""`SqlTransform` against plain Python: groups, joins, windows, times, types; nothing of Java's."""

from __future__ import annotations

import typing
from collections import Counter, defaultdict
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from headrace.errors import UnsupportedTransformError
from headrace.sql import transform
from headrace.sql.transform import ask
from headrace.testing import LocalRunner


class Bid(typing.NamedTuple):
    item: typing.Optional[str]  # noqa: UP045 (Beam knows this spelling)
    price: int


class Item(typing.NamedTuple):
    item: typing.Optional[str]  # noqa: UP045
    seller: str


class Where(typing.NamedTuple):
    row: int
    column: int


class Rich(typing.NamedTuple):
    at: Timestamp
    tags: typing.Sequence[str]
    counts: typing.Mapping[str, int]
    where: Where


def pipeline() -> Any:
    return beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--progress=off"]))


def bids(p: Any, rows: list[Bid], label: str = "bids") -> Any:
    return p | label >> beam.Create(rows).with_output_types(Bid)


ITEMS = st.one_of(st.none(), st.sampled_from(["a", "b", "ü", ""]))
ROWS = st.lists(st.builds(Bid, ITEMS, st.integers(-(2**40), 2**40)), min_size=1, max_size=20)


def answered(query: str, tables: dict[str, tuple[type, list[Any]]]) -> list[Any]:
    """Answer a query as the steps of a pipeline do: deal rows out, and ask in each part."""
    asked = ask(query, {name: kind for name, (kind, _) in tables.items()})
    parts: dict[int, list[Any]] = defaultdict(list)
    for name, (_, rows) in tables.items():
        deal = transform._Deal(asked, name)
        for row in rows:
            ((part, dealt),) = deal.process(row)
            parts[part].append(dealt)
    met = transform._Met(asked)
    try:
        return [row for item in parts.items() for row in met.process(item)]
    finally:
        met.teardown()


@given(ROWS)
@settings(max_examples=25)
def test_groups_are_those_of_a_dictionary(rows: list[Bid]) -> None:
    expected: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        expected[row.item].append(row.price)
    found = answered(
        "SELECT item, COUNT(*) AS n, SUM(price) AS s, MAX(price) AS m "
        "FROM PCOLLECTION GROUP BY item", {"PCOLLECTION": (Bid, rows)},
    )
    assert Counter(found) == Counter((k, len(v), sum(v), max(v)) for k, v in expected.items())


@given(
    st.sampled_from(["INNER", "LEFT", "FULL"]), ROWS,
    st.lists(st.builds(Item, ITEMS, st.sampled_from("xy")), min_size=1, max_size=6),
)
@settings(max_examples=25)
def test_joins_are_those_of_two_loops(kind: str, rows: list[Bid], items: list[Item]) -> None:
    expected: list[tuple[Any, Any]] = [
        (bid.price, item.seller)
        for bid in rows for item in items if bid.item is not None and item.item == bid.item
    ]
    both = {bid.item for bid in rows} & {item.item for item in items} - {None}
    if kind != "INNER":
        expected += [(bid.price, None) for bid in rows if bid.item not in both]
    if kind == "FULL":
        expected += [(None, item.seller) for item in items if item.item not in both]
    found = answered(
        f"SELECT b.price, i.seller FROM bids b {kind} JOIN items i ON b.item = i.item",
        {"bids": (Bid, rows), "items": (Item, items)},
    )
    assert Counter(found) == Counter(expected)


def test_a_stream_is_answered_window_by_window_and_rows_keep_their_time() -> None:
    events = (
        TestStream()
        .add_elements([TimestampedValue(Bid("a", 1), 1), TimestampedValue(Bid("a", 2), 2)])
        .advance_watermark_to(10)
        .add_elements([TimestampedValue(Bid("a", 30), 11)])
        .advance_watermark_to_infinity()
    )
    options = PipelineOptions(["--streaming", "--progress=off"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        rows = (
            p | events
            | beam.Map(lambda bid: bid).with_output_types(Bid)
            | beam.WindowInto(FixedWindows(10))
        )
        sums = rows | "sums" >> SqlTransform("SELECT SUM(price) AS s FROM PCOLLECTION")
        dear = rows | "dear" >> SqlTransform("SELECT price FROM PCOLLECTION WHERE price > 1")
        timed = dear | beam.Map(lambda row, at=beam.DoFn.TimestampParam: (row.price, int(at)))
        assert_that(sums, equal_to([(3,), (30,)]), label="sums are right")
        assert_that(timed, equal_to([(2, 2), (30, 11)]), label="times are kept")


def test_whole_numbers_are_divided_exactly_and_towards_zero() -> None:
    with pipeline() as p:
        found = bids(p, [Bid("a", 2**62 + 1), Bid("b", -7)]) | SqlTransform(
            "SELECT price / 2 AS half, price / 2.0E0 AS parts FROM PCOLLECTION"
        )
        halves = found | beam.Map(lambda row: (row.half, type(row.half).__name__))
        assert_that(halves, equal_to([(2**61, "int"), (-3, "int")]))


def test_a_sum_that_does_not_fit_is_an_error_and_not_another_number() -> None:
    with pytest.raises(Exception, match="out of range"), pipeline() as p:
        bids(p, [Bid("a", 2**62)] * 3) | SqlTransform(
            "SELECT SUM(price) AS s FROM PCOLLECTION"
        )


def test_times_lists_maps_and_rows_come_out_as_they_went_in() -> None:
    rich = Rich(Timestamp(micros=1_234_567_890_123_456), ["x", "y"], {"k": 3}, Where(1, 2))
    with pipeline() as p:
        rows = p | beam.Create([rich]).with_output_types(Rich)
        found = rows | SqlTransform(
            "SELECT `at`, tags, counts, `where`, `where`.`row` AS r FROM PCOLLECTION"
        )
        seen = found | beam.Map(lambda row: (row.at, list(row.tags), dict(row.counts),
                                             tuple(row.where), row.r))
        assert_that(seen, equal_to([(rich.at, ["x", "y"], {"k": 3}, (1, 2), 1)]))


def test_results_without_a_name_get_one_that_python_can_have() -> None:
    with pipeline() as p:
        found = bids(p, [Bid("a", 1)]) | SqlTransform("SELECT price + 1, item FROM PCOLLECTION")
        assert_that(found | beam.Map(lambda row: row._asdict()),
                    equal_to([{"EXPR_0": 2, "item": "a"}]))


def test_one_query_may_follow_another() -> None:
    with pipeline() as p:
        found = (
            bids(p, [Bid("a", 1), Bid("a", 5), Bid("b", 2)])
            | "each" >> SqlTransform("SELECT item, SUM(price) AS s FROM PCOLLECTION GROUP BY item")
            | "best" >> SqlTransform("SELECT MAX(s) AS best FROM PCOLLECTION")
        )
        assert_that(found, equal_to([(6,)]))


def test_elements_without_a_schema_are_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedTransformError, match="with_output_types"):
        pipeline() | beam.Create([1, 2]) | SqlTransform("SELECT * FROM PCOLLECTION")


def test_collections_that_meet_must_have_the_same_windows() -> None:
    p = pipeline()
    rows = bids(p, [Bid("a", 1)])
    other = bids(p, [Bid("a", 1)], "others") | beam.WindowInto(FixedWindows(5))
    with pytest.raises(UnsupportedTransformError, match="the same windows"):
        {"a": rows, "b": other} | SqlTransform("SELECT a.price FROM a JOIN b ON a.item = b.item")
