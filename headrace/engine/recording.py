"""Makes the record of each epoch for whoever watches a run; nothing is made if nobody does.

Takes what the epoch's tasks reported and how long its parts took, gives `EpochRecord`s. The work is
a walk over the epoch's reports and metrics, whatever the number of elements.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from headrace.engine.metrics import StepFigures, flows_of_steps
from headrace.engine.positions import Positions
from headrace.engine.reports import Infos
from headrace.plan.epoch_records import (
    EpochRecord,
    HotRecord,
    RetryRecord,
    ShardRecord,
    SourceRecord,
    StepRecord,
    retry_of,
)
from headrace.plan.explain import collection_name
from headrace.plan.supersteps import Plan, step_names
from headrace.worker.entry import Epoch, ShardReport


class Laps:
    """A watch that tells how long each part of an epoch took."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self.seconds: dict[str, float] = {}

    def lap(self, part: str) -> None:
        """A part is over."""
        now = time.monotonic()
        self.seconds[part] = now - self._last
        self._last = now

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return self._last - self._began


class Spent(NamedTuple):
    """The time that an epoch took."""

    laps: Laps
    sinks: Mapping[str, float]  # seconds, by sink
    began: int  # by the machine's clock
    published: Mapping[str, float] = {}  # seconds, by sink, of what epochs before had set aside


class Counted(NamedTuple):
    """An epoch that counts."""

    epoch: Epoch
    spent: Spent
    reports: Sequence[ShardReport]  # of its tasks
    infos: Infos  # the metrics of all epochs so far

    def after_publishing(self, published: Mapping[str, float]) -> Counted:
        """Take in that it has waited until the epoch before was published."""
        self.spent.laps.lap("publishing")
        return self._replace(spent=self.spent._replace(published=published))


