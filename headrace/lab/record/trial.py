"""The record of a measurement: the load that a system was put under, and what came of it.

Frozen data and one protocol. Every experiment asks a `Bench` for trials and for nothing else, so
the same code measures a real system over sockets and a fake one in a time of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.schedule import F64, I64, Schedule
from headrace.lab.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a queue may get, in seconds of its rate."""

    acceptable_seconds: float = 1.0  # also the time between two looks
    limit_seconds: float = 5.0
    drain_seconds: float = 5.0  # after the load, until the last result has left
    by_age: bool = False  # the limit is of an event's wait: for a rate that grows

    def limits(self, rate: float, partitions: int = 1) -> Limits:
        """Give them as events of one partition."""
        if self.by_age:
            return Limits.of_age(self.limit_seconds)
        return Limits.of_rate(rate / partitions, self.acceptable_seconds, self.limit_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is done to the system in mid-run."""

    kind: str  # as the system names it: kill-worker, kill-driver, slow-disk
    at_seconds: float
    lasts_seconds: float = 0.0  # of what is not the system's own to mend, such as a slow disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a system is put under."""

    schedule: Schedule
    patience: Patience | None = None  # None: the run is not cut off, however long the queue
    fault: Fault | None = None
    looks_at_state: bool = False  # sizes are looked at over time, which costs something


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run used. What nobody could tell is None."""

    cpu_seconds: float | None = None  # of the system, from the begin of the load
    cpu_parts: Mapping[str, float] = field(default_factory=dict)  # of that: driver, jvm, workers
    machine_cores: int | None = None  # that system and data engines share; None: without end
    engine_cpu_seconds: float | None = None  # of the data engines, which are not the system's
    peak_bytes: int | None = None  # of memory, all processes of the system together
    checkpoint_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one system under one load. Times are seconds after the start."""

    system: str
    engine: str  # what really ran, asked of it
    load: Load
    verdict: Verdict
    made: int  # events of the load
    void: str = ""  # why the run does not count; empty if it does
    unsustained: str = ""  # why the system did not keep up; empty if it did
    due: F64  # of each result: when its newest input was to be sent
    left: F64  # of each result: when it left the system
    stages: Mapping[str, F64] = field(default_factory=dict)  # parts of each result's latency
    queue_seconds: F64 = field(default_factory=lambda: np.zeros(0))
    queue_lengths: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    state_seconds: F64 = field(default_factory=lambda: np.zeros(0))
    state_bytes: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    checkpoint_seconds: F64 = field(default_factory=lambda: np.zeros(0))
    checkpoint_bytes: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    cost: Cost = field(default_factory=Cost)
    undated: str = ""  # why its results have no age; empty: they have
    busy_seconds: float = 0.0  # until it was at rest, by its processor time; 0: nobody has looked

    @property
    def latency(self) -> F64:
        """How old each result's newest input was when the result left."""
        return self.left - self.due

    @property
    def trouble(self) -> str:
        """Why the trial's figures do not count; empty if they do."""
        if self.void:
            return self.void
        if not self.verdict.right:
            wrong = self.verdict
            return f"wrong answer: {wrong.missing:,} rows missing, {wrong.surplus:,} too many"
        return ""


class RefusedError(Exception):
    """A system cannot be asked a question; says why."""


class Bench(Protocol):
    """Something that can be put under a load."""

    @property
    def name(self) -> str:
        """The system's name."""

    def trial(self, load: Load) -> Trial:
        """Run once."""


#: Asks a bench for trials, one after the other.
Work = Callable[[Bench], None]


class SeriesBench(Bench, Protocol):
    """A bench that can be put under several loads in one run."""

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        """Let some work ask for trials of one run; give them all, in their order, when it is over.

        Until then a trial says what the queue says, and has no results: nobody has them yet. A
        system that gives its results at the end of a run has a run for each trial.

        Args:
            work: asks for trials.
            rate: about that of the first load.
        """


def right_so_far() -> Verdict:
    """Give the verdict of a trial whose rows are not known yet."""
    return Verdict(rows=0, expected=0, missing=0, surplus=0, missing_rows=(), surplus_rows=())


def one_by_one(bench: Bench, work: Work) -> tuple[Trial, ...]:
    """Let some work ask for trials, a run for each."""
    made: list[Trial] = []

    class Noting:
        name = bench.name

        def trial(self, load: Load) -> Trial:
            made.append(bench.trial(load))
            return made[-1]

    work(Noting())
    return tuple(made)


class PacedBench(SeriesBench, Protocol):
    """A bench whose system can be told how fast its steps are."""

    def paced(self, steps: Mapping[str, float]) -> SeriesBench:
        """Give the bench of the same system with other steps.

        Args:
            steps: step -> so many times its time; below 1 it is really faster.

        Raises:
            OptionError: this system cannot be told that.
        """


class Subject(Protocol):
    """A system that can be asked questions. What it starts for one it keeps for the next."""

    def asked(self, question: str, changes: Mapping[str, Any] | None = None) -> PacedBench:
        """Give the bench of a question, with some settings changed.

        Raises:
            OptionError: there is no such question or setting.
            RefusedError: the system cannot be asked this.
        """

    def stop(self) -> None:
        """End what was started."""
