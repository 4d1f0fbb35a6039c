"""The pytest plugin: swaps the runner for the whole session and writes one line for each test.

`-p headrace.lab.experiments.beam_suites.plugin --suites-runner=headrace --suites-results=FILE`. A
line is the JSON of a `Result`. Of the table of exceptions it takes the number of shards and what is
not to be run; which tests are expected to fail is judged later. Only pytest loads it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import enable_all_additional_type_checks

from headrace.lab.experiments.beam_suites.carry import carried_records
from headrace.lab.experiments.beam_suites.exceptions import (
    FILE,
    SHARDS,
    read_table,
    row_for,
    shards_for,
)
from headrace.lab.experiments.beam_suites.results import Ended, Result, as_line, read_folder
from headrace.lab.experiments.beam_suites.swap import RUNNERS, runs_on

#: How much of a failure's text is kept.
TEXT = 6_000


def pytest_addoption(parser: Any) -> None:
    """Add the options."""
    group = parser.getgroup("suites")
    group.addoption("--suites-table", default=str(FILE), metavar="FILE")
    group.addoption("--suites-all-type-checks", action="store_true")
    group.addoption("--suites-runner", choices=sorted(RUNNERS), default="headrace")
    group.addoption("--suites-results", default=None, metavar="FILE")
    group.addoption("--suites-only", action="append", default=[], metavar="PATTERN")
    group.addoption("--suites-without", action="append", default=[], metavar="PATTERN")


def pytest_configure(config: Any) -> None:
    """Start recording."""
    if config.getoption("--suites-all-type-checks"):
        enable_all_additional_type_checks()
    config.pluginmanager.register(Recorder(config), "suites-recorder")


class Recorder:
    """Follows one pytest session."""

    def __init__(self, config: Any) -> None:
        self._runner = config.getoption("--suites-runner")
        target = config.getoption("--suites-results")
        self._target = Path(target) if target else None
        self._stack = contextlib.ExitStack()
        self._pipelines = 0
        self._phases: list[Any] = []
        self._known, _ = read_table(Path(config.getoption("--suites-table")))
        self._shards = SHARDS

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionstart(self) -> Iterator[None]:
        """Swap the runner before Beam's modules are imported: some build pipelines at once."""
        swap = runs_on(self._runner, self._count, lambda: self._shards)
        self._stack.enter_context(swap)
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        """Put Beam back as it was."""
        yield
        self._stack.close()

    def _count(self) -> None:
        self._pipelines += 1

    def pytest_collection_finish(self, session: Any) -> None:
        """Let records come back that DoFns leave in their test's class."""
        if self._runner not in ("local", "inline"):
            classes = {item.cls: item.module for item in session.items if item.cls is not None}
            for theirs, module in classes.items():
                self._stack.enter_context(carried_records(module, [theirs]))

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out what an earlier process has done, or ended with, and what is not to be run."""
        leave_out(config, items)
        if self._target is None:
            return
        done = {(result.module, result.test) for result in read_folder(self._target.parent)}
        gone = [item for item in items if (module_of(item.nodeid), name_of(item.nodeid)) in done]
        for item in items:
            module, test = module_of(item.nodeid), name_of(item.nodeid)
            row = row_for(f"{module}::{test}", self._known)
            if item not in gone and row is not None and not row.run:
                gone.append(item)
                self._write(Result(module, test, Ended.FAILED, 0.0, 0, "not run"))
        if gone:
            config.hook.pytest_deselected(items=gone)
            items[:] = [item for item in items if item not in gone]

    def pytest_collectreport(self, report: Any) -> None:
        """A module that cannot be imported, or skips itself."""
        if report.outcome == "passed":
            return
        outcome = Ended.SKIPPED if report.outcome == "skipped" else Ended.FAILED
        self._write(Result(module_of(report.nodeid), "", outcome, 0.0, 0, text_of(report)))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins; should the process end now, the reader knows where."""
        self._pipelines, self._phases = 0, []
        self._shards = shards_for(f"{module_of(nodeid)}::{name_of(nodeid)}", self._known)
        self._write(Result(module_of(nodeid), name_of(nodeid), Ended.BEGUN, 0.0, 0, ""))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep what each phase of a test says."""
        self._phases.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended."""
        worst = next((r for r in self._phases if r.outcome == "failed"), None)
        skip = next((r for r in self._phases if r.outcome == "skipped"), None)
        said = worst or skip
        self._write(
            Result(
                module=module_of(nodeid),
                test=name_of(nodeid),
                outcome=Ended.FAILED if worst else Ended.SKIPPED if skip else Ended.PASSED,
                seconds=round(sum(r.duration for r in self._phases), 3),
                pipelines=self._pipelines,
                text=text_of(said) if said else "",
            )
        )

    def _write(self, result: Result) -> None:
        if self._target is None:
            return
        with self._target.open("a", encoding="utf-8") as file:
            file.write(as_line(result))


def leave_out(config: Any, items: list[Any]) -> None:
    """Leave out the tests that another runner takes."""
    only, without = config.getoption("--suites-only"), config.getoption("--suites-without")

    def matches(item: Any, patterns: list[str]) -> bool:
        name = f"{module_of(item.nodeid)}::{name_of(item.nodeid)}"
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    gone = [
        item for item in items if (only and not matches(item, only)) or matches(item, without)
    ]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]


def module_of(nodeid: str) -> str:
    """Give the module's dotted name: of Beam's own below apache_beam, else below the root.

    >>> module_of("../lib/apache_beam/io/textio_test.py::T::test_a")
    'io.textio_test'
    >>> module_of("tests/test_writers.py::test_b")
    'tests.test_writers'
    """
    path = nodeid.partition("::")[0].rpartition("apache_beam/")[2]
    return path.removesuffix(".py").replace("/", ".")


def name_of(nodeid: str) -> str:
    """Give the test's name inside its module."""
    return nodeid.partition("::")[2]


def text_of(report: Any) -> str:
    """Give the reason of a skip, or the end of a failure's text."""
    said = report.longrepr
    if isinstance(said, tuple):
        return str(said[2])
    if getattr(report, "wasxfail", None) is not None:
        return f"expected to fail: {report.wasxfail}"
    return str(said)[-TEXT:]