class Watcher(Protocol):
    """Whoever watches a run; is called in the thread that runs the epochs, and must be quick."""

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed, and is made again."""


class Recorder:
    """Records nothing: nobody watches."""

    def failed(self, epoch: int, error: BaseException) -> None:
        """A try at an epoch has failed."""

    def counted(self, counted: Counted, positions: Positions) -> None:
        """An epoch counts; `positions`: where the sources are now."""


class RunRecorder(Recorder):
    """Makes records, one for each epoch of a driver.

    Args:
        plan: what is run.
        watchers: are given each record.
        infos: the metrics of all epochs before the first.
    """

    def __init__(self, plan: Plan, watchers: Sequence[Watcher], infos: Infos) -> None:
        self._plan = plan
        self._watchers = tuple(watchers)
        self._stages = tuple(stage.transforms for stage in plan.stages())
        self._names = _known_names(plan)
        self._before = flows_of_steps(self._stages, infos)
        self._retries: list[RetryRecord] = []

    def failed(self, epoch: int, error: BaseException) -> None:
        """A try at an epoch has failed: tell of it at once."""
        made = retry_of(epoch, error)
        self._retries.append(made)
        for watcher in self._watchers:
            watcher.retry(made)

    def counted(self, counted: Counted, positions: Positions) -> None:
        """An epoch counts: make its record."""
        figures = flows_of_steps(self._stages, counted.infos)
        record = replace(
            _record(self._plan.shards, counted, positions),
            steps=_since(self._before, figures, self._names), retries=tuple(self._retries),
        )
        self._before, self._retries = figures, []
        for watcher in self._watchers:
            watcher.epoch(record)


def batch_record(plan: Plan, spent: Spent, infos: Infos) -> EpochRecord:
    """Make the record of a batch: one epoch, without state and without time.

    Args:
        plan: what was run.
        spent: how long it took.
        infos: its metrics.
    """
    stages = tuple(stage.transforms for stage in plan.stages())
    took = spent.laps.seconds
    return EpochRecord(
        epoch=0, began=spent.began, seconds=spent.laps.total,
        now=spent.began + round(spent.laps.total * 1e6), tasks=took.get("tasks", 0.0),
        sinks=dict(spent.sinks),
        steps=_since({}, flows_of_steps(stages, infos), _known_names(plan)),
    )


def _known_names(plan: Plan) -> set[str]:
    """Give the names of steps that people know."""
    named = (c for c in plan.channels if c.groups or c.source or not c.target_stages)
    labels = (collection_name(channel).partition("/")[0] for channel in named)
    return {*step_names(plan), *labels}


def _since(
    before: Mapping[str, StepFigures], after: Mapping[str, StepFigures], names: Collection[str]
) -> dict[str, StepRecord]:
    """Give what the steps that have these names did between two looks at their sums."""
    nothing = StepFigures(0, 0, 0.0)
    found = {}
    for step, now in after.items():
        if step not in names:
            continue
        then = before.get(step, nothing)
        found[step] = StepRecord(
            into=max(0, now.into - then.into), out=max(0, now.out - then.out),
            busy=max(0.0, now.busy - then.busy),
        )
    return found


def _record(shards: int, counted: Counted, positions: Positions) -> EpochRecord:
    epoch, spent, reports, _ = counted
    took = spent.laps.seconds
    return EpochRecord(
        epoch=epoch.number,
        began=spent.began,
        seconds=spent.laps.total,
        now=epoch.now,
        tasks=took.get("tasks", 0.0),
        sinks=dict(spent.sinks),
        commit=took.get("commit", 0.0),
        waited=took.get("publishing", 0.0),
        published=dict(spent.published),
        shards=tuple(
            ShardRecord(
                superstep=r.superstep, shard=r.shard if r.task < 0 else r.task,
                seconds=r.seconds, sealing=r.sealing, state_rows=r.rows,
                state_bytes=r.held_bytes, host=r.host,
            )
            for r in sorted(reports, key=lambda r: (r.superstep, r.shard, r.task))
        ),
        sources={
            name: SourceRecord(
                watermark=clock.watermark(epoch.now), ended=clock.ended,
                partitions={p.name: (p.highest, p.heard) for p in clock.partitions},
                idle_after=clock.idle_after,
            )
            for name, clock in positions.clocks.items()
        },
        watermarks=_least_marks(reports),
        holds=_least_holds(reports),
        late=_summed(r.late for r in reports),
        waiting=_summed(r.waiting for r in reports),
        arrived=_by_shard(reports, shards),
        hot=_hot(reports),
        outputs=_summed(r.outputs for r in reports),
        untimed=sum(r.untimed for r in reports),
        restored=sum(r.restored for r in reports if r.partition),
        samples=_samples(reports),
    )


def _summed(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in counts:
        for number, count in each.items():
            found[number] = found.get(number, 0) + count
    return found


def _least_marks(reports: Iterable[ShardReport]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for report in reports:
        for stage, (into, out) in report.watermarks.items():
            known = found.get(stage, (into, out))
            found[stage] = (min(known[0], into), min(known[1], out))
    return found


def _least_holds(reports: Iterable[ShardReport]) -> dict[int, tuple[str, int]]:
    found: dict[int, tuple[str, int]] = {}
    for report in reports:
        for stage, (what, micros) in report.holds.items():
            if stage not in found or micros < found[stage][1]:
                found[stage] = (what, micros)
    return found


def _by_shard(reports: Iterable[ShardReport], shards: int) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for report in reports:
        for channel, count in report.arrived.items():
            found.setdefault(channel, [0] * shards)[report.shard] += count
    return {channel: tuple(counts) for channel, counts in found.items()}


def _hot(reports: Iterable[ShardReport]) -> dict[int, HotRecord]:
    elements: dict[int, int] = {}
    keys: dict[int, dict[str, int]] = {}
    for report in reports:
        for found in (report.merged, report.keys):
            for channel, (count, hot) in found.items():
                elements[channel] = elements.get(channel, 0) + count
                known = keys.setdefault(channel, {})
                for key, its in hot.items():
                    known[key] = known.get(key, 0) + its
    return {
        channel: HotRecord(elements=count, keys=keys[channel])
        for channel, count in elements.items()
        if count
    }


def _samples(reports: Iterable[ShardReport]) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for report in reports:
        for stage, shown in report.samples.items():
            found[stage] = (*found.get(stage, ()), *shown)
    return found
