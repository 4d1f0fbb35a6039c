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
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.client import EngineStatus
from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.launch import DataEngines, Feed
from headrace.lab.data_engine.schedule import F64, I64, Phase, Schedule
from headrace.lab.endpoints.names import Drain, DrainKind, Source, SourceKind
from headrace.lab.experiments.trial import Cost, Load, Trial, Work, one_by_one
from headrace.lab.probe.events import ProbeSettings
from headrace.lab.probe.questions import Question, question_of
from headrace.lab.spec import made
from headrace.lab.systems.begin import Begin
from headrace.lab.systems.choose import choose
from headrace.lab.systems.harm import KINDS, Harm
from headrace.lab.systems.series import Series, judged
from headrace.lab.systems.system import Outcome, Request, System, Tuning
from headrace.lab.systems.usage import Tally
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode, Row

_EVENTS = "headrace.lab.probe.events"
_WARM_SHARE = 0.1
_TASK_TRIES = 4
_SAMPLE_SECONDS = 0.05


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
    warm_seconds: float = 10.0  # at a tenth of the rate, before the load
    shards: int = 0  # tasks side by side; 0: as many as cores
    per_batch: int = Tuning().per_batch
    trigger_ms: int = Tuning().trigger_ms
    bundle_ms: int = Tuning().bundle_ms
    bundle_events: int = Tuning().bundle_events

    def tuning(self) -> Tuning:
        """Give what a request carries of them."""
        return Tuning(
            per_batch=self.per_batch, trigger_ms=self.trigger_ms, bundle_ms=self.bundle_ms,
            bundle_events=self.bundle_events,
        )


