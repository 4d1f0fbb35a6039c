"""Catches the pipelines of a script where they would start, and compiles them.

Nothing runs and no Spark session is made. Loads Beam, so a command imports it when it needs it.
"""

from __future__ import annotations

import contextlib
import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import StandardOptions, TypeOptions
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.transforms import environments

from headrace.cli.scripts import as_main
from headrace.compiler.compile import compile_pipeline, is_unbounded
from headrace.compiler.proto.element_types import note_element_types
from headrace.errors import HeadraceError
from headrace.plan.supersteps import Plan


def plans_of(
    script: Path, pipeline_args: list[str], *, shards: int, ordered: bool = False
) -> list[Plan]:
    """The plans of all pipelines that the script runs, in its order."""
    caught: list[Plan | HeadraceError] = []

    def catch(pipeline: beam.Pipeline) -> None:
        # At once: while the script runs, its classes can be found in `__main__` to be pickled.
        try:
            proto = _proto(pipeline)
            asked = pipeline.options.view_as(StandardOptions).streaming
            caught.append(
                compile_pipeline(
                    proto, shards=shards, name=script.stem,
                    streaming=bool(asked) or is_unbounded(proto),
                    ordered=ordered,
                )
            )
        except HeadraceError as e:
            caught.append(e)  # raised below: the script itself might swallow it

    with _catching(catch), as_main(script, pipeline_args):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as e:
            if e.code not in (None, 0):
                raise
    plans: list[Plan] = []
    for number, found in enumerate(caught, 1):
        if isinstance(found, HeadraceError):
            raise found
        many = len(caught) > 1
        plans.append(replace(found, name=f"{script.stem}#{number}") if many else found)
    return plans


def _proto(pipeline: beam.Pipeline) -> Any:
    """The pipeline as the runner would see it, key coders checked the same way."""
    strict = not pipeline.options.view_as(TypeOptions).allow_non_deterministic_key_coders
    pipeline.visit(group_by_key_input_visitor(strict))
    note_element_types(pipeline)
    return pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )


class _NoMetrics(MetricResults):  # type: ignore[misc]
    def query(self, filter: Any = None) -> dict[str, list[Any]]:  # noqa: ARG002 (Beam's form)
        return {kind: [] for kind in (self.COUNTERS, self.DISTRIBUTIONS, self.GAUGES)}


class _NothingRan(PipelineResult):  # type: ignore[misc]
    """What a caught pipeline gives back, so that the script can go on."""

    def __init__(self) -> None:
        super().__init__(PipelineState.DONE)

    def wait_until_finish(self, duration: int | None = None) -> str:  # noqa: ARG002 (Beam's form)
        return str(PipelineState.DONE)

    def cancel(self) -> str:
        return str(PipelineState.DONE)

    def metrics(self) -> Any:
        return _NoMetrics()


@contextlib.contextmanager
def _catching(catch: Callable[[beam.Pipeline], None]) -> Iterator[None]:
    """Hand pipelines to `catch` instead of running them."""
    original = beam.Pipeline.run

    def run_nothing(self: beam.Pipeline, *_args: object, **_kwargs: object) -> PipelineResult:
        catch(self)
        return _NothingRan()

    beam.Pipeline.run = run_nothing
    try:
        yield
    finally:
        beam.Pipeline.run = original
