"""Runs one schedule and judges it; runs many, and shrinks what fails.

Right is: every driver that was left alone came to its end, and both sinks hold exactly the rows of
the oracle. Drivers that slept have gone on to their own ends by then.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from headrace.engine import checkpoints
from headrace.lab.experiments.faults.simulation.pipeline import (
    live,
    plan,
    right_answer,
    streams,
    written,
)
from headrace.lab.experiments.faults.simulation.schedule import DRIVERS, Schedule, drawn, shrunk
from headrace.lab.experiments.faults.simulation.world import Driver, FaultyFiles, World
from headrace.state import memory_copies
from headrace.state.crash_points import observed
from headrace.state.files import Files

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


@dataclass(slots=True)
class Tally:
    """What became of many schedules."""

    schedules: int = 0
    drivers: int = 0
    overtaken: int = 0
    gaps: int = 0
    happened: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[tuple[Schedule, str]] = field(default_factory=list)  # shrunk

    @property
    def faults(self) -> int:
        """How many faults took effect."""
        return sum(self.happened.values())

    def merge(self, other: Tally) -> None:
        """Count what another process has counted."""
        self.schedules += other.schedules
        self.drivers += other.drivers
        self.overtaken += other.overtaken
        self.gaps += other.gaps
        self.happened += other.happened
        self.failures += other.failures

    def add(self, judged: Judged) -> None:
        """Count one more."""
        self.schedules += 1
        self.drivers += judged.drivers
        self.overtaken += judged.overtaken
        self.gaps += judged.gaps
        self.happened += judged.happened


def judged(schedule: Schedule, *, prepare: Callable[[World], None] = lambda _: None) -> Judged:
    """Run a schedule.

    Args:
        schedule: what goes wrong.
        prepare: changes the world before, for protocols that are broken on purpose.
    """
    plan()  # not in a driver's thread: a defect of the pipeline is no driver's end
    sources = streams(schedule)

    def work(driver: Driver) -> str:
        return live(world, sources, driver, drain=any(d.ended == "stopped" for d in world.drivers))

    world = World(schedule, work)
    prepare(world)
    with _in(world):
        try:
            world.run(lambda: any(d.ended == "finished" for d in world.drivers), MOST_DRIVERS)
            problem = _problem(world)
        finally:
            world.close()
            for driver in world.drivers:
                memory_copies.forget(memory_copies.folder(f"{world.name}-{driver.number}"))
    ends = [driver.ended for driver in world.drivers]
    return Judged(
        problem=problem, happened=world.happened, drivers=len(ends),
        overtaken=sum("taken" in end or "newer driver" in end for end in ends),
        gaps=sum(driver.gaps for driver in world.drivers),
    )


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


def _problem(world: World) -> str:
    ends = [f"driver {d.number} {d.ended or 'sleeps'}" for d in world.drivers]
    if not any(d.ended == "finished" for d in world.drivers):
        return f"no driver came to the end of the input: {'; '.join(ends)}"
    right = right_answer(world.schedule)
    for sink, rows in written(world).items():
        lost, more = Counter(right) - Counter(rows), Counter(rows) - Counter(right)
        if lost or more:
            return (
                f"{sink}: lost {sorted(lost.elements())}, doubled or wrong "
                f"{sorted(more.elements())}; {'; '.join(ends)}"
            )
    return ""


def simulate(
    faults: int, seed: int, told: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Run schedules, drawn one after the other, until so many faults have happened.

    Args:
        faults: how many.
        seed: of the first schedule; the next has the next seed.
        told: called now and then.
    """
    tally = Tally()
    while tally.faults < faults:
        schedule = drawn(seed + tally.schedules)
        found = judged(schedule)
        tally.add(found)
        if found.problem:
            small = shrunk(schedule, lambda one: bool(judged(one).problem))
            tally.failures.append((small, judged(small).problem))
        if tally.schedules % 200 == 0:
            told(tally)
    return tally


def simulate_in(
    processes: int, faults: int, seed: int, told: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Let several processes simulate, part by part, each with seeds of its own; see `simulate`."""
    if processes == 1:
        return simulate(faults, seed, told)
    parts = [min(PART, faults - begun) for begun in range(0, faults, PART)]
    whole = Tally()
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh) as pool:
        work = [
            pool.submit(simulate, part, seed + number * SEEDS_APART)
            for number, part in enumerate(parts)
        ]
        for done in as_completed(work):
            whole.merge(done.result())
            told(whole)
    return whole
