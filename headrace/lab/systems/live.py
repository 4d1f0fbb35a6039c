"""Puts a real system under a load: engines, one of the lab's questions, its answer, its latencies.

Starts the engines, lets the system read them to their end, holds the rows against the answer for
what was sent, and turns the times at which rows left into latencies. A system that raises has a
void trial. Before the load comes a time at a tenth of its rate, of which nothing is told: a system
that has just been started plans its first epoch then. The load waits until that is over.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.aligned import sent
from headrace.lab.data_engine.client import EngineStatus
from headrace.lab.data_engine.launch import DataEngines
from headrace.lab.data_engine.schedule import F64, I64, Phase, Schedule
from headrace.lab.endpoints.names import Source, SourceKind
from headrace.lab.live.question import WorkloadQuestion
from headrace.lab.live.trials import judged_rows, whole
from headrace.lab.probe.pipelines.questions import Question
from headrace.lab.record.stages import stages_of
from headrace.lab.record.trial import (
    Cost,
    Load,
    RefusedError,
    Trial,
    Work,
    one_by_one,
    right_so_far,
)
from headrace.lab.spec import made
from headrace.lab.systems.asking import asked_of, events_named, question_named, told_of
from headrace.lab.systems.begin import Begin
from headrace.lab.systems.harm import Act, Harm, check
from headrace.lab.systems.series import Series, judged
from headrace.lab.systems.sizes import Sizes, over_time
from headrace.lab.systems.started import Started
from headrace.lab.systems.system import Outcome, Request, System, Tuning, checkpoint_of
from headrace.lab.systems.usage import Tally, spent
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode, Row

_WARM_SHARE = 0.1
_SAMPLE_SECONDS = 0.05
#: The systems whose steps can be slowed, and the option by which (`worker.batched.slowing`).
_SLOWED = ("headrace",)
_SLOW_STEP = "--experiments=headrace_slow_step="
#: The systems that run the lab's pipelines with steps of a set cost: those of Beam's.
_WITH_COSTS = ("headrace", "direct", "beam-flink")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSettings:
    """What a system is told in a spec."""

    cores: int = 2
    partitions: int = 1  # data engines
    keys: int = 100
    window_ms: int = 1_000
    panes: int = 4  # of a sliding window
    one_in: int = 100  # events, of which a filter keeps one
    every: int = 100  # events of a key, of which one has a row of running totals
    costs: tuple[tuple[str, float], ...] = ()  # steps of the filter: microseconds for each event
    spins: bool = False  # these steps compute so long; they wait if not
    warm_seconds: float = 10.0  # at a tenth of the rate, before the load
    shards: int = 0  # tasks side by side; 0: as many as cores
    per_batch: int = Tuning().per_batch
    trigger_ms: int = Tuning().trigger_ms
    bundle_ms: int = Tuning().bundle_ms
    bundle_events: int = Tuning().bundle_events
    who_asks: str = Tuning().who_asks

    def tuning(self) -> Tuning:
        """Give what a request carries of them."""
        return Tuning(
            per_batch=self.per_batch, trigger_ms=self.trigger_ms, bundle_ms=self.bundle_ms,
            bundle_events=self.bundle_events, who_asks=self.who_asks,
        )


class LiveBench:
    """Runs trials of a system on this machine.

    Args:
        name: of the system: headrace, spark, direct.
        settings: of the runs.
        system: another one than the name's, for tests.
        question: what it is asked.
    """

    def __init__(
        self, name: str, settings: LiveSettings, system: System | None = None,
        question: str = "count",
    ) -> None:
        self.name = name
        self._settings = settings
        self._host = Started(name, system)
        self._question = question_named(question)
        self._slow: dict[str, float] = {}  # steps that take longer than they would
        if settings.costs and name not in _WITH_COSTS:
            msg = f"{name} has no steps of a set cost; {', '.join(_WITH_COSTS)} have"
            raise OptionError(msg)
        if settings.partitions > 1 and self._question.is_ordered:
            msg = f"the question {question} depends on order; set partitions = 1"
            raise OptionError(msg)
        if isinstance(self._question, WorkloadQuestion) and system is None:
            refusal = self._question.refusal(name)
            if refusal:
                raise RefusedError(refusal)

    def asked(self, question: str, changes: Mapping[str, Any] | None = None) -> LiveBench:
        """Give the bench of a question on the same system, with some settings changed."""
        told = {**asdict(self._settings), **(changes or {})}
        if told["costs"] and question != "filter":
            msg = f"steps of a set cost are those of the question filter, not of {question}"
            raise OptionError(msg)
        bench = LiveBench(self.name, made(LiveSettings, told, self.name), question=question)
        bench._host = self._host  # one system, whatever it is asked
        return bench

    def paced(self, steps: Mapping[str, float]) -> LiveBench:
        """Give the bench with slower steps, or with faster ones where their cost is set.

        Raises:
            OptionError: this system cannot be told that.
        """
        settings = self._settings
        slow = {name: times for name, times in steps.items() if times > 1}
        fast = {name: times for name, times in steps.items() if times < 1}
        if slow and self.name not in _SLOWED:
            msg = f"{self.name}: its steps cannot be slowed; those of {', '.join(_SLOWED)} can"
            raise OptionError(msg)
        unknown = set(fast) - {name for name, _ in settings.costs}
        if unknown:
            msg = f"nobody knows how to make the step {unknown.pop()!r} faster: its cost is not set"
            raise OptionError(msg)
        costs = tuple((name, micros * fast.get(name, 1.0)) for name, micros in settings.costs)
        bench = self.asked(self._question.name, {"costs": costs})
        bench._slow = slow  # noqa: SLF001 (its own class)
        return bench

    def trial(self, load: Load) -> Trial:
        """Run once.

        Raises:
            OptionError: the load asks for what cannot be done to a live system.
        """
        check(self.name, load.fault)
        settings = self._settings
        warm = self._warm(load.schedule.phases[0].rate)
        schedule = Schedule((warm, *load.schedule.phases))
        asked = asked_of(self._question, settings, schedule)
        limits = None if load.patience is None else load.patience.limits(
            load.schedule.phases[0].rate, settings.partitions
        )
        name = events_named(self._question, asked)
        with (
            tempfile.TemporaryDirectory(prefix="headrace-lab-") as folder,
            DataEngines(
                name, schedule, partitions=settings.partitions, limits=limits, hold=warm.seconds
            ) as engines,
            self._host.hurt_by(load.fault, settings.cores, Path(folder)) as (system, act),
        ):
            run = _Run(load, self._question, asked, schedule, engines, self._host)
            request = self._request(asked, folder, engines, settings.cores)
            return run.judged(system, request, act)

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        """Let some work ask for trials of one run; a system that answers at its end has several."""
        settings = self._settings
        system = self._host.on(settings.cores)
        if not getattr(system, "answers_while_running", False) or settings.partitions > 1:
            return one_by_one(self, work)
        schedule = Schedule((self._warm(rate),))
        asked = asked_of(self._question, settings, schedule)
        name = events_named(self._question, asked)
        with (
            tempfile.TemporaryDirectory(prefix="headrace-lab-") as folder,
            DataEngines(name, schedule, is_open=True) as engines,
        ):
            request = self._request(asked, folder, engines, settings.cores)
            outcome, failure = None, _prepared(system, request)
            root = getattr(system, "pid", os.getpid())
            tally = Tally(root, [*engines.pids, *self._host.others(root)])
            series = Series(system.name, engines.feed.addresses[0], tally, work)
            with series:
                try:
                    outcome = None if failure else system.run(request)
                except Exception as error:  # noqa: BLE001 (whatever a system raises voids its run)
                    failure = _said(error)
        return judged(series, self._question, asked, outcome, failure)

    def _warm(self, rate: float) -> Phase:
        return Phase(self._settings.warm_seconds, rate * _WARM_SHARE)

    def _request(
        self, asked: Any, folder: str, engines: DataEngines, cores: int
    ) -> Request:
        return Request(
            **told_of(self._question, asked), mode=Mode.STREAMING, folder=Path(folder),
            source=Source(SourceKind.ENGINE, engines.feed.text()), tuning=self._settings.tuning(),
            shards=self._settings.shards or cores,
            flags=tuple(f"{_SLOW_STEP}{name}*{times}" for name, times in self._slow.items()),
        )

    def stop(self) -> None:
        """End what was started."""
        self._host.stop()


class _Run:
    """One trial while it is made."""

    def __init__(
        self, load: Load, question: Question | WorkloadQuestion, asked: Any, schedule: Schedule,
        engines: DataEngines, host: Started,
    ) -> None:
        self._host = host
        self._load, self._question, self._asked = load, question, asked
        self._schedule = schedule
        self._engines = engines
        self._warm = schedule.phases[0].seconds

    def judged(self, system: System, request: Request, act: Act | None) -> Trial:
        """Run the system, and say what came of it."""
        failure, outcome = _prepared(system, request), None
        sizes = Sizes(checkpoint_of(request)) if self._load.looks_at_state else None
        if sizes is not None:
            request = replace(request, watch=sizes.watch)
        root = getattr(system, "pid", os.getpid())
        others = [*self._engines.pids, *self._host.others(root)]
        begin = Begin(
            self._engines.feed.addresses[0], self._warm, self._schedule.made_by(self._warm),
            Tally(root, others),
        )
        idle = sum(status.cpu_seconds for status in self._engines.status())
        harm = Harm(self._load.fault, act, lambda: begin.at)
        try:
            with begin, harm, sizes or nullcontext():
                outcome = None if failure else system.run(request)
        except Exception as error:  # noqa: BLE001 (whatever a system raises voids its run)
            failure = _said(error)
        with suppress(OSError):
            for client in self._engines.clients:
                client.end()
        statuses = self._engines.status()
        late = next((status.void for status in statuses if status.void), "")
        void = failure or late or harm.void
        used, parts = spent(begin.before, begin.after)
        after = begin.after
        cost = Cost(
            cpu_seconds=used, cpu_parts=parts, machine_cores=os.cpu_count(),
            engine_cpu_seconds=sum(status.cpu_seconds for status in statuses) - idle,
            peak_bytes=None if after is None else after.peak_bytes,
            checkpoint_bytes=None if outcome is None else outcome.checkpoint_bytes,
        )
        trial = self._trial(system.name, outcome, statuses, void, cost)
        if sizes is None:
            return trial
        zero = min(status.started or 0.0 for status in statuses) + self._warm
        state, kept = over_time(sizes.state, zero), over_time(sizes.checkpoint, zero)
        return replace(
            trial, state_seconds=state[0], state_bytes=state[1],
            checkpoint_seconds=kept[0], checkpoint_bytes=kept[1],
        )

    def _trial(
        self, name: str, outcome: Outcome | None, statuses: Sequence[EngineStatus], void: str,
        cost: Cost,
    ) -> Trial:
        question, asked = self._question, self._asked
        if isinstance(question, WorkloadQuestion):
            return self._trial_of_workload(question, name, outcome, statuses, void, cost)
        feed = self._engines.feed
        stamped = () if outcome is None else outcome.stamped
        pairs = [(at, row) for at, rows in stamped for row in rows]
        numbers, sure = sent(feed, statuses)
        right = question.over(asked, question.right(asked, numbers), sure)
        rows = question.over(asked, [row for _, row in pairs], sure)
        due, left, taken, zero = self._times(statuses, pairs, set(rows))
        epochs = () if outcome is None else outcome.epochs
        at, lengths = self._queue(statuses)
        after = due >= 0
        return Trial(
            system=name, engine="" if outcome is None else outcome.engine, load=self._load,
            verdict=judge(rows, right), void=void,
            made=max(0, sum(s.made for s in statuses) - self._schedule.made_by(self._warm) + 1),
            unsustained=next((s.unsustained for s in statuses if s.unsustained), ""),
            due=due[after], left=left[after],
            stages=stages_of(due[after], taken[after], left[after], epochs, zero),
            queue_seconds=at, queue_lengths=lengths, cost=cost,
        )

    def _trial_of_workload(
        self, question: WorkloadQuestion, name: str, outcome: Outcome | None,
        statuses: Sequence[EngineStatus], void: str, cost: Cost,
    ) -> Trial:
        (client,), (status,) = self._engines.clients, statuses
        at, lengths = self._queue(statuses)
        trial = Trial(
            system=name, engine="" if outcome is None else outcome.engine, load=self._load,
            verdict=right_so_far(), void=void, unsustained=status.unsustained,
            made=max(0, status.made - self._schedule.made_by(self._warm) + 1),
            due=np.zeros(0), left=np.zeros(0), queue_seconds=at, queue_lengths=lengths, cost=cost,
        )
        if outcome is None:
            return trial
        return whole(
            trial, judged_rows(question, self._asked, status.made, outcome.tables), question,
            self._schedule, begun=(status.started or 0.0) + self._warm, before=self._warm,
            records=client.record(), epochs=outcome.epochs,
        )

    def _times(
        self, statuses: Sequence[EngineStatus], pairs: Sequence[tuple[float, Row]], over: set[Row]
    ) -> tuple[F64, F64, F64, float]:
        """Give of each row when its newest input was due, when it left, when that was taken.

        Behind them: when these seconds begin, in seconds since 1970.
        """
        feed, share = self._engines.feed, self._engines.feed.share(0)
        starts = np.array([status.started or 0.0 for status in statuses])
        kept = [(at, row[-1]) for at, row in pairs if row in over]
        last = np.array([number for _, number in kept], dtype=np.int64)
        partitions = share.partition_of(last)
        zero = starts.min() + self._warm
        due = self._schedule.due_all(last) + starts[partitions] - zero
        left = np.array([at for at, _ in kept], dtype=np.float64) - zero
        taken = np.zeros(len(kept))
        for partition, client in enumerate(self._engines.clients):
            own = np.flatnonzero(partitions == partition)
            if len(own):
                record = np.array(client.record())
                offsets = [feed.share(partition).offset_at(int(n)) for n in last[own]]
                found = np.searchsorted(record[:, 2], offsets, side="right")
                seconds = record[np.minimum(found, len(record) - 1), 0]
                taken[own] = seconds + starts[partition] - zero
        return due, left, taken, zero

    def _queue(self, statuses: Sequence[EngineStatus]) -> tuple[F64, I64]:
        """Give the length of all queues together, over the time of the load."""
        end = self._load.schedule.seconds
        at = np.arange(0.0, end + _SAMPLE_SECONDS, _SAMPLE_SECONDS)
        total = np.zeros(len(at))
        starts = [status.started or 0.0 for status in statuses]
        for client, start in zip(self._engines.clients, starts, strict=True):
            record = np.array(client.record()).reshape(-1, 4)
            if len(record):
                seconds = record[:, 0] + start - min(starts) - self._warm
                total += np.interp(at, seconds, record[:, 1] - record[:, 2])
        return at, np.rint(total).astype(np.int64)


def _prepared(system: System, request: Request) -> str:
    """Let a system get ready; say why it could not, empty if it could.

    Raises:
        OptionError: it cannot be asked this.
    """
    try:
        system.prepare(request)
    except OptionError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a system raises voids its run)
        return _said(error)
    return ""


def _said(error: Exception) -> str:
    said = (str(error).splitlines() or [""])[0]
    return f"the system failed: {type(error).__name__}: {said}"
