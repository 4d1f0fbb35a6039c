"""Beam's own runner suite, all of it, on a session: how each test ended.

Takes a session, gives cells. Beam's tests are loaded when they are asked for.
"""

from __future__ import annotations

import time
import unittest
from collections.abc import Callable, Collection
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.lab.ending import Ending
from headrace.lab.experiments.connect.cells import SUITE, Cell


def suite_on(session: Any) -> type[unittest.TestCase]:
    """Give Beam's suite with headrace on a session as its runner."""
    from apache_beam.runners.portability.fn_api_runner import fn_runner_test

    class OnConnect(fn_runner_test.FnApiRunnerTest):  # type: ignore[misc]
        def create_pipeline(self, is_drain: bool = False) -> beam.Pipeline:
            options = PipelineOptions(["--shards=2", "--progress=off"])
            runner = headrace.SparkRunner(session, drain=is_drain)
            return beam.Pipeline(runner=runner, options=options)

    return OnConnect


class Ended(unittest.TestResult):
    """Makes a cell of each test as it ends.

    Args:
        tell: is given each cell.
    """

    def __init__(self, tell: Callable[[Cell], None]) -> None:
        super().__init__()
        self.cells: list[Cell] = []
        self._tell = tell
        self._ending, self._told, self._began = Ending.RIGHT, "", 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        """Begin to wait for its end."""
        super().startTest(test)
        self._ending, self._told, self._began = Ending.RIGHT, "", time.perf_counter()

    def stopTest(self, test: unittest.TestCase) -> None:
        """Keep how it ended."""
        super().stopTest(test)
        name = test.id().rpartition(".")[2]
        cell = Cell(
            part=SUITE, name=name, ending=self._ending, told=self._told,
            seconds=time.perf_counter() - self._began,
        )
        self.cells.append(cell)
        self._tell(cell)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """It raised."""
        super().addError(test, err)
        self._end(Ending.FAILED, err[1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """What it asserts does not hold."""
        super().addFailure(test, err)
        self._end(Ending.WRONG, err[1])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Beam leaves it out."""
        super().addSkip(test, reason)
        self._end(Ending.NOT_THERE, reason)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Beam expects it to fail."""
        super().addUnexpectedSuccess(test)
        self._end(Ending.WRONG, "Beam expects it to fail")

    def addSubTest(
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any
    ) -> None:
        """A part of it ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._end(Ending.WRONG, err[1])

    def _end(self, ending: Ending, why: object) -> None:
        self._ending = ending
        self._told = (str(why).strip().splitlines() or [type(why).__name__])[0][:300]


def run_suite(
    session: Any, tell: Callable[[Cell], None], only: str = "", there: Collection[str] = ()
) -> list[Cell]:
    """Run the tests of the suite and tell of each as it ends.

    Args:
        session: where they run.
        tell: is given each cell.
        only: the beginning of their names.
        there: the names of those that need not be run again.
    """
    suite = suite_on(session)
    chosen = unittest.TestSuite(
        suite(name) for name in unittest.TestLoader().getTestCaseNames(suite)
        if name.startswith(only) and name not in there
    )
    ended = Ended(tell)
    chosen.run(ended)
    return ended.cells
