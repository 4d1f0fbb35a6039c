"""The pipeline whose checkpoint is damaged, and the moments of its life that are kept.

Two streaming DataFrames of files; a stateful DoFn with timers; a windowed sum over
a side input; two folders of rows. Its answer depends on neither where epochs end nor how the two
sources interleave, so the rows after a restart are either right or wrong.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

import headrace
from headrace.io import WriteToSpark
from headrace.lab.experiments.faults.data import (
    CLASSES,
    WINDOW_SECONDS,
    InputSpec,
    write_input,
)
from headrace.lab.experiments.faults.oracle import Row, right_answer
from headrace.lab.experiments.faults.pipeline import SAMPLE, Flush, Tally, from_frames, row_of
from headrace.lab.experiments.faults.sinks import SCHEMA
from headrace.state.crash_points import Point, observed

BRANCHES = ("flushes", "joined")
INPUT_SPEC = InputSpec(elements=1_300, files=12, rate_files=6, seed=5)
#: A batch has so many files, or those that are there: the numbers below are odd ones, so that a log
#: that begins anew cuts the input into other batches than those that were counted.
FILES_PER_BATCH = 2
#: How many files of events and of rates are there at each moment; what is left comes after the
#: damage.
MOMENTS = ((3, 1), (4, 2), (7, 4), (10, 5))
#: An epoch takes tenths of a second; a run that has not ended after so long is called hung.
HUNG_SECONDS = 90

Answer = dict[str, Counter[Row]]


class HungError(Exception):
    """A run did not come to its end."""


class _EndedError(Exception):
    """The driver ends here, as if it had crashed."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where a run keeps what it has."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        """The checkpoint folder."""
        return self.folder / "checkpoint"

    @property
    def output(self) -> Path:
        """The folders of the sinks."""
        return self.folder / "output"

    @property
    def state(self) -> Path:
        """The copies of the state on this machine: not copied, so that they hide no damage."""
        return self.folder / "state"

    def copied_to(self, folder: Path) -> Home:
        """Copy checkpoint and output to a fresh folder."""
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("checkpoint", "output"):
            shutil.copytree(self.folder / name, folder / name, symlinks=True)
        return Home(folder)


class Input:
    """The input files: all of them aside, and a folder with those that have come so far.

    The folder has one place for all runs, because Spark's log names files by their paths.
    """

    def __init__(self, folder: Path) -> None:
        self._all, self.folder = folder / "all", folder / "input"
        if not (self._all / "spec.json").exists():
            write_input(self._all, INPUT_SPEC)
        self.wanted = of_branches(right_answer(self._all))

    def show(self, events: int, rates: int) -> None:
        """Let exactly the first files be there."""
        for name, count in (("events", events), ("rates", rates)):
            there = self.folder / name
            there.mkdir(parents=True, exist_ok=True)
            for index, path in enumerate(sorted((self._all / name).glob("*.parquet"))):
                target = there / path.name
                if index < count and not target.exists():
                    shutil.copy2(path, target)  # with its time: Spark takes the oldest first
                elif index >= count:
                    target.unlink(missing_ok=True)

    def show_all(self) -> None:
        """Let all files be there."""
        self.show(INPUT_SPEC.files, INPUT_SPEC.rate_files)


def of_branches(answer: Answer) -> Answer:
    """Give the branches that this pipeline writes."""
    return {branch: answer[branch] for branch in BRANCHES}


def build(pipeline: beam.Pipeline, spark: Any, source: Path, target: Path) -> None:
    """Make the pipeline: events and rates in, two folders of rows out."""
    events, rates = from_frames(pipeline, spark, source, FILES_PER_BATCH)
    rates = rates | "RateWindows" >> beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
    joined = (
        events
        | "Windows" >> beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
        | "Sample" >> beam.Filter(lambda pair: pair[1] % SAMPLE == 0)
        | "Price" >> beam.Map(_priced, beam.pvalue.AsDict(rates)).with_output_types(tuple[str, int])
        | "Sum" >> beam.CombinePerKey(Tally())
        | "Row" >> beam.Map(row_of)
    )
    flushes = events | "Flush" >> beam.ParDo(Flush())
    for name, rows in (("joined", joined), ("flushes", flushes)):
        _ = rows | f"Write {name}" >> WriteToSpark(str(target / name), schema=SCHEMA)


