"""The two places where tests of epochs and of Beam's suites run: one process, and Spark.

A test that asks for `where` runs in one process, and on Spark too if it is marked `also_on_spark`;
HEADRACE_SLOW=1 runs all in both. A test that is about Spark itself is marked `spark`, or uses the
harness without asking for a place, and runs there alone. The answer may not depend on the place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pytest
from apache_beam.testing import test_pipeline

from headrace.runner import HeadraceOptions, HeadraceRunner, SparkRunner
from headrace.testing import LocalRunner, LocalSession, Stores

SLOW = "HEADRACE_SLOW" in os.environ


class Place(Enum):
    """Where a test runs its pipelines."""

    PROCESS = "process"  # headrace.testing, without Spark
    SPARK = "spark"  # local[2]

    def runner(self, *, drain: bool = False) -> HeadraceRunner:
        """Give a runner there."""
        if self is Place.SPARK:
            from tests.spark_session import shared_session

            return SparkRunner(spark=shared_session(), drain=drain)
        return LocalRunner(session=session_of(self), stores=Stores.LMDB, drain=drain)


_LOCAL = LocalSession()
#: Where the test that runs now has its pipelines; set by the fixture `where`.
_current = [Place.SPARK]  # for tests that do not ask: some of them kill their worker


def here() -> Place:
    """Give the place of the test that runs now."""
    return _current[-1]


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Let pipelines of the harness run at a place."""
    _current.append(place)
    try:
        yield
    finally:
        _current.pop()


def session_of(place: Place | None = None) -> Any:
    """Give the session of a place: it makes DataFrames."""
    if (place or here()) is Place.SPARK:
        from tests.spark_session import shared_session

        return shared_session()
    return _LOCAL


def places_of(test: Any) -> list[Any]:
    """Give where a test runs, as parameters for the fixture `where`."""
    on_spark = pytest.param(Place.SPARK, marks=pytest.mark.spark, id="spark")
    process = pytest.param(Place.PROCESS, id="process")
    if test.get_closest_marker("spark"):
        return [on_spark]
    both = SLOW or test.get_closest_marker("also_on_spark")
    return [process, on_spark] if both else [process]


def chosen(suite: type, *names: str) -> type:
    """Give a suite of Beam's with some of its tests alone, unless HEADRACE_SLOW asks for all."""
    if SLOW:
        return suite
    unknown = [name for name in names if not callable(getattr(suite, name, None))]
    if unknown:
        msg = f"{suite.__name__} has no tests {', '.join(unknown)}"
        raise ValueError(msg)
    tests = [name for name in dir(suite) if name.startswith("test")]
    return type(suite.__name__, (suite,), {n: None for n in tests if n not in names})


def without(suite: type, *names: str) -> type:
    """Give a suite without some of its tests, unless HEADRACE_SLOW asks for all."""
    tests = [name for name in dir(suite) if name.startswith("test") and name not in names]
    return chosen(suite, *tests)


def headrace_is_the_runner(test: Any, place: Place, *, shards: int = 2) -> None:
    """From here to the end of the test, every TestPipeline runs on headrace."""
    from unittest import mock

    original = test_pipeline.TestPipeline.__init__

    def on_headrace(self: Any, runner: Any = None, *args: Any, **more: Any) -> None:
        del runner
        original(self, place.runner(), *args, **more)
        ours = self.get_pipeline_options().view_as(HeadraceOptions)
        ours.shards, ours.progress = shards, "off"

    patch = mock.patch.object(test_pipeline.TestPipeline, "__init__", on_headrace)
    patch.start()
    test.addCleanup(patch.stop)
