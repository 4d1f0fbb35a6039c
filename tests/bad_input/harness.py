"""Runs pipelines that go wrong, in one process, on Spark and on Beam's local runner.

Keeps what they raise.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from headrace.runner import SparkRunner
from tests.places import Place
from tests.spark_session import shared_session

Build = Callable[[beam.Pipeline], Any]


def spark_pipeline(*options: str, shards: int = 2) -> beam.Pipeline:
    """A pipeline that will run on the shared session."""
    return beam.Pipeline(
        runner=SparkRunner(spark=shared_session()),
        options=PipelineOptions([f"--shards={shards}", "--progress=off", *options]),
    )


def failure_on_spark(build: Build) -> BaseException:
    """Run on Spark; give what the user meets."""
    return _failure(spark_pipeline(), build)


def failure_at(place: Place, build: Build) -> BaseException:
    """Run at a place; give what the user meets."""
    options = PipelineOptions(["--shards=2", "--progress=off"])
    return _failure(beam.Pipeline(runner=place.runner(), options=options), build)


def failure_on_beam(build: Build) -> BaseException:
    """Run on Beam's local runner; give what the user meets."""
    return _failure(beam.Pipeline(runner=FnApiRunner()), build)


def _failure(pipeline: beam.Pipeline, build: Build) -> BaseException:
    try:
        with pipeline as p:
            build(p)
    except BaseException as failure:  # noqa: BLE001 (whatever it is, the test looks at it)
        return failure
    message = "the pipeline was meant to fail and did not"
    raise AssertionError(message)


def shown(failure: BaseException) -> str:
    """What Python prints for an exception nobody catches."""
    return "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))


def assert_session_still_works() -> None:
    """Run a small right pipeline on the shared session."""
    with spark_pipeline(shards=1) as p:
        squares = p | beam.Create([1, 2, 3], reshuffle=False) | beam.Map(lambda x: x * x)
        assert_that(squares, equal_to([1, 4, 9]))