def _priced(element: tuple[str, int], rates: dict[int, int]) -> tuple[str, int]:
    key, value = element
    # A rate that was lost must show in the answer, not in an error.
    return key, value * rates.get(value % CLASSES, 0)


def run(spark: Any, source: Input, home: Home, *, drain: bool = False) -> None:
    """Read what is there, or drain; raises what the pipeline raised, or that it hung."""
    options = [
        f"--checkpoint={home.checkpoint}", f"--state_dir={home.state}", "--shards=2",
        "--available_now", "--progress=off", "--streaming",
    ]
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(spark), options=PipelineOptions(options))
    build(pipeline, spark, source.folder, home.output)
    result: Any = pipeline.run()
    millis = HUNG_SECONDS * 1000
    state = result.drain(millis) if drain else result.wait_until_finish(millis)
    if state not in ("DONE", "DRAINED"):
        _cancel(result)
        msg = f"{'drain' if drain else 'run'} was {state} after {HUNG_SECONDS} s"
        raise HungError(msg)


def run_to_end(spark: Any, source: Input, home: Home) -> None:
    """Let all the input come, read it, drain."""
    source.show_all()
    run(spark, source, home)
    run(spark, source, home, drain=True)


def _cancel(result: Any) -> None:
    """Stop a run that hangs; the thread is left behind if it does not come back either."""
    thread = threading.Thread(target=result.cancel, daemon=True)
    thread.start()
    thread.join(HUNG_SECONDS)


@contextmanager
def _ending_at(gap: Point) -> Iterator[None]:
    """End the driver the first time an epoch of new input comes to a gap of its commit."""

    def end(point: Point, epoch: int, *more: str) -> None:
        del epoch, more
        if point is gap:
            raise _EndedError

    with observed(end):
        yield


#: States of a checkpoint from which a run can be started again, and the gap that leaves them.
BASES: dict[str, Point | None] = {
    "rest": None,  # all batches are committed, here and by Spark
    "offsets": Point.BEFORE_TASKS,  # Spark has logged the offsets of a batch, nothing was run
    "sinks": Point.AFTER_SINKS,  # the sinks have the rows, there is no manifest
    "manifest": Point.AFTER_MANIFEST,  # the manifest is there, Spark has not logged its commit
}


@dataclass(frozen=True, slots=True)
class Material:
    """Checkpoint and output at the moments that were kept."""

    source: Input
    folder: Path
    moments: int  # how many there are

    @property
    def older(self) -> tuple[Path, ...]:
        """What the home was at all moments before the last."""
        return tuple(self.moment(number).folder for number in range(self.moments - 1))

    def moment(self, number: int) -> Home:
        """Give the home as it was when the input of a moment had been read."""
        return Home(self.folder / f"moment-{number}")

    def base(self, name: str) -> Home:
        """Give the home of a base; it is as old as the last moment, or a little younger."""
        return Home(self.folder / f"base-{name}")


def prepare(
    spark: Any, folder: Path, moments: Sequence[tuple[int, int]] = MOMENTS,
    bases: Sequence[str] = tuple(BASES),
) -> Material:
    """Run the pipeline over the first part of the input, and keep what is needed of it."""
    source = Input(folder)
    made = Material(source, folder, len(moments))
    if (folder / "prepared").exists():
        return made
    live = Home(folder / "live")
    shutil.rmtree(live.folder, ignore_errors=True)
    for number, (events, rates) in enumerate(moments):
        source.show(events, rates)
        run(spark, source, live)
        live.copied_to(made.moment(number).folder)
    events, rates = moments[-1]
    for name in bases:
        gap = BASES[name]
        base = made.moment(len(moments) - 1).copied_to(made.base(name).folder)
        if gap is not None:
            source.show(events + 1, rates)
            with _ending_at(gap):
                try:
                    run(spark, source, base)
                except _EndedError:
                    continue
            msg = f"no epoch came to {gap.value}"
            raise AssertionError(msg)
    (folder / "prepared").touch()
    return made
