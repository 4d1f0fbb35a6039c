"""Rows to columns and back inside a task; no Spark."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders.coders import LengthPrefixCoder
from apache_beam.transforms.window import GlobalWindow, IntervalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from headrace.errors import ColumnTypeError, TransportError
from headrace.io.columns import arrow_schema
from headrace.io.rows import row_class
from headrace.worker.batched.batches import Columns
from headrace.worker.ends.column_writer import ColumnWriter, decode
from headrace.worker.ends.row_reader import RowReader
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple

UTC = datetime.timezone.utc
IN_GLOBAL = WindowedValue(None, Timestamp(0), (GlobalWindow(),), PANE_INFO_UNKNOWN)


def schema_of(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind, True) for name, kind in kinds.items()])


def read(schema: t.StructType, table: pa.Table) -> list[Any]:
    coder = coders.WindowedValueCoder(coders.registry.get_coder(row_class(schema)))
    reader = RowReader(coder)
    return [row for b in table.to_batches() for rows in reader.read(b, 3) for row in rows]


def write(schema: t.StructType | pa.Schema, elements: list[Any], size: int = 1 << 16) -> pa.Table:
    arrow = schema if isinstance(schema, pa.Schema) else arrow_schema(schema)
    sent: list[SuperTuple] = []
    writer = ColumnWriter(7, "out", arrow, sent.append, shard=1, super_tuple_bytes=size)
    writer.write(elements, IN_GLOBAL)
    writer.flush()
    assert {(row.channel, row.shard, row.kind) for row in sent} <= {(7, 1, PayloadKind.COLUMNS)}
    assert sum(row.elements for row in sent) == len(elements)
    batches = decode(arrow, [pa.array([row.payload for row in sent], pa.binary())])
    return pa.Table.from_batches(batches, arrow)


PLAIN = schema_of(
    i=t.IntegerType(), n=t.LongType(), x=t.DoubleType(), s=t.StringType(), b=t.BinaryType(),
    f=t.BooleanType(), d=t.DateType(), p=t.DecimalType(12, 3), w=t.TimestampType(),
)

instants = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
plain_rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.floats(allow_nan=False),
        st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        st.none() | st.binary(),
        st.none() | st.booleans(),
        st.none() | st.dates(),
        st.none() | st.decimals(-(10**8), 10**8, places=3),
        st.none() | instants.map(lambda d: d.replace(tzinfo=UTC)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(rows=plain_rows)
def test_rows_of_primitive_columns_come_out_as_they_went_in(rows: list[tuple[Any, ...]]) -> None:
    columns: list[Any] = list(zip(*rows, strict=True)) or [[] for _ in PLAIN]
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(columns, arrow_schema(PLAIN), strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=arrow_schema(PLAIN))
    found = read(PLAIN, table)
    # Everything but the instants is told by Python itself; these are Beam's own.
    assert [row[:-1] for row in found] == [row[:-1] for row in rows]
    for row, given_row in zip(found, rows, strict=True):
        if given_row[-1] is None:
            assert row.w is None
        else:
            assert isinstance(row.w, Timestamp)
            assert row.w.to_utc_datetime(has_tz=True) == given_row[-1]
    assert write(PLAIN, found) == table


def test_nested_columns_are_read_row_by_row_also_from_a_slice_and_with_holes() -> None:
    place = t.StructType([t.StructField("city", t.StringType()), t.StructField("n", t.LongType())])
    schema = schema_of(
        at=place,
        trips=t.ArrayType(place),
        seen=t.ArrayType(t.TimestampType()),
        fares=t.MapType(t.StringType(), t.TimestampType()),
    )
    moment = datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)
    values = {
        "at": [{"city": "x", "n": 0}, {"city": "Ulm", "n": None}, None, {"city": None, "n": 4}],
        "trips": [[{"city": "x", "n": 0}], None, [], [{"city": "Bern", "n": 1}, None]],
        "seen": [[moment], [None, moment], None, []],
        "fares": [[("x", moment)], [("a", moment), ("b", None)], [], None],
    }
    arrow = arrow_schema(schema)
    table = pa.table([pa.array(values[f.name], f.type) for f in arrow], schema=arrow).slice(1)
    one, two, three = read(schema, table)
    when = Timestamp.from_utc_datetime(moment)
    assert (one.at.city, one.at.n, one.trips) == ("Ulm", None, None)
    assert one.seen == [None, when]
    assert one.fares == {"a": when, "b": None}
    assert (two.at, two.trips, two.seen, two.fares) == (None, [], None, {})
    assert three.at.n == 4
    assert three.trips[0].city == "Bern"
    assert three.trips[1] is None
    assert (three.seen, three.fares) == ([], None)
    assert write(schema, [one, two, three]) == table.combine_chunks()


def test_a_row_begins_in_the_global_window_at_the_least_time() -> None:
    assert RowReader.meta.windows == (GlobalWindow(),)
    assert RowReader.meta.timestamp == MIN_TIMESTAMP


def test_rows_without_columns_are_still_counted() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 5, pa.struct([])))
    reader = RowReader(
        coders.WindowedValueCoder(coders.registry.get_coder(row_class(t.StructType([]))))
    )
    assert [len(rows) for rows in reader.read(batch, 3)] == [3, 2]


def test_the_reader_sees_through_a_length_prefix_and_refuses_other_coders() -> None:
    row_coder = coders.registry.get_coder(row_class(schema_of(a=t.LongType())))
    RowReader(coders.WindowedValueCoder(LengthPrefixCoder(row_coder)))
    with pytest.raises(TransportError, match="VarIntCoder"):
        RowReader(coders.WindowedValueCoder(coders.VarIntCoder()))


class Pair(NamedTuple):
    b: int
    a: str


@dataclasses.dataclass
class PairClass:
    a: str
    b: int


AB = schema_of(a=t.StringType(), b=t.LongType())


@pytest.mark.parametrize(
    "element",
    [
        Pair(a="x", b=1),
        PairClass("x", 1),
        beam.Row(b=1, a="x"),
        {"b": 1, "a": "x"},
        ("x", 1),
        ["x", 1],
    ],
    ids=lambda e: type(e).__name__,
)
def test_an_element_gives_its_columns_by_name_or_else_by_place(element: Any) -> None:
    assert write(AB, [element]).to_pylist() == [{"a": "x", "b": 1}]


def test_elements_of_several_kinds_may_be_mixed() -> None:
    found = write(AB, [("x", 1), {"a": "y"}, Pair(3, "z")]).to_pylist()
    assert found == [{"a": "x", "b": 1}, {"a": "y", "b": None}, {"a": "z", "b": 3}]


def test_a_dict_that_its_maker_changes_later_is_written_as_it_was() -> None:
    arrow = arrow_schema(AB)
    sent: list[SuperTuple] = []
    writer = ColumnWriter(0, "out", arrow, sent.append, shard=0, super_tuple_bytes=1 << 16)
    element = {"a": "first", "b": 1}
    writer.process(IN_GLOBAL.with_value(element))
    element["a"] = "second"
    writer.process(IN_GLOBAL.with_value(element))
    writer.flush()
    (batch,) = decode(arrow, [pa.array([sent[0].payload], pa.binary())])
    assert batch.column("a").to_pylist() == ["first", "second"]


@pytest.mark.parametrize(
    ("element", "told"),
    [
        ({"a": "x", "c": 1}, "do not share 'c'"),
        (PairClass, "has no fields"),
        (("x",), "1 fields, the schema has 2 columns"),
        (("x", "y"), "column 'b'"),
        (("x", 2**63), "column 'b'"),
        (("x", 1.5), r"column 'b': 1.5 \(float\) is no int64. The row is \(a='x', b=1.5\)"),
        ((b"x", 1), r"column 'a': b'x' \(bytes\) is no string. The row is \(a=b'x', b=1\)"),
        (("x", True), r"column 'b': True \(bool\) is no int64"),
    ],
)
def test_an_element_that_does_not_fit_is_refused_with_sink_and_column(
    element: Any, told: str
) -> None:
    with pytest.raises(ColumnTypeError, match=f"out: .*{told}"):
        write(AB, [element])


def test_a_named_tuple_without_a_column_of_the_schema_is_refused() -> None:
    class Other(NamedTuple):
        a: str
        z: int

    with pytest.raises(ColumnTypeError, match="do not share 'b', 'z'"):
        write(AB, [Other("x", 1)])


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (t.LongType(), None, "column 'v': a value is missing"),
        (t.ArrayType(t.LongType(), False), [1, None], r"column 'v\[\]': a value is missing"),
        (t.MapType(t.StringType(), t.LongType(), False), {"k": None}, r"column 'v\[value\]'"),
        (
            t.StructType([t.StructField("x", t.LongType(), False)]),
            {"x": None},
            r"column 'v\.x': a value is missing",
        ),
        (t.ArrayType(t.StringType()), "abc", "'abc' is no list"),
        (t.ArrayType(t.LongType()), [1, 2.5], r"column 'v\[\]': 2.5 is no int64"),
        (t.DateType(), datetime.datetime(2024, 1, 1, 5), r"\(datetime\) is no date32"),
        (t.DoubleType(), "1.5", r"\(str\) is no double"),
        (t.BinaryType(), "x", r"\(str\) is no binary"),
        (t.TimestampType(), datetime.datetime(2024, 1, 1), "has no time zone"),
        (t.TimestampType(), 12, "12 is no instant"),
        (t.TimestampNTZType(), datetime.datetime(2024, 1, 1, tzinfo=UTC), "without a time zone"),
        (t.DecimalType(4, 2), decimal.Decimal("1.234"), "column 'v'"),
    ],
)
def test_a_value_that_spark_would_misread_is_refused(
    kind: t.DataType, value: Any, told: str
) -> None:
    schema = t.StructType([t.StructField("v", kind, False)])
    with pytest.raises(ColumnTypeError, match=told):
        write(schema, [{"v": value}])


def test_a_missing_struct_hides_no_missing_field_from_the_check() -> None:
    inner = t.StructType([t.StructField("x", t.LongType(), False)])
    assert write(schema_of(v=inner), [{"v": None}, {"v": {"x": 1}}]).to_pylist() == [
        {"v": None}, {"v": {"x": 1}},
    ]


def test_instants_are_written_to_the_microsecond_from_any_zone() -> None:
    east = datetime.timezone(datetime.timedelta(hours=9))
    moment = datetime.datetime(2024, 1, 1, 9, 0, 0, 1, tzinfo=east)
    found = write(schema_of(v=t.TimestampType()), [(moment,), (Timestamp(micros=-1),)])
    # 2024-01-01 00:00:00.000001 UTC, counted by hand: 54 years with 13 leap days.
    assert found.column("v").cast(pa.int64()).to_pylist() == [
        (54 * 365 + 13) * 86_400 * 10**6 + 1, -1,
    ]


def test_nan_is_a_value_and_not_a_missing_one() -> None:
    (value,) = write(schema_of(v=t.DoubleType()), [(math.nan,)]).column("v").to_pylist()
    assert math.isnan(value)


def test_an_element_in_two_windows_is_two_rows() -> None:
    arrow = arrow_schema(schema_of(value=t.LongType()))
    sent: list[SuperTuple] = []
    writer = ColumnWriter(0, "out", arrow, sent.append, shard=0, super_tuple_bytes=1 << 16)
    one, two = IntervalWindow(0, 2), IntervalWindow(1, 3)
    meta = Columns([0, 0], [(one,), (one, two)], [PANE_INFO_UNKNOWN] * 2)
    writer.write([5, 6], meta)
    writer.process(WindowedValue(7, Timestamp(0), (one, two), PANE_INFO_UNKNOWN))
    writer.flush()
    (batch,) = decode(arrow, [pa.array([sent[0].payload], pa.binary())])
    assert sorted(batch.column("value").to_pylist()) == [5, 6, 6, 7, 7]


def test_many_rows_leave_in_batches_of_the_asked_size_numbered_from_zero() -> None:
    arrow = arrow_schema(schema_of(value=t.StringType()))
    sent: list[SuperTuple] = []
    writer = ColumnWriter(0, "out", arrow, sent.append, shard=0, super_tuple_bytes=4_096)
    for _ in range(50):
        writer.write(["x" * 100] * 64, IN_GLOBAL)
    writer.flush()
    sizes = [row.elements for row in sent]
    assert [row.seq for row in sent] == [sum(sizes[:i]) for i in range(len(sent))]
    assert sum(row.elements for row in sent) == 3_200
    # The first batch is a guess; later ones hold about four super tuples' worth of bytes.
    assert all(len(row.payload) < 2 * 4 * 4_096 for row in sent[1:])
    assert len(sent) > 10
