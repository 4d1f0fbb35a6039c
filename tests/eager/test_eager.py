"""Eager pipelines: `[1, 2, 3] | beam.Map(f)` gives a list, also when Spark has run it."""

from __future__ import annotations

import os
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream

import headrace
from headrace.errors import OptionError, UnsupportedTransformError
from headrace.io.materialise import materialise

pytestmark = pytest.mark.spark

OPTIONS = PipelineOptions(["--progress=off", "--shards=2"])


class Split(beam.PTransform):  # type: ignore[misc]
    """Several outputs, several inputs: what TFX's transforms have."""

    def expand(self, pcolls: tuple[Any, Any]) -> dict[str, Any]:
        words, numbers = pcolls
        total = numbers | beam.CombineGlobally(sum)
        return {
            "tagged": words | beam.Map(lambda word, n: (word, n), beam.pvalue.AsSingleton(total)),
            "total": total,
        }


def test_what_eager_pipelines_give_is_what_beam_gives(spark: Any) -> None:
    def answers() -> list[Any]:
        return [
            sorted([1, 2, 3] | beam.Map(lambda x: (x * x, "z"))),
            sorted([("a", 1), ("b", 2), ("a", 3)] | beam.GroupByKey() | beam.MapTuple(
                lambda key, values: (key, sorted(values)))),
            {name: sorted(found) for name, found in ((["u", "v"], [1, 2, 3]) | Split()).items()},
            [] | beam.Map(str),
        ]

    of_beam = answers()
    with headrace.eager(spark, OPTIONS):
        assert answers() == of_beam
        (process,) = [0] | beam.Map(lambda _: os.getpid())
    assert process != os.getpid()  # a worker of Spark's, not Beam's runner in this process
    assert ([0] | beam.Map(lambda _: os.getpid())) == [os.getpid()]


def test_tagged_outputs_come_back_by_their_tags(spark: Any) -> None:
    def halves() -> Any:
        return [1, 2, 3, 4] | beam.Partition(lambda x, n: x % n, 2)

    of_beam = [sorted(part) for part in halves()]
    with headrace.eager(spark, OPTIONS):
        assert [sorted(part) for part in halves()] == of_beam


def test_an_exception_of_user_code_is_raised_and_the_name_is_given_back(spark: Any) -> None:
    with pytest.raises(ZeroDivisionError), headrace.eager(spark, OPTIONS):
        [0] | beam.Map(lambda x: 1 // x)
    assert ([2] | beam.Map(lambda x: 4 // x)) == [2]


def test_a_second_block_at_the_same_time_is_refused() -> None:
    with headrace.eager(), pytest.raises(OptionError, match="one block"), headrace.eager():
        pass


def test_a_pipeline_without_end_cannot_come_back_as_a_list(spark: Any) -> None:
    class Eager(headrace.SparkRunner):
        is_eager = True

    with pytest.raises(UnsupportedTransformError, match="cannot come back as a list"):
        beam.Pipeline(Eager(spark), options=OPTIONS) | TestStream().advance_watermark_to_infinity()


def test_a_pipeline_that_is_not_eager_stays_as_it_is() -> None:
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | beam.ParDo(beam.DoFn())
    before = pipeline.to_runner_api()
    materialise(pipeline)
    assert set(pipeline.to_runner_api().components.transforms) == set(before.components.transforms)
