"""Decides where the sources of a streaming run are: before an epoch, and after it.

Pure: `Positions` is frozen, and every change gives a new one. Source clocks, steps of test streams,
DataFrames that were read, batches that count. Times are handed in; knows nothing of Spark, files
and threads. What must survive a driver goes into the manifest by `record`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.engine.checkpoint.manifests import LogRecord, SourceRecord
from headrace.plan.clocks import MAX_TIME, MIN_TIME, SourceClock
from headrace.plan.scripts import Script, ScriptStep, StepKind
from headrace.plan.sources import Frame, Impulse, ScriptOutput, Source
from headrace.plan.supersteps import Plan

#: What a test stream brings in one epoch: channel, coder, and encoded elements with their times.
Arrivals = tuple[tuple[int, str, tuple[tuple[bytes, int], ...]], ...]
#: A watermark further ahead of the clock than a day is told of.
FAR_AHEAD = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a plan reads; the same from the first epoch to the last."""

    channels: Mapping[Source, int]  # what feeds a channel -> the channel
    scripts: tuple[Script, ...]
    bounded: tuple[str, ...]  # reads whose DataFrames have an end, in the order of the pipeline

    @classmethod
    def of(cls, plan: Plan, bounded: Iterable[str]) -> Sources:
        """Take what counts from a plan."""
        return cls(
            channels={
                channel.source: index
                for index, channel in enumerate(plan.channels)
                if channel.source is not None
            },
            scripts=plan.scripts,
            bounded=tuple(bounded),
        )

    def channel_of_frame(self, name: str) -> int:
        """Give the channel that a read's DataFrame feeds."""
        return self.channels[Frame(name)]

    def clocks(self, positions: Positions) -> dict[int, SourceClock]:
        """Give the clocks of DataFrames by the channels they feed."""
        found = {Frame(name): clock for name, clock in positions.clocks.items()}
        return {self.channels[f]: clock for f, clock in found.items() if f in self.channels}

    def watermarks(self, positions: Positions, now: int) -> dict[int, int]:
        """Give the watermark of every source, by the channel it feeds."""
        return {
            channel: self._watermark(positions, source, now)
            for source, channel in self.channels.items()
        }

    def _watermark(self, positions: Positions, source: Source, now: int) -> int:
        match source:
            case Frame(name):
                return positions.clocks[name].watermark(now)
            case ScriptOutput(name, _):
                (steps,) = (script.steps for script in self.scripts if script.name == name)
                over = positions.steps.get(name, 0) >= len(steps)
                return MAX_TIME if over else positions.marks.get(source, MIN_TIME)
            case Impulse():
                return MAX_TIME  # it fires in the first epoch, and never again

    def unread(self, positions: Positions) -> list[str]:
        """Give the reads of bounded DataFrames that have not been read."""
        return [name for name in self.bounded if name not in positions.read]

    def steps_left(self, positions: Positions) -> int:
        """Give how many steps of test streams are left."""
        return sum(len(s.steps) - positions.steps.get(s.name, 0) for s in self.scripts)

    def next_step(self, positions: Positions) -> Stepped:
        """Take the next step of a test stream; there must be one."""
        script = next(
            s for s in self.scripts if positions.steps.get(s.name, 0) < len(s.steps)
        )
        done = positions.steps.get(script.name, 0)
        step: ScriptStep = script.steps[done]
        output = ScriptOutput(script.name, step.tag)
        ahead = replace(positions, steps={**positions.steps, script.name: done + 1})
        match step.kind:
            case StepKind.ELEMENTS:
                channel = self.channels.get(output)
                found = () if channel is None else ((channel, script.coder_id, step.elements),)
                return Stepped(positions=ahead, arrivals=found)
            case StepKind.WATERMARK:
                marks = {**positions.marks, output: step.micros}
                return Stepped(positions=replace(ahead, marks=marks))
            case StepKind.CLOCK:
                return Stepped(positions=ahead, clock_micros=step.micros)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What one epoch takes in, and why it is run. All of it empty: something is due."""

    first: bool = False  # impulses fire
    drain: bool = False  # the sources have been told to end
    frame: Any = None  # the rows of a DataFrame
    source: str = ""  # the read whose rows they are
    ending: bool = False  # the DataFrame is bounded: after this epoch it is read
    last: bool = False  # of all that DataFrames bring: the sources end with this epoch
    batch: int | None = None  # the number of the batch that a streaming DataFrame brought
    rows: int | None = None  # at most so many are in the batch; None: nobody knows
    arrivals: Arrivals = ()  # elements of a test stream

    @property
    def whole(self) -> bool:
        """Whether superstep 0 has anything to do on the shards."""
        return self.first or bool(self.arrivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Where all sources are."""

    clocks: Mapping[str, SourceClock] = field(default_factory=dict)  # by the read's name
    read: frozenset[str] = frozenset()  # bounded DataFrames that were read
    steps: Mapping[str, int] = field(default_factory=dict)  # test stream -> steps it has done
    marks: Mapping[ScriptOutput, int] = field(default_factory=dict)  # what test streams told
    batches: Mapping[str, int] = field(default_factory=dict)  # read -> its last batch that counts
    logs: Mapping[str, LogRecord] = field(default_factory=dict)  # what these batches were
    wakeup: int | None = None  # earliest processing time at which a task has something to do
    drained: bool = False  # the epoch in which all sources end counts
    begun: bool = False  # the first epoch counts

    def after(
        self, intake: Intake, highs: Mapping[str, int], now: int, *, wakeup: int | None,
        log: LogRecord | None = None,
    ) -> Positions:
        """Give where the sources are once an epoch counts.

        Args:
            intake: what the epoch took in.
            highs: the greatest event times of the DataFrame's partitions that the tasks read.
            now: the epoch's processing time.
            wakeup: when the tasks have something to do next.
            log: what the batch was that the epoch took in, if one.
        """
        source = intake.source
        drained = intake.drain or intake.last or self.drained
        clocks = {
            name: clock.seen(highs if name == source else {}, now)
            for name, clock in self.clocks.items()
        }
        if intake.ending:
            clocks[source] = clocks[source].finished()
        if drained:
            clocks = {name: clock.finished() for name, clock in clocks.items()}
        counted = {} if intake.batch is None else {source: intake.batch}
        known = {} if log is None else {source: log}
        return replace(
            self,
            clocks=clocks,
            read=self.read | {source} if intake.ending else self.read,
            batches={**self.batches, **counted},
            logs={**self.logs, **known},
            wakeup=wakeup,
            drained=drained,
            begun=True,
        )

    def expecting(self, source: str, partitions: Iterable[str], now: int) -> Positions:
        """Know of partitions of a source, whether or not they have brought anything yet."""
        clock = self.clocks[source].expecting(partitions, now)
        if clock is self.clocks[source]:
            return self
        return replace(self, clocks={**self.clocks, source: clock})

    def next_wakeup(self, now: int) -> int | None:
        """Give when something is due next: in a task, or because a partition falls silent."""
        clocks = self.clocks.values()
        idle = [now if clock.has_moved(now) else clock.next_idle(now) for clock in clocks]
        return min((t for t in (self.wakeup, *idle) if t is not None), default=None)

    def record(self, now: int, writer: str) -> SourceRecord:
        """Give what a manifest keeps of the sources; batches and logs stand beside it.

        Args:
            now: processing time.
            writer: names the run for its sinks.
        """
        return SourceRecord(
            now=now,
            clocks={name: clock.to_json() for name, clock in self.clocks.items()},
            read=tuple(sorted(self.read)),
            steps=dict(self.steps),
            marks=dict(self.marks),
            wakeup=self.wakeup,
            drained=self.drained,
            begun=self.begun,
            writer=writer,
        )

    def restored(
        self, recorded: SourceRecord, batches: Mapping[str, int], logs: Mapping[str, LogRecord],
        now: int,
    ) -> Positions:
        """Go on from what a manifest keeps, with the policies of these clocks.

        Args:
            recorded: what `record` gave.
            batches: what stands beside it.
            logs: the same.
            now: processing time; silence before it was nobody's, as nobody listened.
        """
        clocks = dict(self.clocks)
        for name, clock in recorded.clocks.items():
            if name in clocks:
                clocks[name] = clocks[name].restored(clock).resumed(now)
        return Positions(
            clocks=clocks,
            read=frozenset(recorded.read),
            steps={**self.steps, **recorded.steps},
            marks=dict(recorded.marks),
            batches=dict(batches),
            logs=dict(logs),
            wakeup=recorded.wakeup,
            drained=recorded.drained,
            begun=recorded.begun,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """One step of a test stream, taken."""

    positions: Positions  # with the step behind it
    arrivals: Arrivals = ()
    clock_micros: int = 0  # how far processing time moves on


def run_away(before: Positions, after: Positions, now: int) -> list[str]:
    """Give the reads whose watermark has just run away from the clock."""
    return [
        name
        for name, clock in after.clocks.items()
        if not clock.ended
        and clock.watermark(now) > now + FAR_AHEAD > before.clocks[name].watermark(now)
    ]
