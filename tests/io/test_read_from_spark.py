from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import ColumnTypeError, PlanError
from headrace.io import ReadFromSpark, to_dataframe

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

TEMPERATURES = [("Ulm", 3), ("Bern", 5), ("Ulm", 8), ("Graz", None)]


def pipeline(session: Any, *flags: str) -> beam.Pipeline:
    options = PipelineOptions(["--progress=off", *flags])
    return beam.Pipeline(runner=headrace.SparkRunner(spark=session), options=options)


@pytest.fixture
def frame(spark: Any) -> Any:
    """Four readings on three partitions: one more than there are shards."""
    made = spark.createDataFrame(TEMPERATURES, "city string, degrees int").repartition(3)
    assert made.rdd.getNumPartitions() == 3
    return made


def test_a_row_gives_its_columns_by_name_and_by_place(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        rows = p | ReadFromSpark(frame)
        pairs = rows | beam.Map(lambda row: (row.city, row[1], len(row)))
        assert_that(pairs, equal_to([(city, n, 2) for city, n in TEMPERATURES]))


def test_rows_stay_rows_after_a_shuffle(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        found = p | ReadFromSpark(frame) | beam.Reshuffle() | beam.Map(lambda row: row.city)
        assert_that(found, equal_to(["Ulm", "Bern", "Ulm", "Graz"]))


def test_only_the_asked_columns_are_read_in_the_asked_order(spark: Any) -> None:
    made = spark.createDataFrame([(1, "x", 2.5)], "a int, b string, c double")
    with pipeline(spark) as p:
        rows = p | ReadFromSpark(made, columns=["c", "a"])
        assert_that(rows | beam.Map(lambda row: (row._fields, tuple(row))),
                    equal_to([(("c", "a"), (2.5, 1))]))


def test_a_column_that_is_not_there_is_refused_at_once(frame: Any) -> None:
    with pytest.raises(ColumnTypeError, match="no column 'town'; there are city, degrees"):
        ReadFromSpark(frame, columns=["town"])


def test_a_refused_column_may_be_left_out(spark: Any) -> None:
    made = spark.sql("SELECT 1 AS a, timestamp_ntz'2024-01-01 00:00:00' AS b")
    with pytest.raises(ColumnTypeError, match="column 'b' of type timestamp_ntz"):
        ReadFromSpark(made)
    with pipeline(spark) as p:
        assert_that(p | ReadFromSpark(made, columns=["a"]) | beam.Map(tuple), equal_to([(1,)]))


def test_a_column_gives_the_rows_of_a_bounded_frame_their_event_times(spark: Any) -> None:
    """By hand: seconds 3 and 8 are in the window [0, 10), second 12 is in [10, 20)."""
    made = spark.createDataFrame([("a", 3), ("a", 12), ("a", 8)], "k string, at int")
    with pipeline(spark) as p:
        sums = (
            p
            | ReadFromSpark(made.repartition(2), ["k"], timestamp="at", watermark=5)
            | beam.Map(lambda row, at=beam.DoFn.TimestampParam: (row, at.micros // 1_000_000))
            | beam.WindowInto(beam.window.FixedWindows(10))
            | beam.Map(lambda pair: (pair[0].k, pair[1]))
            | beam.CombinePerKey(sum)
        )
        assert_that(sums, equal_to([("a", 11), ("a", 12)]))


def test_a_row_without_an_event_time_fails_the_pipeline_with_the_columns_name(spark: Any) -> None:
    made = spark.createDataFrame([(1, 3.0), (2, None)], "n int, at double")
    with pytest.raises(ColumnTypeError, match="column 'at' gives the rows their event time"):
        with pipeline(spark) as p:
            p | ReadFromSpark(made, ["n"], timestamp="at") | beam.Map(print)


def test_a_read_in_the_middle_of_a_pipeline_is_refused(spark: Any, frame: Any) -> None:
    with pytest.raises(TypeError, match="starts a pipeline"):
        beam.Pipeline() | beam.Create([1]) | ReadFromSpark(frame)


def test_an_empty_frame_gives_no_elements_and_the_pipeline_still_ends(
    spark: Any,
) -> None:
    made = spark.createDataFrame([], "a int")
    with pipeline(spark) as p:
        rows = p | ReadFromSpark(made)
        assert_that(rows | beam.combiners.Count.Globally(), equal_to([0]))


def test_every_type_of_column_arrives_as_the_guide_says(spark: Any) -> None:
    made = spark.sql(
        """SELECT true AS flag, 1Y AS tiny, 2S AS small, 3 AS whole, 4L AS large,
        0.5F AS single, 0.1D AS double, 12.30BD AS price, 'Mühle' AS text, X'00FF' AS raw,
        date'1969-12-31' AS day, timestamp'1970-01-01 00:00:01.000002Z' AS instant,
        array(1, NULL) AS items, map('k', timestamp'1970-01-01 00:00:00Z') AS times,
        named_struct('city', 'Ulm', 'at', named_struct('x', 1)) AS place,
        CAST(NULL AS struct<a: int>) AS nothing"""
    )
    wanted = (
        True, 1, 2, 3, 4, 0.5, 0.1, decimal.Decimal("12.30"), "Mühle", b"\x00\xff",
        datetime.date(1969, 12, 31), Timestamp(micros=1_000_002), [1, None],
        {"k": Timestamp(0)}, ("Ulm", (1,)), None,
    )
    with pipeline(spark) as p:
        rows = p | ReadFromSpark(made)
        assert_that(rows | beam.Map(tuple), equal_to([wanted]), label="fused")
        again = rows | beam.Reshuffle() | "after a shuffle" >> beam.Map(tuple)
        assert_that(again, equal_to([wanted]), label="shuffled")
        inner = rows | beam.Map(lambda row: row.place.at.x)
        assert_that(inner, equal_to([1]), label="inner")


values = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.none() | st.binary(),
    st.none() | st.booleans(),
    st.none() | st.dates(datetime.date(1600, 1, 1)),
)


@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(values, max_size=20))
def test_what_spark_collects_from_a_round_trip_is_what_went_in(
    spark: Any, rows: list[Any]
) -> None:
    schema = "n long, x double, s string, b binary, f boolean, d date"
    made = spark.createDataFrame(rows, schema)
    with pipeline(spark) as p:
        handle = to_dataframe(p | ReadFromSpark(made) | beam.Filter(lambda _: True))
    with handle:
        assert handle.dataframe().schema == made.schema
        found = [tuple(row) for row in handle.dataframe().collect()]
    key = repr
    assert sorted(found, key=key) == sorted(rows, key=key)


def test_several_sources_are_joined_by_key(spark: Any) -> None:
    names = spark.createDataFrame([(1, "Ulm"), (2, "Bern"), (3, "Graz")], "id int, name string")
    people = spark.createDataFrame([(1, 126_000), (2, 134_000)], "id int, people long")
    with pipeline(spark, "--shards=3") as p:
        left = p | "names" >> ReadFromSpark(names.repartition(2)) | beam.Map(
            lambda row: (row.id, row.name)
        )
        right = p | "people" >> ReadFromSpark(people) | "pairs" >> beam.Map(
            lambda row: (row.id, row.people)
        )
        joined = {"name": left, "people": right} | beam.CoGroupByKey()
        found = joined | beam.MapTuple(lambda k, v: (k, list(v["name"]), list(v["people"])))
        assert_that(
            found, equal_to([(1, ["Ulm"], [126_000]), (2, ["Bern"], [134_000]), (3, ["Graz"], [])])
        )


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_an_impulse_fires_once_beside_any_number_of_partitions(
    spark: Any, frame: Any, shards: int
) -> None:
    with pipeline(spark, f"--shards={shards}") as p:
        made = p | beam.Create(["Linz"])
        read = p | ReadFromSpark(frame) | beam.Map(lambda row: row.city)
        both = (made, read) | beam.Flatten() | beam.Map(str.upper)
        assert_that(both, equal_to(["LINZ", "ULM", "BERN", "ULM", "GRAZ"]))


def test_the_same_frame_may_be_read_twice(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        one = p | "one" >> ReadFromSpark(frame) | beam.Map(lambda row: row.degrees)
        two = p | "two" >> ReadFromSpark(frame, columns=["city"]) | "city" >> beam.Map(
            lambda row: row.city
        )
        assert_that(one, equal_to([3, 5, 8, None]), label="degrees")
        assert_that(two, equal_to(["Ulm", "Bern", "Ulm", "Graz"]), label="cities")


def test_group_by_a_field_and_aggregate_another(spark: Any) -> None:
    made = spark.createDataFrame([("a", 1), ("b", 2), ("a", 5)], "k string, n int")
    with pipeline(spark) as p:
        groups = p | ReadFromSpark(made) | beam.GroupBy("k").aggregate_field("n", sum, "total")
        assert_that(groups | beam.Map(tuple), equal_to([("a", 6), ("b", 2)]))


def test_select_makes_rows_of_some_fields(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        chosen = p | ReadFromSpark(frame) | beam.Select("city", shout=lambda row: row.city.upper())
        assert_that(
            chosen | beam.Map(lambda row: row.shout), equal_to(["ULM", "BERN", "ULM", "GRAZ"])
        )


def test_a_function_annotated_with_int_takes_an_int_column(spark: Any) -> None:
    def double(n: int) -> int:
        return 2 * n

    made = spark.range(3).selectExpr("CAST(id AS int) AS n")
    with pipeline(spark) as p:
        found = p | ReadFromSpark(made) | "n" >> beam.Map(lambda row: row.n) | beam.Map(double)
        assert_that(found, equal_to([0, 2, 4]))


def test_rows_meet_side_inputs_made_and_read(spark: Any, frame: Any) -> None:
    """The read runs in the first superstep, the ParDo that waits for a side input does not."""
    limits = spark.createDataFrame([(4,)], "most int")
    with pipeline(spark) as p:
        made = p | beam.Create([100])
        read = p | "limits" >> ReadFromSpark(limits) | beam.Map(lambda row: row.most)
        found = (
            p
            | ReadFromSpark(frame)
            | beam.Filter(lambda row: row.degrees is not None)
            | "meet" >> beam.Map(
                lambda row, most, plus: (row.city, min(row.degrees, most) + plus),
                most=beam.pvalue.AsSingleton(read),
                plus=beam.pvalue.AsSingleton(made),
            )
        )
        assert_that(found, equal_to([("Ulm", 103), ("Bern", 104), ("Ulm", 104)]))


def test_a_read_may_be_its_own_side_input(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        rows = p | ReadFromSpark(frame)
        found = rows | beam.Map(lambda row, rows: (row.city, len(rows)), beam.pvalue.AsList(rows))
        assert_that(found, equal_to([("Ulm", 4), ("Bern", 4), ("Ulm", 4), ("Graz", 4)]))


class Running(beam.DoFn):  # type: ignore[misc]
    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self, pair: tuple[str, int], count: Any = beam.DoFn.StateParam(COUNT)  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        count.write((count.read() or 0) + 1)
        yield pair[0], count.read()


def test_state_kept_per_key_sees_the_rows_of_all_partitions(spark: Any, frame: Any) -> None:
    with pipeline(spark) as p:
        found = (
            p
            | ReadFromSpark(frame)
            | beam.Map(lambda row: (row.city, 1)).with_output_types(tuple[str, int])
            | beam.ParDo(Running())
        )
        assert_that(found, equal_to([("Ulm", 1), ("Ulm", 2), ("Bern", 1), ("Graz", 1)]))


def test_small_bundles_are_kept_small_also_on_the_rows_of_a_frame(spark: Any) -> None:
    class Sizes(beam.DoFn):  # type: ignore[misc]
        def start_bundle(self) -> None:
            self.seen = 0

        def process(self, _: Any) -> None:
            self.seen += 1

        def finish_bundle(self) -> Iterator[Any]:
            yield beam.transforms.window.GlobalWindows.windowed_value(self.seen)

    with pipeline(spark, "--max_bundle_elements=10") as p:
        sizes = p | ReadFromSpark(spark.range(0, 95, 1, 1)) | beam.ParDo(Sizes())
        assert_that(sizes | beam.CombineGlobally(max), equal_to([10]), label="most")
        assert_that(sizes | "all" >> beam.CombineGlobally(sum), equal_to([95]), label="all")


def test_the_metrics_of_a_stage_are_summed_over_the_partitions(spark: Any, frame: Any) -> None:
    seen = beam.metrics.Metrics.counter("test", "seen")

    def count(row: Any) -> Any:
        seen.inc()
        return row

    p = pipeline(spark)
    p | ReadFromSpark(frame) | beam.Map(count)
    result = p.run()
    result.wait_until_finish()
    (found,) = result.metrics().query()["counters"]
    assert found.committed == 4


def test_a_proto_alone_is_refused_because_its_frame_is_missing(spark: Any, frame: Any) -> None:
    p = beam.Pipeline()
    p | "read me" >> ReadFromSpark(frame) | beam.Map(print)
    runner = headrace.SparkRunner(spark=spark)
    with pytest.raises(PlanError, match="read me: its DataFrame is not at hand"):
        runner.run_proto(p.to_runner_api(), PipelineOptions([])).wait_until_finish()


def test_a_failure_in_the_first_superstep_names_the_users_error(spark: Any, frame: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        with pipeline(spark) as p:
            p | ReadFromSpark(frame) | beam.Map(lambda row: 1 // 0)