class _Host:
    """Keeps a system between trials; another number of cores starts it anew."""

    _all: ClassVar[WeakSet[_Host]] = WeakSet()

    def __init__(self, name: str, given: System | None) -> None:
        self._all.add(self)
        self._name, self._given = name, given
        self._system = given
        self._cores: int | None = None

    def on(self, cores: int) -> System:
        """Give the system on so many cores."""
        if self._given is not None:
            return self._given
        if self._system is None or self._cores != cores:
            self.stop()
            # A task that has failed is tried again, as on a cluster.
            self._system = choose(self._name, master=f"local[{cores},{_TASK_TRIES}]")
            self._cores = cores
        return self._system

    @classmethod
    def others(cls, root: int) -> list[int]:
        """Give the processes of systems that have one of their own, but for this one."""
        found = {getattr(host._system, "pid", root) for host in cls._all}  # noqa: SLF001 (its own class)
        return sorted(found - {root, os.getpid()})

    def stop(self) -> None:
        """End what was started."""
        if self._system is not None:
            self._system.stop()
            self._system = self._given


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
        self._host = _Host(name, system)
        self._question = question_of(question)
        if self._question.is_ordered and settings.partitions > 1:
            msg = f"the question {question} depends on order; set partitions = 1"
            raise OptionError(msg)

    def asked(self, question: str, changes: Mapping[str, Any] | None = None) -> LiveBench:
        """Give the bench of a question on the same system, with some settings changed."""
        told = {**asdict(self._settings), **(changes or {})}
        bench = LiveBench(self.name, made(LiveSettings, told, self.name), question=question)
        bench._host = self._host  # one system, whatever it is asked
        return bench

    def trial(self, load: Load) -> Trial:
        """Run once.

        Raises:
            OptionError: the load asks for what cannot be done to a live system.
        """
        if load.slowed:
            msg = f"{self.name}: the steps of a live system cannot be slowed"
            raise OptionError(msg)
        if load.fault is not None and load.fault.kind not in KINDS:
            msg = f"a live system cannot be given the fault {load.fault.kind!r}: {', '.join(KINDS)}"
            raise OptionError(msg)
        settings = self._settings
        system = self._host.on(load.cores or settings.cores)
        warm = self._warm(load.schedule.phases[0].rate)
        schedule = Schedule((warm, *load.schedule.phases))
        asked = self._events(schedule)
        limits = None if load.patience is None else load.patience.limits(
            load.schedule.phases[0].rate, settings.partitions
        )
        name = EventsName(module=_EVENTS, settings=asdict(asked))
        with (
            tempfile.TemporaryDirectory(prefix="headrace-lab-") as folder,
            DataEngines(
                name, schedule, partitions=settings.partitions, limits=limits, hold=warm.seconds
            ) as engines,
        ):
            run = _Run(load, self._question, asked, schedule, engines)
            request = self._request(asked, folder, engines, load.cores or settings.cores)
            return run.judged(system, request)

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        """Let some work ask for trials of one run; a system that answers at its end has several."""
        settings = self._settings
        system = self._host.on(settings.cores)
        if not getattr(system, "answers_while_running", False) or settings.partitions > 1:
            return one_by_one(self, work)
        schedule = Schedule((self._warm(rate),))
        asked = self._events(schedule)
        name = EventsName(module=_EVENTS, settings=asdict(asked))
        with (
            tempfile.TemporaryDirectory(prefix="headrace-lab-") as folder,
            DataEngines(name, schedule, is_open=True) as engines,
        ):
            request = self._request(asked, folder, engines, settings.cores)
            outcome, failure = None, _prepared(system, request)
            root = getattr(system, "pid", os.getpid())
            tally = Tally(root, [*engines.pids, *_Host.others(root)])
            series = Series(system.name, engines.feed.addresses[0], tally, work)
            with series:
                try:
                    outcome = None if failure else system.run(request)
                except Exception as error:  # noqa: BLE001 (whatever a system raises voids its run)
                    failure = _said(error)
        return judged(series, self._question, asked, outcome, failure)

    def _warm(self, rate: float) -> Phase:
        return Phase(self._settings.warm_seconds, rate * _WARM_SHARE)

    def _events(self, schedule: Schedule) -> ProbeSettings:
        settings = self._settings
        return ProbeSettings(
            schedule=tuple((phase.seconds, phase.rate) for phase in schedule.phases),
            keys=settings.keys, window_ms=settings.window_ms, panes=settings.panes,
            one_in=settings.one_in, every=settings.every,
        )

    def _request(
        self, asked: ProbeSettings, folder: str, engines: DataEngines, cores: int
    ) -> Request:
        return Request(
            workload=self._question.workload, settings=asked, mode=Mode.STREAMING,
            folder=Path(folder), source=Source(SourceKind.ENGINE, engines.feed.text()),
            drain=Drain(DrainKind.VECTOR), tuning=self._settings.tuning(),
            shards=self._settings.shards or cores,
        )

    def stop(self) -> None:
        """End what was started."""
        self._host.stop()


