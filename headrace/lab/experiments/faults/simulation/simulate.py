"""Runs one schedule and judges it; runs many, and shrinks what fails.

Right is: every driver that was left alone came to its end, and both sinks hold exactly the rows of
the oracle. Drivers that slept have gone on to their own ends by then.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from headrace.engine.checkpoint import checkpoints
from headrace.io.storage import Storage
from headrace.lab.experiments.faults.simulation import pipeline, real_pipeline, real_tasks
from headrace.lab.experiments.faults.simulation.places import FaultyFiles, FaultyKafka
from headrace.lab.experiments.faults.simulation.schedule import (
    DRIVERS,
    Schedule,
    Tasks,
    drawn,
    shrunk,
    tasks_of,
)
from headrace.lab.experiments.faults.simulation.world import Driver, World
from headrace.state import memory_copies
from headrace.state.crash_points import observed
from headrace.state.files import Files
from headrace.testing import ScriptedStream

#: Faults that a process does at once when there are several: after each part it is said how far.
PART = 2_000
#: Between the first seeds of two parts: more than one of them ever needs.
SEEDS_APART = 100_000
#: Drivers in all, at most: those with faults, and enough that are left alone to finish.
MOST_DRIVERS = DRIVERS + 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of a schedule."""

    problem: str  # empty: all was right
    happened: Counter[tuple[str, str]]  # (gap, fault) -> how often
    drivers: int
    overtaken: int  # drivers that were refused because a newer one was there
    gaps: int  # that all drivers came to
    passed: set[str]  # the kinds of them
    tasks: str
    seconds: float


@dataclass(slots=True)
class Kind:
    """What became of the schedules that one kind of tasks ran in."""

    schedules: int = 0
    faults: int = 0
    seconds: float = 0.0
    passed: set[str] = field(default_factory=set)  # kinds of gaps

    def add(self, other: Kind) -> None:
        """Count more."""
        self.schedules += other.schedules
        self.faults += other.faults
        self.seconds += other.seconds
        self.passed |= other.passed


@dataclass(slots=True)
class Tally:
    """What became of many schedules."""

    drivers: int = 0
    overtaken: int = 0
    gaps: int = 0
    happened: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[tuple[Schedule, str]] = field(default_factory=list)  # shrunk
    kinds: dict[str, Kind] = field(default_factory=dict)  # by the tasks that ran

    @property
    def schedules(self) -> int:
        """How many schedules were run."""
        return sum(kind.schedules for kind in self.kinds.values())

    @property
    def faults(self) -> int:
        """How many faults took effect."""
        return sum(kind.faults for kind in self.kinds.values())

    def merge(self, other: Tally) -> None:
        """Count what another process has counted."""
        self.drivers += other.drivers
        self.overtaken += other.overtaken
        self.gaps += other.gaps
        self.happened += other.happened
        self.failures += other.failures
        for tasks, kind in other.kinds.items():
            self.kinds.setdefault(tasks, Kind()).add(kind)

    def add(self, judged: Judged) -> None:
        """Count one more."""
        kind = Kind(
            schedules=1, faults=judged.happened.total(), seconds=judged.seconds,
            passed=judged.passed,
        )
        self.merge(
            Tally(
                drivers=judged.drivers, overtaken=judged.overtaken, gaps=judged.gaps,
                happened=judged.happened, kinds={judged.tasks: kind},
            )
        )


