"""`headrace explain`: shows the plan of every pipeline that a script would run.

Loads the script as Python would, but catches each pipeline where it would start, so that nothing
runs and no Spark session is made. Compiles what was caught and prints it.
"""

from __future__ import annotations

import argparse
import contextlib
import runpy
import sys
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

from headrace.compiler.compile import compile_pipeline, is_unbounded
from headrace.errors import HeadraceError
from headrace.plan.draw import dot, svg
from headrace.plan.explain import explain, explain_json
from headrace.plan.supersteps import Plan

_FORMATS = {"text": explain, "dot": dot, "svg": svg, "json": explain_json}

_EXAMPLE = """\
example:
  headrace explain examples/auction.py
  headrace explain examples/auction.py --format svg -o auction.svg -- --events 1000

The script is loaded as `python script.py` would load it; what follows -- is handed to it. Every
pipeline that it runs is caught before it starts and explained instead: which operators share a
stage, where elements change shards and why, what may run in parallel, and what may not.
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "explain",
        help="show the plan of a pipeline without running it",
        description="Show the plan of a pipeline without running it.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("script", type=Path, help="a Python file that runs one or more pipelines")
    sub.add_argument("--format", choices=sorted(_FORMATS), default="text", help="default: text")
    sub.add_argument(
        "--shards", type=_positive, default=4, help="plan for this many shards; default: 4"
    )
    sub.add_argument("-o", "--output", type=Path, help="write to a file, not to the terminal")
    sub.set_defaults(run=run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"{number} is not a number of shards: use 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def run(arguments: argparse.Namespace) -> int:
    """Explain the pipelines of a script; status 1 if it runs none."""
    script: Path = arguments.script
    if not script.is_file():
        print(f"headrace: there is no file {script}", file=sys.stderr)
        return 2
    plans = plans_of(script, arguments.pipeline_args, shards=arguments.shards)
    if not plans:
        print(f"headrace: {script} runs no pipeline", file=sys.stderr)
        return 1
    text = "\n".join(_FORMATS[arguments.format](plan) for plan in plans)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def plans_of(script: Path, pipeline_args: list[str], *, shards: int) -> list[Plan]:
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
                )
            )
        except HeadraceError as e:
            caught.append(e)  # raised below: the script itself might swallow it

    with _catching(catch), _as_main(script, pipeline_args):
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
    return pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )


class _NoMetrics(MetricResults):  # type: ignore[misc]
    def query(self, filter: Any = None) -> dict[str, list[Any]]:
        return {kind: [] for kind in (self.COUNTERS, self.DISTRIBUTIONS, self.GAUGES)}


class _NothingRan(PipelineResult):  # type: ignore[misc]
    """What a caught pipeline gives back, so that the script can go on."""

    def __init__(self) -> None:
        super().__init__(PipelineState.DONE)

    def wait_until_finish(self, duration: int | None = None) -> str:
        return str(PipelineState.DONE)

    def cancel(self) -> str:
        return str(PipelineState.DONE)

    def metrics(self) -> Any:
        return _NoMetrics()


@contextlib.contextmanager
def _catching(catch: Callable[[beam.Pipeline], None]) -> Iterator[None]:
    """Hand pipelines to `catch` instead of running them."""
    original = beam.Pipeline.run

    def run_nothing(self: beam.Pipeline, *args: object, **kwargs: object) -> PipelineResult:
        catch(self)
        return _NothingRan()

    beam.Pipeline.run = run_nothing
    try:
        yield
    finally:
        beam.Pipeline.run = original


@contextlib.contextmanager
def _as_main(script: Path, arguments: list[str]) -> Iterator[None]:
    """Arguments and import path as Python sets them for a script."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
