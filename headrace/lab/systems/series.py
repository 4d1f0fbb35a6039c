"""Puts one run of a real system under one load after the other, and judges each when all is over.

Starting a system, and waiting until it has ended, take longer than a short load does. So an open
data engine is told load after load while the system runs on; before each the system has taken what
came before and has come to rest. What the queue says is known at once, and decides what is next.
Rows are gathered at the end: all are held against the answer, each load by the rows whose newest
input it has sent. Of windows that were open at its end the rows are checked, and not timed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from headrace.errors import OptionError, TransportError
from headrace.lab.data_engine.client import EngineClient, EngineStatus
from headrace.lab.data_engine.schedule import F64, I64, Schedule
from headrace.lab.live.question import WorkloadQuestion
from headrace.lab.live.trials import judged_rows, of_loads
from headrace.lab.probe.pipelines.questions import Question
from headrace.lab.record.stages import EpochStages, stages_of
from headrace.lab.record.trial import Cost, Load, Trial, Work, right_so_far
from headrace.lab.systems.system import Outcome
from headrace.lab.systems.usage import Tally, Usage, spent
from headrace.lab.verdict import judge
from headrace.lab.workload import Row

_LOOK_SECONDS = 0.02
_SAMPLE_SECONDS = 0.05
#: Between two looks at what a system uses while it comes to rest.
_REST_SECONDS = 0.25
#: Cores that a system uses at rest, at most, unless it was seen to use more while it had nothing to
#: do: one that polls for events is not idle.
_REST_CORES = 0.5
_REST_LOOKS = 3
_REST_MORE = 1.3
#: A system that does not come to rest is waited for so long: it may have taken what it has not
#: computed yet.
_REST_PATIENCE_SECONDS = 8.0
#: Where nothing is known of processes, so long is waited instead.
_BLIND_SECONDS = 2.5


class _OverError(Exception):
    """The system has ended before its loads have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One load of a series, as the data engine has seen it."""

    trial: Trial  # what the queue says of it
    begun: float  # seconds since 1970
    before_seconds: float  # of the schedule, before the load
    first: int  # number of its first event
    record: tuple[tuple[float, int, int, int], ...]  # of the queue, in seconds of the schedule


class Series:
    """Loads of one run, made by a thread of its own while the context is open.

    The first comes as soon as the system has taken what is sent before it. Leaving the context says
    that the system has ended, and raises what the work has raised.

    Args:
        name: of the system.
        address: of the data engine, which is open.
        tally: of the system's processes.
        work: asks for trials.
    """

    def __init__(self, name: str, address: str, tally: Tally, work: Work) -> None:
        self.name = name
        self._client = EngineClient(address)
        self._tally, self._work = tally, work
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-series", daemon=True)
        self.stretches: list[Stretch] = []
        self.schedule: Schedule | None = None  # as it was kept to; None: the run ended before
        self._failure: BaseException | None = None
        self._rest_cores = _REST_CORES

    def __enter__(self) -> Series:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def _run(self) -> None:
        try:
            with self._client:
                try:
                    self._await_taken()
                    idle = [self._used(_REST_SECONDS) for _ in range(_REST_LOOKS)]
                    known = [cores for cores in idle if cores is not None]
                    self._rest_cores = max(_REST_CORES, _REST_MORE * min(known, default=0.0))
                    self._work(self)
                finally:
                    self.schedule = self._client.schedule()
                    self._client.end()
        except (_OverError, TransportError):
            pass  # whoever runs the system says why
        except BaseException as error:  # noqa: BLE001 (it is raised where the work was given)
            self._failure = error

    def trial(self, load: Load) -> Trial:
        """Put the system under a load; tell what its queue says of it.

        Raises:
            OptionError: the load asks for what is not done in a series.
        """
        if load.fault is not None or load.looks_at_state:
            msg = f"{self.name}: a series has no faults, and nobody looks at the state in it"
            raise OptionError(msg)
        rate = load.schedule.phases[0].rate
        limits = None if load.patience is None else load.patience.limits(rate)
        before_seconds = self._client.schedule().seconds
        used, idle = self._tally.look(), self._client.status()
        status = self._client.go_on(load.schedule.phases, limits)
        begun = (status.started or 0.0) + before_seconds
        first_sample = status.samples - 1  # those before have another clock
        status = self._await_taken()
        self._rest()
        busy = time.time() - begun - _REST_SECONDS
        record = tuple(self._client.record(first_sample))
        trial = Trial(
            system=self.name, engine="", load=load, verdict=right_so_far(),
            made=status.made - idle.made, void=status.void, unsustained=status.unsustained,
            due=np.zeros(0), left=np.zeros(0),
            cost=_cost(used, self._tally.look(), idle, status), busy_seconds=busy,
        )
        at, lengths = _queue(record, before_seconds, load.schedule.seconds)
        trial = replace(trial, queue_seconds=at, queue_lengths=lengths)
        self.stretches.append(Stretch(
            trial=trial, begun=begun, before_seconds=before_seconds, first=idle.made, record=record,
        ))
        return trial

    def _await_taken(self) -> EngineStatus:
        while not (status := self._client.status()).waits:
            self._pause(_LOOK_SECONDS)
        return status

    def _rest(self) -> None:
        """Wait until the system has nothing left to do, as far as its processor time says."""
        end = time.monotonic() + _REST_PATIENCE_SECONDS
        while time.monotonic() < end:
            cores = self._used(_REST_SECONDS)
            if cores is None:
                self._pause(_BLIND_SECONDS)
                return
            if cores <= self._rest_cores:
                return

    def _used(self, seconds: float) -> float | None:
        """Give how many cores the system uses for so long; None where nobody can tell."""
        before, start = self._tally.look(), time.monotonic()
        self._pause(seconds)
        after = self._tally.look()
        if before is None or after is None:
            return None
        return (after.cpu_seconds - before.cpu_seconds) / (time.monotonic() - start)

    def _pause(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise _OverError


def _cost(
    before: Usage | None, after: Usage | None, idle: EngineStatus, status: EngineStatus
) -> Cost:
    used, parts = spent(before, after)
    return Cost(
        cpu_seconds=used, cpu_parts=parts, machine_cores=os.cpu_count(),
        engine_cpu_seconds=status.cpu_seconds - idle.cpu_seconds,
        peak_bytes=None if after is None else after.peak_bytes,
    )


def _queue(
    record: tuple[tuple[float, int, int, int], ...], before: float, seconds: float
) -> tuple[F64, I64]:
    """Give the length of the queue over the time of a load."""
    at = np.arange(0.0, seconds + _SAMPLE_SECONDS, _SAMPLE_SECONDS)
    told = np.array(record).reshape(-1, 4)
    lengths = np.interp(at, told[:, 0] - before, told[:, 1] - told[:, 2]) if len(told) else at * 0
    return at, np.rint(lengths).astype(np.int64)


def judged(
    series: Series, question: Question | WorkloadQuestion, asked: Any, outcome: Outcome | None,
    failure: str,
) -> tuple[Trial, ...]:
    """Give the trials of a series with the rows that each has had, and whether they are right.

    Args:
        series: that is over.
        question: that was asked.
        asked: its settings; the schedule is that of the series.
        outcome: of the run; None: it has failed.
        failure: why the run does not count; empty if it does. It is told even of no load at all.
    """
    stretches = series.stretches
    if outcome is None or series.schedule is None:
        why = failure or "the system failed: it ended before its loads"
        nothing = Trial(
            system=series.name, engine="", load=Load(schedule=asked.read_schedule()),
            verdict=right_so_far(), made=0, due=np.zeros(0), left=np.zeros(0),
        )
        trials = [each.trial for each in stretches] or [nothing]
        return tuple(replace(trial, void=why) for trial in trials)
    schedule = series.schedule
    asked = replace(asked, schedule=tuple((p.seconds, p.rate) for p in schedule.phases))
    if isinstance(question, WorkloadQuestion):
        rows_of_all = judged_rows(question, asked, schedule.events, outcome.tables)
        return of_loads(
            [
                replace(
                    each.trial, engine=outcome.engine, void=each.trial.void or failure,
                    cost=replace(each.trial.cost, checkpoint_bytes=outcome.checkpoint_bytes),
                )
                for each in stretches
            ],
            rows_of_all, question, schedule, [each.begun for each in stretches],
            [each.before_seconds for each in stretches], [each.record for each in stretches],
            outcome.epochs,
        )
    numbers = np.arange(schedule.events, dtype=np.int64)
    sure = schedule.events - 1
    # What comes before the first load counts as its own, and what nobody has sent as the last's.
    firsts = np.array([0, *(each.first for each in stretches[1:])])

    def dealt(rows: list[Row]) -> list[list[Row]]:
        found: list[list[Row]] = [[] for _ in stretches]
        places = np.searchsorted(firsts, [row[-1] for row in rows], side="right") - 1
        for place, row in zip(places.tolist(), rows, strict=True):
            found[max(0, place)].append(row)
        return found

    stamps: dict[Row, list[float]] = {}
    came = [(at, row) for at, rows in outcome.stamped for row in rows]
    for at, row in came:
        stamps.setdefault(row, []).append(at)
    right = dealt(question.over(asked, question.right(asked, numbers), sure))
    rows = dealt(question.over(asked, [row for _, row in came], sure))
    ends = [*firsts[1:].tolist(), schedule.events]
    found = []
    for place, each in enumerate(stretches):
        timed = question.over(asked, rows[place], ends[place] - 1)
        due, left, stages = _times(each, schedule, timed, stamps, outcome.epochs)
        cost = replace(each.trial.cost, checkpoint_bytes=outcome.checkpoint_bytes)
        found.append(replace(
            each.trial, engine=outcome.engine, verdict=judge(rows[place], right[place]),
            void=each.trial.void or failure, due=due, left=left, stages=stages,
            cost=cost,
        ))
    return tuple(found)


def _times(
    each: Stretch, schedule: Schedule, rows: list[Row], stamps: dict[Row, list[float]],
    epochs: Sequence[EpochStages],
) -> tuple[F64, F64, dict[str, F64]]:
    """Give, of the rows of a load, when their newest input was due, when they left, and stages."""
    pairs = [(row[-1], at) for row in dict.fromkeys(rows) for at in stamps[row]]
    last = np.array([number for number, _ in pairs], dtype=np.int64)
    due = schedule.due_all(last) - each.before_seconds
    left = np.array([at for _, at in pairs], dtype=np.float64) - each.begun
    after = due >= 0
    last, due, left = last[after], due[after], left[after]
    told = np.array(each.record).reshape(-1, 4)
    taken = np.zeros(len(last))
    if len(told):
        found = np.searchsorted(told[:, 2], last, side="right")
        taken = told[np.minimum(found, len(told) - 1), 0] - each.before_seconds
    return due, left, stages_of(due, taken, left, epochs, each.begun)