def judged(schedule: Schedule, *, prepare: Callable[[World], None] = lambda _: None) -> Judged:
    """Run a schedule.

    Args:
        schedule: what goes wrong.
        prepare: changes the world before, for protocols that are broken on purpose.
    """
    begun = time.monotonic()
    with ExitStack() as at_end:
        model = _model(schedule)
        sources = model.streams(schedule)

        def work(driver: Driver) -> str:
            drain = any(d.ended == "stopped" for d in world.drivers)
            return model.live(world, sources, driver, drain=drain)

        world = World(schedule, work, model.storage(schedule, at_end))
        prepare(world)
        kafka = FaultyKafka(world)
        at_end.callback(_forget, world)
        with _in(world), model.around(world, kafka):
            world.run(lambda: any(d.ended == "finished" for d in world.drivers), MOST_DRIVERS)
        problem = _problem(world, model.right_answer(schedule), model.written(world, kafka))
    ends = [driver.ended for driver in world.drivers]
    return Judged(
        problem=problem, happened=world.happened, drivers=len(ends),
        overtaken=sum("taken" in end or "newer driver" in end for end in ends),
        gaps=sum(driver.gaps for driver in world.drivers), passed=world.passed,
        tasks=schedule.tasks, seconds=time.monotonic() - begun,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A pipeline, those who run it, and what is right."""

    streams: Callable[[Schedule], dict[str, ScriptedStream]]
    live: Callable[..., str]
    right_answer: Callable[[Schedule], list[Any]]
    written: Callable[[World, FaultyKafka], Mapping[str, list[Any]]]
    around: Callable[[World, FaultyKafka], AbstractContextManager[None]] = lambda *_: nullcontext()
    storage: Callable[[Schedule, ExitStack], Storage | None] = lambda *_: None


_COUNTING = Model(
    streams=pipeline.streams, live=pipeline.live, right_answer=pipeline.right_answer,
    written=lambda world, _: pipeline.written(world),
)
_REAL = Model(
    streams=real_pipeline.streams, live=real_tasks.live, right_answer=real_pipeline.right_answer,
    written=real_tasks.written, around=real_tasks.around, storage=real_tasks.storage,
)


def _model(schedule: Schedule) -> Model:
    """Choose what runs; compile it here, as a defect of the pipeline is no driver's end."""
    if Tasks(schedule.tasks) is Tasks.COUNTING:
        pipeline.plan()
        return _COUNTING
    for shards in range(1, real_tasks.MOST_SHARDS + 1):
        real_pipeline.plan(shards)
    return _REAL


def _forget(world: World) -> None:
    world.close()
    for driver in world.drivers:
        memory_copies.forget(memory_copies.folder(f"{world.name}-{driver.number}"))


@contextmanager
def _in(world: World) -> Iterator[None]:
    """Let drivers open the world's files, and come to its gaps."""

    def files(place: str) -> Files:
        return Files(place, FaultyFiles(world))

    logger = logging.getLogger("headrace")
    before = logger.level
    logger.setLevel(logging.CRITICAL)  # drivers fail on purpose
    try:
        with observed(world.point), mock.patch.object(checkpoints, "Files", files):
            yield
    finally:
        logger.setLevel(before)


def _problem(world: World, right: list[Any], written: Mapping[str, list[Any]]) -> str:
    ends = [f"driver {d.number} {d.ended or 'sleeps'}" for d in world.drivers]
    if not any(d.ended == "finished" for d in world.drivers):
        return f"no driver came to the end of the input: {'; '.join(ends)}"
    for sink, rows in written.items():
        lost, more = Counter(right) - Counter(rows), Counter(rows) - Counter(right)
        if lost or more:
            return (
                f"{sink}: lost {sorted(lost.elements())}, doubled or wrong "
                f"{sorted(more.elements())}; {'; '.join(ends)}"
            )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which schedules are run."""

    faults: int  # how many are to happen
    seed: int  # of the first schedule; the next has the next seed
    real: float = 0.0  # the share of schedules in which headrace's own tasks run
    until: float = float("inf")  # as `time.time` gives it; no schedule begins after that


def simulate(asked: Asked, told: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Run schedules, one after the other, until so many faults have happened.

    Args:
        asked: which.
        told: called now and then.
    """
    tally, seed = Tally(), asked.seed
    while tally.faults < asked.faults and time.time() < asked.until:
        schedule = drawn(seed, tasks_of(seed, asked.real))
        found = judged(schedule)
        tally.add(found)
        seed += 1
        if found.problem:
            small = shrunk(schedule, lambda one: bool(judged(one).problem))
            tally.failures.append((small, judged(small).problem))
        if tally.schedules % 200 == 0:
            told(tally)
    return tally


def simulate_in(
    processes: int, asked: Asked, told: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Let several processes simulate, part by part, each with seeds of its own; see `simulate`."""
    if processes == 1:
        return simulate(asked, told)
    parts = [min(PART, asked.faults - begun) for begun in range(0, asked.faults, PART)]
    whole = Tally()
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh) as pool:
        work = [
            pool.submit(
                simulate, replace(asked, faults=part, seed=asked.seed + number * SEEDS_APART)
            )
            for number, part in enumerate(parts)
        ]
        for done in as_completed(work):
            whole.merge(done.result())
            told(whole)
    return whole
