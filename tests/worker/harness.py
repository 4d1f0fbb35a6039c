"""Runs one pipeline without Spark and on Beam's local runner, and keeps what came out of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from headrace.testing import LocalRunner

Build = Callable[[beam.Pipeline], Any]

#: Where `Collect` leaves what it saw, by label. Both runners work in this process, and this module
#: is pickled by reference, so every copy of a DoFn finds the same list.
SEEN: dict[str, list[Any]] = {}


class Collect(beam.DoFn):  # type: ignore[misc]
    """Keeps every element."""

    def __init__(self, label: str) -> None:
        self._label = label

    def process(self, element: Any) -> None:
        SEEN.setdefault(self._label, []).append(element)


class CollectWithTime(beam.DoFn):  # type: ignore[misc]
    """Keeps every element with its time, window and pane."""

    def __init__(self, label: str) -> None:
        self._label = label

    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        SEEN.setdefault(self._label, []).append((element, timestamp, window, pane))


def collect(label: str = "out", *, times: bool = False) -> Any:
    """A last step that keeps what it gets under a label."""
    return f"Collect {label}" >> beam.ParDo(CollectWithTime(label) if times else Collect(label))


def on_headrace(build: Build, *options: str, shards: int = 2) -> tuple[dict[str, list[Any]], Any]:
    """Run on headrace without Spark; give what was collected, and the result."""
    return _run(LocalRunner(), build, [f"--shards={shards}", *options])


def on_beam(build: Build) -> tuple[dict[str, list[Any]], Any]:
    """Run on Beam's local runner; give what was collected, and the result."""
    return _run(FnApiRunner(), build, [])


def _run(runner: Any, build: Build, options: list[str]) -> tuple[dict[str, list[Any]], Any]:
    SEEN.clear()
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(options))
    build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    return dict(SEEN), result


def gathered(build: Build, *options: str, shards: int = 2, label: str = "out") -> list[Any]:
    """Run on headrace and give one collection, in a stable order."""
    return in_order(on_headrace(build, *options, shards=shards)[0].get(label, []))


def gathered_by_beam(build: Build, label: str = "out") -> list[Any]:
    """Run on Beam's local runner and give one collection, in a stable order."""
    return in_order(on_beam(build)[0].get(label, []))


def in_order(found: list[Any]) -> list[Any]:
    """Sort by text: runners promise no order, and elements of mixed types have none."""
    return sorted(found, key=repr)


def sorted_values(pair: tuple[Any, Any]) -> tuple[Any, list[Any]]:
    """Give a group with its values in a stable order."""
    return pair[0], in_order(list(pair[1]))


def in_millis(found: list[Any]) -> list[Any]:
    """Cut the times of what `CollectWithTime` kept to milliseconds, as Beam does on the wire."""
    return [
        (value, int(timestamp.micros / 1_000), window, pane)
        for value, timestamp, window, pane in found
    ]
