"""A system that is not there: set capacity, set delay, set faults, in a time of its own.

The oracle of the lab itself. What it is told is what an experiment must find, so an experiment that
finds something else is wrong. It serves events one after the other; no clock is read, nothing is
waited for. Knows the schedule and the rule of the queue, and no experiment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.lab.data_engine.pressure import Pressure
from headrace.lab.data_engine.schedule import F64, I64, Schedule
from headrace.lab.record.trial import Cost, Load, Trial, Work, right_so_far
from headrace.lab.verdict import judge_numbers

_SAMPLE_SECONDS = 0.05
#: Events of a trial, at most: columns of more do not fit.
_MOST_EVENTS = 20_000_000
#: What making an event takes of a processor.
_ENGINE_SECONDS = 1e-6
#: The steps of a fake that was told of none.
_ALL = (("all", 1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSettings:
    """What the fake is."""

    capacity: float = 10_000.0  # events per second, of one core
    delay_seconds: float = 0.05  # from the service of an event until its result leaves
    stages: tuple[tuple[str, float], ...] = (("shuffle", 0.2), ("compute", 0.5), ("commit", 0.3))
    epoch_seconds: float = 0.0  # results leave at multiples of this; 0: at once
    trigger_ms: int = 0  # the same in milliseconds
    bundle_events: int = 1  # that leave together, where they do not leave at multiples of a time
    cpu_seconds_per_batch: float = 0.0  # of those that leave together
    steps: tuple[tuple[str, float], ...] = ()  # (name, share of the service time); sum 1
    pipelined: bool = False  # steps run side by side: the slowest decides
    cores: int = 1
    shards: int = 0  # that share the work; 0: as many as cores
    serial_share: float = 0.0  # of the work, that more cores do not speed up
    contention: float = 0.0  # of the work, that each further core adds
    machine_cores: int = 0  # that all processes share; 0: without end
    drop_every: int = 0  # one event of so many is lost; 0: none
    double_every: int = 0
    spike_queue: float = float("inf")  # a longer queue than this spoils the system for good
    spoilt_delay: float = 1.0  # times the delay, once spoilt
    restart_seconds: float = 2.0  # after a fault
    loses_on_fault: int = 0  # events that a fault costs
    generator_rate: float = float("inf")  # events per second that can be made; above: void
    cpu_seconds_per_event: float = 0.0  # 0: as long as one core serves an event
    state_bytes_per_event: float = 0.0

    def __post_init__(self) -> None:
        for name, parts in (("stages", self.stages), ("steps", self.steps)):
            if parts and abs(sum(share for _, share in parts) - 1) > 1e-9:
                msg = f"the shares of {name} must add up to 1: {parts}"
                raise OptionError(msg)


class FakeBench:
    """Runs trials of the fake."""

    def __init__(
        self, settings: FakeSettings | None = None, *, seed: int = 1,
        pace: Mapping[str, float] | None = None,
    ) -> None:
        self.settings = settings or FakeSettings()
        self._random = np.random.default_rng(seed)
        self._pace = pace or {}

    name = "fake"

    def asked(self, question: str, changes: Mapping[str, Any] | None = None) -> FakeBench:
        """Give the same fake, whatever the question, with some settings changed."""
        del question
        known = {field.name for field in fields(FakeSettings)}
        unknown = set(changes or {}) - known
        if unknown:
            msg = f"a fake has no setting {unknown.pop()!r}; there are {', '.join(sorted(known))}"
            raise OptionError(msg)
        return FakeBench(replace(self.settings, **(changes or {})))

    def paced(self, steps: Mapping[str, float]) -> FakeBench:
        """Give the same fake with slower or faster steps."""
        known = [name for name, _ in self.settings.steps or _ALL]
        unknown = set(steps) - set(known)
        if unknown:
            msg = f"the fake has no step {unknown.pop()!r}; it has {known}"
            raise OptionError(msg)
        return FakeBench(self.settings, pace=steps)

    def stop(self) -> None:
        """Nothing was started."""

    def trial(self, load: Load) -> Trial:
        """Run once, in no time."""
        schedule, settings = load.schedule, self.settings
        if schedule.events > _MOST_EVENTS:
            msg = f"{schedule.events:,} events are more than a fake can serve: {_MOST_EVENTS:,}"
            raise OptionError(msg)
        numbers = np.arange(schedule.events, dtype=np.int64)
        due = schedule.due_all(numbers)
        service = self._service_seconds()
        start = served(due, service)
        spoilt = _first_over(due, start, settings.spike_queue)
        start = self._after_fault(load, due, start, service)
        made, unsustained = _looked(schedule, due, start, load)
        due, start = due[:made], start[:made]
        stages = self._stages(numbers[:made], due, start, service, spoilt)
        left = due + sum(stages.values())
        came = self._came(numbers[:made], load)
        at, lengths = _trace(schedule, start, made)
        batches = len(np.unique(self._batch_ends(start + service)))
        used = self._cpu_seconds * made + settings.cpu_seconds_per_batch * batches
        sizes = np.searchsorted(start, at) * np.int64(settings.state_bytes_per_event)
        fast = max(phase.rate for phase in schedule.phases) <= settings.generator_rate
        return Trial(
            system=self.name, engine=f"fake of {settings.capacity:,.0f} events/s", load=load,
            verdict=judge_numbers(came, numbers[:made]), made=made, unsustained=unsustained,
            void="" if fast else "the generator could not make its events in time",
            due=due, left=left, stages=stages, queue_seconds=at, queue_lengths=lengths,
            state_seconds=at, state_bytes=sizes, checkpoint_seconds=at, checkpoint_bytes=sizes,
            cost=Cost(
                cpu_seconds=used, engine_cpu_seconds=_ENGINE_SECONDS * made,
                cpu_parts={
                    "driver": self._cpu_seconds * made * settings.serial_share,
                    "workers": self._cpu_seconds * made * (1 - settings.serial_share),
                },
                machine_cores=settings.machine_cores or None,
                peak_bytes=100_000_000, checkpoint_bytes=int(settings.state_bytes_per_event * made),
            ),
        )

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        """Run under several loads; what it has served it has forgotten when the next comes."""
        del rate
        whole: list[Trial] = []
        ask = self.trial

        class Running:
            name = self.name

            def trial(self, load: Load) -> Trial:
                whole.append(ask(load))
                nothing = np.zeros(0)
                return replace(
                    whole[-1], verdict=right_so_far(), due=nothing, left=nothing, stages={}
                )

        work(Running())
        return tuple(whole)

    def _service_seconds(self) -> float:
        """The time between two events that are served."""
        settings = self.settings
        steps = settings.steps or _ALL
        times = [share * self._pace.get(name, 1.0) for name, share in steps]
        if settings.pipelined:
            worst = max(times) / max(share for _, share in steps)
        else:
            worst = sum(times)
        serial = settings.serial_share
        sharing = min(settings.cores, settings.shards or settings.cores)
        share = serial + (1 - serial) / sharing + settings.contention * (sharing - 1)
        service = worst / settings.capacity * share
        if not settings.machine_cores:
            return service
        return max(service, (self._cpu_seconds + _ENGINE_SECONDS) / settings.machine_cores)

    @property
    def _cpu_seconds(self) -> float:
        """What an event takes of a processor."""
        return self.settings.cpu_seconds_per_event or 1 / self.settings.capacity

    def _after_fault(self, load: Load, due: F64, start: F64, service: float) -> F64:
        fault = load.fault
        if fault is None:
            return start
        first = int(np.searchsorted(start, fault.at_seconds))
        if first == len(due):
            return start
        again = fault.at_seconds + self.settings.restart_seconds + fault.lasts_seconds
        later = due.copy()
        later[first] = max(later[first], again)
        return served(np.maximum.accumulate(later), service)

    def _stages(
        self, numbers: I64, due: F64, start: F64, service: float, spoilt: int
    ) -> dict[str, F64]:
        settings = self.settings
        delay = np.where(numbers >= spoilt, settings.spoilt_delay, 1.0) * settings.delay_seconds
        stages = {"queue": start - due}
        if settings.epoch_seconds or settings.trigger_ms or settings.bundle_events > 1:
            stages["epoch"] = self._batch_ends(start + service) - start - service
        stages |= {name: delay * share for name, share in settings.stages}
        stages["compute"] = stages.get("compute", 0.0) + np.full(len(due), service)
        return stages

    def _batch_ends(self, over: F64) -> F64:
        """Say when those are over that leave with each event, of which each is over by a time."""
        settings = self.settings
        every = settings.epoch_seconds or settings.trigger_ms / 1_000
        if every:
            return np.asarray(np.ceil(over / every) * every)
        size = settings.bundle_events
        last = (np.arange(len(over)) // size + 1) * size - 1
        return np.asarray(over[np.minimum(last, len(over) - 1)])

    def _came(self, numbers: I64, load: Load) -> I64:
        settings = self.settings
        lost = np.zeros(len(numbers), dtype=bool)
        if settings.drop_every:
            lost |= self._random.random(len(numbers)) < 1 / settings.drop_every
        if load.fault is not None and settings.loses_on_fault:
            lost[: settings.loses_on_fault] = True
        came = numbers[~lost]
        if settings.double_every:
            twice = numbers[self._random.random(len(numbers)) < 1 / settings.double_every]
            came = np.concatenate([came, twice])
        return came


def served(due: F64, service: float) -> F64:
    """Say when events are served that wait for each other.

    An event is served when it is due and the one before it is done: the greatest, over all events
    up to it, of that one's due time plus the service of those in between.
    """
    steps = np.arange(len(due)) * service
    return np.asarray(np.maximum.accumulate(due - steps) + steps)


def _first_over(due: F64, start: F64, length: float) -> int:
    """Give the first event at whose time the queue was longer than this; none: past the last."""
    if length == float("inf"):
        return len(due)
    waiting = np.arange(1, len(due) + 1) - np.searchsorted(start, due, side="right")
    over = np.flatnonzero(waiting > length)
    return int(over[0]) if len(over) else len(due)


def _looked(schedule: Schedule, due: F64, start: F64, load: Load) -> tuple[int, str]:
    """Look at the queue as a data engine does; give the events made and why no more were."""
    if load.patience is None:
        return schedule.events, ""
    limits = load.patience.limits(schedule.phases[0].rate)
    if limits.oldest_seconds is not None:
        late = np.flatnonzero(start - due > limits.oldest_seconds)
        if not len(late):
            return schedule.events, ""
        cut = float(due[late[0]]) + limits.oldest_seconds
        made = int(np.searchsorted(start, cut))
        return made, f"an event has waited more than {limits.oldest_seconds:g} s"
    pressure = Pressure(limits)
    for made in range(limits.acceptable, schedule.events + 1, limits.acceptable):
        pulled = int(np.searchsorted(start, due[made - 1], side="right"))
        reason = pressure.look(made - min(made, pulled))
        if reason:
            return made, reason
    return schedule.events, ""


def _trace(schedule: Schedule, start: F64, made: int) -> tuple[F64, I64]:
    end = max(schedule.seconds, float(start[-1]) if len(start) else 0.0)
    at = np.arange(0, end + _SAMPLE_SECONDS, _SAMPLE_SECONDS)
    sent = np.array([min(made, schedule.made_by(second)) for second in at], dtype=np.int64)
    return at, sent - np.minimum(sent, np.searchsorted(start, at, side="right"))
