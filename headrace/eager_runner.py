"""Eager pipelines on Spark: within `eager()`, `[1, 2, 3] | beam.Map(f)` runs there.

Beam builds the pipeline of such an expression itself and names the runner, `DirectRunner`; there is
no place to name another. So for the time of a `with` block the name means headrace's runner.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import runner as beam_runner

from headrace.errors import OptionError
from headrace.runner import HeadraceResult, SparkRunner

#: The name that Beam's eager pipelines give, and where Beam looks it up.
_NAME = "directrunner"

_one_at_a_time = threading.Lock()
_current: list[tuple[Any, PipelineOptions]] = []


class EagerRunner(SparkRunner):
    """What the name stands for meanwhile."""

    def __init__(self) -> None:
        spark, self._options = _current[-1]
        super().__init__(spark=spark)

    def run_pipeline(self, pipeline: Any, options: Any) -> HeadraceResult:
        """Run with the options of the block: Beam gives those of the command line."""
        del options
        return super().run_pipeline(pipeline, self._options)


@contextmanager
def eager(spark: Any | None = None, options: PipelineOptions | None = None) -> Iterator[None]:
    """Run eager pipelines, and all that name the `DirectRunner`, on Spark for a while.

    The setting is the process's, not the thread's: a second block at the same time is refused.

    Args:
        spark: the session; the active one, or a new one, if not given.
        options: options of the pipelines; `--progress=off` if not given.
    """
    if not _one_at_a_time.acquire(blocking=False):
        msg = "headrace.eager() is in use already; one block at a time, in one thread"
        raise OptionError(msg)
    names = beam_runner._RUNNER_MAP  # noqa: SLF001 (create_runner looks nowhere else)
    before = names[_NAME]
    given = PipelineOptions(["--progress=off"]) if options is None else options
    _current.append((spark, given))
    names[_NAME] = f"{EagerRunner.__module__}.{EagerRunner.__qualname__}"
    try:
        yield
    finally:
        names[_NAME] = before
        _current.clear()
        _one_at_a_time.release()
