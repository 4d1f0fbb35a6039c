"""Decides which runner a test's pipeline gets: the one under test in place of Beam's local ones.

Takes a name of `RUNNERS`, gives a context in which every `beam.Pipeline` that names no runner, or
one of Beam's local runners, gets that one. A pipeline that names any other runner is left alone.
Knows nothing of pytest.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.portability import prism_runner
from apache_beam.transforms import environments

from headrace.lab.experiments.beam_suites.carry import carried_results
from headrace.lab.experiments.beam_suites.exceptions import SHARDS

#: Beam's runners for one machine, by the last part of their names: what a test uses when it only
#: wants its pipeline run.
LOCAL_RUNNERS = frozenset(
    {
        "BundleBasedDirectRunner", "DirectRunner", "FnApiRunner", "PrismRunner",
        "SwitchingDirectRunner", "TestDirectRunner",
    }
)  # fmt: skip


@functools.lru_cache(maxsize=1)
def session() -> Any:
    """The session that all tests of this process share: the active one, or one of our own."""
    from pyspark.sql import SparkSession

    from headrace.engine.spark.session import start_session

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    made = start_session("local[2]")
    made.sparkContext.setLogLevel("OFF")  # tests fail on purpose, and say so themselves
    return made


def on_headrace() -> Any:
    """The runner under test."""
    from headrace.runner import SparkRunner

    return SparkRunner(spark=session())


def without_spark() -> Any:
    """Headrace in this process: parts what is ours from what is distance."""
    from headrace.testing import LocalRunner

    return LocalRunner()


def in_process() -> Any:
    """Beam's local runner as it is, but for its download of another one."""
    from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner

    return SwitchingDirectRunner()


def out_of_process() -> Any:
    """Beam's local runner with its functions in a process of their own."""
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    command = f"{sys.executable} -m apache_beam.runners.worker.sdk_worker_main"
    return FnApiRunner(
        default_environment=environments.SubprocessSDKEnvironment.from_command_string(command)
    )


RUNNERS: dict[str, Callable[[], Any]] = {
    "headrace": on_headrace, "inline": without_spark, "local": in_process,
    "processes": out_of_process,
}  # fmt: skip


def asks_for_a_local_one(runner: Any, options: Any) -> bool:
    """Whether a pipeline made with these arguments leaves open where it runs."""
    if runner is None and options is not None:
        runner = options.view_as(StandardOptions).runner
    if runner is None:
        return True
    name = runner if isinstance(runner, str) else type(runner).__name__
    return name.rpartition(".")[2] in LOCAL_RUNNERS


@contextlib.contextmanager
def runs_on(
    name: str, count: Callable[[], None] = lambda: None, shards: Callable[[], int] = lambda: SHARDS
) -> Iterator[None]:
    """Pipelines run on the runner of this name; `count` is called for each that starts."""
    original = beam.Pipeline.__init__
    made = RUNNERS[name]

    def init(self: Any, runner: Any = None, options: Any = None, argv: Any = None,
             **more: Any) -> None:
        swapped = _is_open(runner, options, argv)
        original(self, made() if swapped else runner, options, argv, **more)
        if not swapped:
            return
        if name in ("headrace", "inline"):
            from headrace.runner import HeadraceOptions

            ours = self.options.view_as(HeadraceOptions)
            ours.shards, ours.progress = shards(), "off"
        run = self.runner.run_pipeline

        def counted(*args: Any, **kwargs: Any) -> Any:
            count()
            return run(*args, **kwargs)

        self.runner.run_pipeline = counted

    def no_download(*_args: Any, **_kwargs: Any) -> Any:
        msg = "not downloaded here"
        raise RuntimeError(msg)

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(beam.Pipeline, "__init__", init))
        stack.enter_context(
            mock.patch.object(prism_runner.PrismRunner, "run_pipeline", no_download)
        )
        if name not in ("local", "inline"):
            stack.enter_context(carried_results())
        yield


def _is_open(runner: Any, options: Any, argv: Any) -> bool:
    if options is None and isinstance(argv, list):
        options = beam.options.pipeline_options.PipelineOptions(argv)
    if options is not None and not hasattr(options, "view_as"):
        return False  # not options at all: Beam will say so
    return asks_for_a_local_one(runner, options)
