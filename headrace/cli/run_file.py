"""Runs a user's file with headrace as the runner of its pipelines.

Takes the file and the arguments behind it, gives an exit status. The file is loaded as `python
FILE` loads it, with these arguments; pipelines that name no runner run on headrace, and those that
take no options get the arguments as theirs.
"""

from __future__ import annotations

import functools
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.cli.scripts import as_main
from headrace.errors import HeadraceError
from headrace.quiet import quietly

RUNNER = "headrace.SparkRunner"


def run_file(script: Path, arguments: list[str]) -> int:
    """Run a file to the end of its pipelines; status 1 if it fails."""
    if not script.is_file():
        print(f"headrace: there is no file {script}", file=sys.stderr)
        return 2
    results: list[Any] = []
    with _on_headrace(arguments, results), as_main(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
            for result in results:  # those that the file has started and not waited for
                result.wait_until_finish()
        except HeadraceError:
            if "--debug" in arguments:
                raise
            show(sys.exc_info()[1], script, only_message=True)
            return 1
        except Exception as error:  # noqa: BLE001 (the user's program may raise anything)
            show(error, script)
            return 1
    if not results:
        print(f"headrace: {script} ran no pipeline", file=sys.stderr)
        return 1
    others = {type(result).__module__ for result in results} - {"headrace.runner"}
    if others:
        print(
            f"headrace: {script} names a runner itself, so not all of its pipelines ran on "
            f"headrace; leave it out there, or write runner={RUNNER!r}", file=sys.stderr,
        )
    return 0


def show(error: BaseException | None, script: Path, *, only_message: bool = False) -> None:
    """Print an exception that left the file, from the file's own frame on."""
    assert error is not None
    if only_message:
        print(f"headrace: {error}", file=sys.stderr)
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
        trace = trace.tb_next
    traceback.print_exception(error.with_traceback(trace or error.__traceback__))


@contextmanager
def _on_headrace(arguments: list[str], results: list[Any]) -> Iterator[None]:
    """Make headrace the default runner, and the arguments the default options."""
    with quietly():
        import apache_beam as beam
        from apache_beam.options.pipeline_options import StandardOptions
    original, default, run = beam.Pipeline.__init__, StandardOptions.DEFAULT_RUNNER, (
        beam.Pipeline.run
    )

    @functools.wraps(original)
    def build(
        self: Any, runner: Any = None, options: Any = None, argv: Any = None, *more: Any,
        **named: Any,
    ) -> None:
        if options is None and argv is None:
            argv = arguments
        original(self, runner, options, argv, *more, **named)

    @functools.wraps(run)
    def note(self: Any, *more: Any, **named: Any) -> Any:
        result = run(self, *more, **named)
        results.append(result)
        return result

    beam.Pipeline.__init__, beam.Pipeline.run = build, note
    StandardOptions.DEFAULT_RUNNER = RUNNER
    try:
        yield
    finally:
        beam.Pipeline.__init__, beam.Pipeline.run = original, run
        StandardOptions.DEFAULT_RUNNER = default
