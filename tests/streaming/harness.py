"""Runs streaming pipelines where the test runs, and keeps what they put out.

`jot` is the cheap way: a step that appends a line to a file, at least once. `Gathered` is the exact
one: a sink on the driver that holds each epoch once, as a good database would.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import WriteToSpark
from headrace.runner import StreamResult
from headrace.testing import ScriptedStream
from tests.places import Place, here, session_of


def streaming(*options: str, shards: int = 2) -> beam.Pipeline:
    """A streaming pipeline that will run at the test's place."""
    return beam.Pipeline(
        runner=here().runner(),
        options=PipelineOptions(
            ["--streaming", f"--shards={shards}", "--progress=off", *options]
        ),
    )


def checkpointed(folder: Path, *options: str, shards: int = 2) -> beam.Pipeline:
    """A streaming pipeline whose state is kept below a folder."""
    return streaming(
        f"--checkpoint={folder / 'checkpoint'}", f"--state_dir={folder / 'local'}", *options,
        shards=shards,
    )


def finished(pipeline: beam.Pipeline) -> StreamResult:
    """Run a pipeline to its end."""
    result = pipeline.run()
    assert isinstance(result, StreamResult)
    result.wait_until_finish()
    return result


@contextmanager
def started(pipeline: beam.Pipeline) -> Iterator[StreamResult]:
    """Run a pipeline that may never end by itself; it ends with the block."""
    result = pipeline.run()
    assert isinstance(result, StreamResult)
    try:
        yield result
    finally:
        result.cancel()


class _Jot(beam.DoFn):  # type: ignore[misc]
    def __init__(self, path: str) -> None:
        self._path = path

    def process(self, element: Any) -> None:
        line = f"{element!r}\n".encode()
        # One write call to a file opened for appending: lines of two workers do not mix.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, line)
        finally:
            os.close(file)


def jot(path: Path) -> beam.PTransform:
    """A step that writes its elements down, one line each."""
    return beam.ParDo(_Jot(str(path)))


def jotted(path: Path) -> list[Any]:
    """What `jot` wrote, in the order of writing."""
    if not path.exists():
        return []
    return [ast.literal_eval(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Gathered:
    """A sink on the driver that keeps the rows of each epoch; one that comes twice counts once."""

    def __init__(self) -> None:
        self.epochs: dict[int, list[Any]] = {}

    def sink(self, schema: str) -> WriteToSpark:
        """The write that fills it."""

        def take(frame: Any, epoch: int) -> None:
            self.epochs[epoch] = [tuple(row) for row in frame.collect()]

        return WriteToSpark(function=take, schema=schema)

    @property
    def rows(self) -> list[Any]:
        """All rows, sorted."""
        return sorted(row for rows in self.epochs.values() for row in rows)


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds; longer where test processes share the cores."""
    seconds *= int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            message = f"did not come true within {seconds} s"
            raise AssertionError(message)
        time.sleep(0.02)


class Inbox:
    """What a streaming DataFrame reads, one put to an epoch.

    On Spark a folder of JSON files; in one process a scripted stream.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._put: list[tuple[dict[str, Any], ...]] = []
        self._stream: ScriptedStream | None = None
        folder.mkdir(parents=True)

    def put(self, *rows: dict[str, Any]) -> None:
        """Let more rows come."""
        if here() is Place.PROCESS:
            self._put.append(rows)
            if self._stream is not None:
                self._stream.add(*rows)
            return
        self._count += 1
        made = self._folder.parent / f"{self._folder.name}-{self._count}.json"
        made.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        # Spark reads files in the order of these times, and some disks count in whole seconds.
        os.utime(made, (self._count, self._count))
        made.rename(self._folder / made.name)

    def frame(self, schema: str) -> Any:
        """The streaming DataFrame."""
        if here() is Place.PROCESS:
            if self._stream is None:
                self._stream = ScriptedStream(schema, session=session_of())
                for rows in self._put:
                    self._stream.add(*rows)
            return self._stream
        reader = session_of().readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self._folder))
