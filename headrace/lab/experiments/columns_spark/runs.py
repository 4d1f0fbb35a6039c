"""Runs one workload from its Parquet log, by columns, by objects and by Spark's own query.

All of them read the very same files. Each run is made twice, of few events and of many: what lies
between the two is what events cost, without what a run costs at any size. The systems take turns,
so that what else the machine does befalls all of them.
"""

from __future__ import annotations

import hashlib
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.lab.endpoints.event_log import write_log
from headrace.lab.endpoints.names import Source, SourceKind
from headrace.lab.experiments.table.runs import settings_of
from headrace.lab.meter import PartsMeter
from headrace.lab.run import expected
from headrace.lab.systems.system import Request, System, Tuning
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode, Workload

#: Events of a file of the log; a batch is some files.
PER_FILE = 250_000
#: A way that would take longer for many events gets those of objects.
PATIENCE_SECONDS = 40.0
#: The ways in which a workload is run.
COLUMNS, OBJECTS, NATIVE = "columns", "objects", "spark"
PARTS = ("jvm", "workers", "driver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many events a run has."""

    few: int
    many: int
    objects: int  # the many of objects, and of any way that takes as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one run took."""

    events: int
    seconds: float
    parts: tuple[float, float, float]  # processor seconds of JVM, workers, driver
    rows: int | None
    right: bool | None  # None: not asked


#: Of the seconds of a run: what two runs of the same differ by, so that less says nothing.
NOISE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What events cost: many less few, for all rounds."""

    whole: float  # events a second of the run of many, with all that a run costs
    rate: float | None  # events a second of those between few and many; None: lost in the noise
    parts: tuple[float, float, float]  # processor seconds for a million of them


@dataclass(slots=True, kw_only=True)
class Way:
    """One way to run a workload."""

    name: str
    system: System
    flags: tuple[str, ...] = ()
    per_batch: int = 0  # 0: not chosen yet
    few: list[Sample] = field(default_factory=list)
    many: list[Sample] = field(default_factory=list)
    tried: dict[int, float] = field(default_factory=dict)  # per batch -> seconds, of the search

    def cost(self) -> Cost | None:
        """What the median round says; None: no round was right."""
        if not self.right or not self.few or not self.many:
            return None
        few = statistics.median(s.seconds for s in self.few)
        many = statistics.median(s.seconds for s in self.many)
        beyond = self.many[0].events - self.few[0].events
        parts = tuple(
            (statistics.median(s.parts[at] for s in self.many)
             - statistics.median(s.parts[at] for s in self.few)) / beyond * 1e6
            for at in range(len(PARTS))
        )  # fmt: skip
        return Cost(
            whole=self.many[0].events / many,
            rate=beyond / (many - few) if many - few > NOISE * many else None,
            parts=(parts[0], parts[1], parts[2]),
        )

    @property
    def right(self) -> bool:
        """Whether all answers that were looked at are right, and one was."""
        asked = [s.right for s in (*self.few, *self.many) if s.right is not None]
        return bool(asked) and all(asked)


class LoggedWorkload:
    """One workload and its log.

    Args:
        workload: which.
        folder: for logs and runs.
        sizes: of runs.
        mode: streaming or batch.
        cores: shards of headrace, partitions of Spark's shuffles.
    """

    def __init__(
        self, workload: Workload, folder: Path, sizes: Sizes, mode: Mode, cores: int
    ) -> None:
        self._workload = workload
        self._folder = folder
        self._sizes = sizes
        self._mode = mode
        self._cores = cores
        self._turn = 0
        self._known: dict[int, list[Any]] = {}

    def prepare(self) -> None:
        """Write the logs."""
        for events in sorted({self._sizes.few, self._sizes.many, self._sizes.objects}):
            made = self._workload.generator(settings_of(self._workload, events))
            write_log(made, self._log(events), per_file=PER_FILE)

    def _log(self, events: int) -> Path:
        """Name a log by what makes its events: questions about the same ones share it."""
        made = self._workload.generator(settings_of(self._workload, events))
        told = hashlib.sha256(repr(made).encode()).hexdigest()[:12]
        return self._folder / f"{self._workload.suite}-{told}"

    def run(self, way: Way, events: int, *, check: bool) -> Sample:
        """Run once."""
        self._turn += 1
        folder = self._folder / f"run-{self._turn}"
        request = Request(
            workload=self._workload, settings=settings_of(self._workload, events),
            mode=self._mode, folder=folder, shards=self._cores, flags=way.flags,
            source=Source(SourceKind.LOG, str(self._log(events))),
            tuning=Tuning(per_batch=way.per_batch),
        )
        folder.mkdir(parents=True)
        try:
            way.system.prepare(request)
            with PartsMeter() as meter:
                outcome = way.system.run(request)
            rows = count = right = None
            if check and outcome.rows is not None:
                rows = outcome.rows.read(self._workload.columns)
                count = len(rows)
                right = judge(rows, self._answer(request), self._workload.rule).right
            return Sample(
                events=events, seconds=outcome.seconds, parts=meter.seconds, rows=count,
                right=right,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _many(self, way: Way, few: Sample) -> int:
        """How many events a run of many has: as few as that of objects where it would take long."""
        if way.name == OBJECTS:
            return self._sizes.objects
        expected = few.seconds * self._sizes.many / self._sizes.few
        return self._sizes.many if expected <= PATIENCE_SECONDS else self._sizes.objects

    def _answer(self, request: Request) -> list[Any]:
        events = request.generator.events
        if events not in self._known:
            self._known[events] = expected(request)
        return self._known[events]

    def measure(
        self, ways: Sequence[Way], batches: Sequence[int], rounds: int,
        say: Callable[[str], None],
    ) -> None:
        """Find the best size of a batch, then run all ways in turns.

        Answers of few events are checked in every round; those of many, in the last, where they
        are not as many as the events.
        """
        for way in ways:
            if way.name == OBJECTS:
                continue
            way.per_batch = max(batches)
            warming = self.run(way, self._sizes.few, check=False)
            tried = batches if self._mode is Mode.STREAMING and len(batches) > 1 else ()
            for size in tried:
                way.per_batch = size
                way.tried[size] = self.run(way, self._many(way, warming), check=False).seconds
            if way.tried:
                way.per_batch = min(way.tried, key=lambda size: way.tried[size])
            say(f"  {way.name}: {way.per_batch:,} events a batch")
        best = next(way.per_batch for way in ways if way.name != NATIVE and way.per_batch)
        for turn in range(rounds):
            for way in ways:
                way.per_batch = way.per_batch or best
                start = time.perf_counter()
                way.few.append(self.run(way, self._sizes.few, check=True))
                many = way.many[0].events if way.many else self._many(way, way.few[0])
                check = turn + 1 == rounds and not self._workload.stateless
                way.many.append(self.run(way, many, check=check))
                say(f"  round {turn + 1}, {way.name}: {time.perf_counter() - start:.1f} s")