class _Run:
    """One trial while it is made."""

    def __init__(
        self, load: Load, question: Question, asked: ProbeSettings, schedule: Schedule,
        engines: DataEngines,
    ) -> None:
        self._load, self._question, self._asked = load, question, asked
        self._schedule = schedule
        self._engines = engines
        self._warm = schedule.phases[0].seconds

    def judged(self, system: System, request: Request) -> Trial:
        """Run the system, and say what came of it."""
        failure, outcome = _prepared(system, request), None
        root = getattr(system, "pid", os.getpid())
        others = [*self._engines.pids, *_Host.others(root)]
        begin = Begin(
            self._engines.feed.addresses[0], self._warm, self._schedule.made_by(self._warm),
            Tally(root, others),
        )
        idle = sum(status.cpu_seconds for status in self._engines.status())
        harm = Harm(self._load.fault, lambda: begin.at, root)
        try:
            with begin, harm:
                outcome = None if failure else system.run(request)
        except Exception as error:  # noqa: BLE001 (whatever a system raises voids its run)
            failure = _said(error)
        before, after = begin.before, begin.after
        with suppress(OSError):
            for client in self._engines.clients:
                client.end()
        statuses = self._engines.status()
        late = next((status.void for status in statuses if status.void), "")
        void = failure or late or harm.void
        used = None if before is None or after is None else after.cpu_seconds - before.cpu_seconds
        cost = Cost(
            cpu_seconds=used,
            engine_cpu_seconds=sum(status.cpu_seconds for status in statuses) - idle,
            peak_bytes=None if after is None else after.peak_bytes,
            checkpoint_bytes=None if outcome is None else outcome.checkpoint_bytes,
        )
        return self._trial(system.name, outcome, statuses, void, cost)

    def _trial(
        self, name: str, outcome: Outcome | None, statuses: Sequence[EngineStatus], void: str,
        cost: Cost,
    ) -> Trial:
        feed = self._engines.feed
        stamped = () if outcome is None else outcome.stamped
        pairs = [(at, row) for at, rows in stamped for row in rows]
        numbers, sure = _sent(feed, statuses)
        question, asked = self._question, self._asked
        right = question.over(asked, question.right(asked, numbers), sure)
        rows = question.over(asked, [row for _, row in pairs], sure)
        due, left, queue = self._times(statuses, pairs, set(rows))
        at, lengths = self._queue(statuses)
        after = due >= 0
        return Trial(
            system=name, engine="" if outcome is None else outcome.engine, load=self._load,
            verdict=judge(rows, right), void=void,
            made=max(0, sum(s.made for s in statuses) - self._schedule.made_by(self._warm) + 1),
            unsustained=next((s.unsustained for s in statuses if s.unsustained), ""),
            due=due[after], left=left[after], stages={"queue": queue[after]},
            queue_seconds=at, queue_lengths=lengths, cost=cost,
        )

    def _times(
        self, statuses: Sequence[EngineStatus], pairs: Sequence[tuple[float, Row]], over: set[Row]
    ) -> tuple[F64, F64, F64]:
        """Give, of each row, when its newest input was due, when it left, how long it queued."""
        feed, places = self._engines.feed, self._engines.feed.place(0)
        starts = np.array([status.started or 0.0 for status in statuses])
        kept = [(at, row[-1]) for at, row in pairs if row in over]
        last = np.array([number for _, number in kept], dtype=np.int64)
        partitions = places.partition_of(last)
        zero = starts.min() + self._warm
        due = self._schedule.due_all(last) + starts[partitions] - zero
        left = np.array([at for at, _ in kept], dtype=np.float64) - zero
        taken = np.zeros(len(kept))
        for partition, client in enumerate(self._engines.clients):
            own = np.flatnonzero(partitions == partition)
            if len(own):
                record = np.array(client.record())
                offsets = [feed.place(partition).offset_at(int(n)) for n in last[own]]
                found = np.searchsorted(record[:, 2], offsets, side="right")
                seconds = record[np.minimum(found, len(record) - 1), 0]
                taken[own] = seconds + starts[partition] - zero
        return due, left, np.clip(taken - due, 0.0, np.maximum(left - due, 0.0))

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


def _sent(feed: Feed, statuses: Sequence[EngineStatus]) -> tuple[I64, int]:
    """Give the numbers of the events that were sent, and the last one up to which all were."""
    numbers, ends = [np.zeros(0, dtype=np.int64)], []
    for partition, status in enumerate(statuses):
        place = feed.place(partition)
        offsets = np.arange(status.made, dtype=np.int64)
        turns, rest = np.divmod(offsets, place.block)
        numbers.append((turns * place.partitions + partition) * place.block + rest)
        ends.append(place.number(status.made))
    sent = np.sort(np.concatenate(numbers))
    # Where all partitions went to their end, the next numbers lie past the last event of the run.
    return sent, min([*ends, int(sent[-1]) + 1 if len(sent) else 0]) - 1
