"""A selection of Beam's own pipeline tests on headrace; `make beam-suites` runs all of them.

They run in one process; those of ON_SPARK on Spark too, with HEADRACE_SLOW=1 all of them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import importlib
import sys
import unittest
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.lab.experiments.beam_suites.carry import carried_records
from headrace.lab.experiments.beam_suites.exceptions import Kind, read_table, row_for, shards_for
from headrace.lab.experiments.beam_suites.swap import runs_on
from tests.places import SLOW

pytestmark = [pytest.mark.timeout(120, func_only=True)]

#: Module -> tests, chosen for breadth: each group uses another part of the compiler or the worker.
SELECTION = {
    "dataframe.convert_test": ("ConvertTest::*",),
    "io.avroio_test": ("TestFastAvro::test_sink_transform*", "TestFastAvro::test_read_all_from*"),
    "io.fileio_test": ("MatchTest::*", "ReadTest::*"),
    "io.parquetio_test": ("TestParquet::test_sink_transform", "TestParquet::test_read_all_from*"),
    "io.textio_test": ("TextSinkTest::test_write_*", "CsvTest::*", "JsonTest::*"),
    "pipeline_test": ("DoFnTest::*",),
    "transforms.combinefn_lifecycle_test": ("LocalCombineFnLifecycleTest_3_cloudpickle::*",),
    "transforms.combiners_test": ("CombinerWithSideInputs::*",),
    "transforms.core_test": ("FlattenTest::*", "ExceptionHandlingTest::*"),
    "transforms.create_test": ("CreateTest::*",),
    "transforms.ptransform_test": ("PTransformTest::test_p*", "PTransformTest::test_fl*"),
    "transforms.sideinputs_test": ("SideInputsTest::*",),
    "transforms.userstate_test": ("StatefulDoFnOnDirectRunnerTest::*",),
    "transforms.util_test": ("CoGroupByKeyTest::*", "ReshuffleTest::test_reshuffle_w*"),
    "transforms.window_test": ("WindowTest::*",),
}


#: What meets Spark in its own way: files of workers, failures, values that must travel.
ON_SPARK = {
    "io.textio_test": (
        "TextSinkTest::test_write_empty", "TextSinkTest::test_write_max_bytes_per_shard",
        "TextSinkTest::test_write_pipeline_*header", "TextSinkTest::test_write_pipeline_non_*",
    ),
    "transforms.core_test": (
        "ExceptionHandlingTest::test_handles_callbacks",
        "ExceptionHandlingTest::test_timer_exception_handling",
    ),
    "transforms.sideinputs_test": ("SideInputsTest::test_multi*",),
    "transforms.userstate_test": (
        "StatefulDoFnOnDirectRunnerTest::test_dynamic_timer_and_simple_timer",
        "StatefulDoFnOnDirectRunnerTest::test_generate_sequence_with_realtime_timer",
        "StatefulDoFnOnDirectRunnerTest::test_timer_output_timestamp*",
    ),
}


class OnHeadrace(unittest.TestCase):
    """Swaps the runner for the time of each test."""

    headrace_runner = "inline"

    def setUp(self) -> None:
        stack = contextlib.ExitStack()
        known, _ = read_table()
        theirs = next(c for c in type(self).__mro__ if c.__module__.startswith("apache_beam."))
        shards = shards_for(
            f"{theirs.__module__.removeprefix('apache_beam.')}::{theirs.__name__}::"
            f"{self._testMethodName}", known,
        )  # fmt: skip
        stack.enter_context(runs_on(self.headrace_runner, shards=lambda: shards))
        stack.enter_context(carried_records(sys.modules[theirs.__module__], [theirs]))
        self.addCleanup(stack.close)
        super().setUp()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # its start is not part of a test's time
class OnSpark(OnHeadrace):
    """The same, on Spark."""

    headrace_runner = "headrace"


def on_headrace(
    module: str, name: str, chosen: tuple[str, ...], base: type = OnHeadrace
) -> type:
    """One of Beam's classes with our runner; what cannot pass is marked with its reason."""
    known, _ = read_table()
    theirs: Any = getattr(importlib.import_module(f"apache_beam.{module}"), name)
    body: dict[str, Any] = {"__module__": __name__, "__doc__": theirs.__doc__}
    for method in unittest.TestLoader().getTestCaseNames(theirs):
        if not any(fnmatch.fnmatchcase(f"{name}::{method}", pattern) for pattern in chosen):
            body[method] = None  # not collected
            continue
        row = row_for(f"{module}::{name}::{method}", known)
        if row is not None and row.kind is not Kind.ONE_SHARD:
            mark = (
                pytest.mark.xfail(reason=row.reason, strict=True)
                if row.kind is Kind.OURS
                else pytest.mark.skip(reason=f"{row.kind.value}: {row.reason}")
            )
            body[method] = mark(_again(theirs, method))
    where = "" if base is OnHeadrace else "_on_spark"
    return type(f"{module.rpartition('.')[2]}_{name}{where}", (base, theirs), body)


def _again(theirs: Any, method: str) -> Any:
    """A method of our own: a mark on Beam's would stand for everyone who inherits it."""

    def test(self: Any) -> Any:
        return getattr(theirs, method)(self)

    return test


def suites() -> Iterator[type]:
    """Give Beam's classes with our runner, in both places."""
    for base, selection in ((OnHeadrace, SELECTION), (OnSpark, SELECTION if SLOW else ON_SPARK)):
        for module, chosen in selection.items():
            for name in sorted({pattern.partition("::")[0] for pattern in chosen}):
                yield on_headrace(module, name, chosen, base)


# By its own name alone: a class that has a second one here is collected, and run, twice.
globals().update({suite.__name__: suite for suite in suites()})
