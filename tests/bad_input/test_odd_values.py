"""Elements and keys at the edges of what Beam allows pass unharmed."""

from __future__ import annotations

import hashlib
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsSingleton
from apache_beam.testing.util import assert_that, equal_to, is_empty

from tests.bad_input.harness import failure_on_beam, failure_on_spark, spark_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

HUGE_BYTES = 20 << 20


def sorted_group(pair: tuple[Any, Any]) -> tuple[Any, list[Any]]:
    return pair[0], sorted(pair[1], key=repr)


def test_none_is_an_element_like_any_other() -> None:
    with spark_pipeline() as p:
        nones = p | beam.Create([None, 1, None]) | beam.Map(lambda x: x)
        assert_that(nones | beam.Reshuffle(), equal_to([None, None, 1]), label="through a shuffle")
        count = nones | beam.combiners.Count.Globally()
        assert_that(count, equal_to([3]), label="counted")


def test_none_is_a_key_like_any_other() -> None:
    with spark_pipeline() as p:
        pairs = p | beam.Create([(None, 1), ("a", 2), (None, 3), ("a", None)])
        groups = pairs | beam.GroupByKey() | beam.MapTuple(lambda k, v: sorted_group((k, v)))
        assert_that(groups, equal_to([(None, [1, 3]), ("a", [2, None])]))


def test_none_travels_in_side_inputs() -> None:
    with spark_pipeline() as p:
        side = p | "Side" >> beam.Create([None, None])
        found = p | "Main" >> beam.Create([1]) | beam.Map(lambda x, s: (x, s), AsList(side))
        assert_that(found, equal_to([(1, [None, None])]))


@pytest.mark.parametrize(
    "values",
    [
        [b"\xff\xfe\x00", b"", b"\x80" * 300],
        ["", "\x00", "a\x00b", "\U0001f600", "e\u0301", "\u00e9"],
        [0, -1, 2**63 - 1, -(2**63)],  # what Beam's integer coder holds
        [float("inf"), -0.0, 5e-324],
        [(), ((),), ("a", (1, None))],
    ],
    ids=["bytes", "text", "integers", "floats", "tuples"],
)
def test_odd_values_are_unharmed_as_elements_and_as_keys(values: list[Any]) -> None:
    with spark_pipeline() as p:
        made = p | beam.Create(values)
        assert_that(made | beam.Reshuffle(), equal_to(values), label="elements")
        counts = made | beam.combiners.Count.PerElement()
        assert_that(counts, equal_to([(value, 1) for value in values]), label="keys")


def test_text_that_no_encoding_can_express_fails_as_on_the_local_runner() -> None:
    def build(p: beam.Pipeline) -> Any:
        return (
            p
            | beam.Create([1])
            | "Step" >> beam.Map(lambda _: ("\ud800", 1)).with_output_types(tuple[str, int])
            | beam.GroupByKey()
        )

    assert isinstance(failure_on_beam(build), UnicodeEncodeError)
    assert isinstance(failure_on_spark(build), UnicodeEncodeError)


def digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()


def test_a_single_element_of_twenty_megabytes_passes_exchange_and_grouping() -> None:
    made = bytes(range(256)) * (HUGE_BYTES // 256)
    with spark_pipeline() as p:
        huge = p | beam.Create([1]) | beam.Map(lambda _: bytes(range(256)) * (HUGE_BYTES // 256))
        through = huge | beam.Reshuffle() | "Digest" >> beam.Map(digest)
        assert_that(through, equal_to([digest(made)]), label="shuffled")
        grouped = (
            huge
            | beam.Map(lambda data: ("k", data))
            | beam.GroupByKey()
            | beam.FlatMapTuple(lambda _, datas: [digest(data) for data in datas])
        )
        assert_that(grouped, equal_to([digest(made)]), label="grouped")
        side = p | "Main" >> beam.Create([1]) | beam.Map(lambda _, d: len(d), AsSingleton(huge))
        assert_that(side, equal_to([HUGE_BYTES]), label="side input")


def test_empty_collections_flow_through_everything() -> None:
    with spark_pipeline() as p:
        nothing = p | beam.Create([])
        pairs = nothing | beam.Map(lambda x: (x, 1))
        assert_that(pairs | beam.GroupByKey(), is_empty(), label="grouped")
        assert_that(pairs | beam.CombinePerKey(sum), is_empty(), label="combined by key")
        assert_that(nothing | beam.CombineGlobally(sum), equal_to([0]), label="combined")
        assert_that((nothing, nothing) | "Two" >> beam.Flatten(), is_empty(), label="flattened")
        none = () | "None" >> beam.Flatten(pipeline=p)
        assert_that(none, is_empty(), label="flattened from none")
        seen = (
            p
            | "Main" >> beam.Create([1])
            | beam.Map(
                lambda x, a, b, c: (x, list(a), b, c), AsIter(nothing), AsList(nothing),
                AsDict(pairs),
            )
        )
        assert_that(seen, equal_to([(1, [], [], {})]), label="side inputs")


def test_a_pipeline_without_steps_runs() -> None:
    with spark_pipeline():
        pass
