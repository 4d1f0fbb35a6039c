"""How far event time has come: on channels, at the inputs and at the outputs of stages. Pure.

Takes what sources, pulses and stages tell within one epoch, gives watermarks in microseconds. Holds
no element and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headrace.errors import TransportError
from headrace.plan.clocks import MAX_TIME as END
from headrace.plan.clocks import MIN_TIME as BEGINNING
from headrace.plan.supersteps import Channel, ChannelKind, Stage
from headrace.worker.protocol import Epoch, SuperstepTask

#: Input and output watermark of a stage.
Pair = tuple[int, int]
NOTHING_YET: Pair = (BEGINNING, BEGINNING)


class Watermarks(Protocol):
    """What a task knows of time within one epoch."""

    def begin(self, epoch: Epoch) -> None:
        """Begin an epoch: nothing has been heard."""

    def hear(self, pulses: Iterable[tuple[int, int]]) -> None:
        """Take a pulse: how far channels have come on one shard of an earlier superstep."""

    def seen(self, highs: Mapping[str, int]) -> None:
        """Take the greatest event time of each partition of a DataFrame."""

    def of(self, channel: int) -> int:
        """Give the watermark of a channel that is read here."""

    def at_input(self, stage: Stage, last: int) -> int:
        """Give the input watermark of a stage; `last` is that of the last epoch."""

    def reached(self, stage: Stage, out: int) -> None:
        """A stage has come so far: later ones that it writes to directly may go as far."""


class EndOfTime:
    """The input is bounded: when it is in, nothing can follow."""

    def begin(self, epoch: Epoch) -> None:
        """Nothing to forget."""

    def hear(self, pulses: Iterable[tuple[int, int]]) -> None:
        """No shard need tell another: none sends pulses."""

    def seen(self, highs: Mapping[str, int]) -> None:
        """Nobody asks how far a partition has come."""

    def of(self, channel: int) -> int:  # noqa: ARG002 (as every channel)
        """Give the end of time."""
        return END

    def at_input(self, stage: Stage, last: int) -> int:  # noqa: ARG002 (as every stage)
        """Give the end of time."""
        return END

    def reached(self, stage: Stage, out: int) -> None:
        """Nothing new."""


class PulsedWatermarks:
    """Watermarks of one epoch of a stream: from the clocks of sources, and from pulses below."""

    def __init__(self, task: SuperstepTask) -> None:
        self._channels: Sequence[Channel] = task.channels
        self._roots = task.roots
        self._expected = task.pulses
        self._first = task.superstep.index == 0
        self._epoch: Epoch | None = None
        self._forget()

    def _forget(self) -> None:
        self._marks: dict[int, int] = {}  # channel -> watermark, as pulses and stages tell
        self._heard: dict[int, int] = {}  # channel -> pulses that came
        self.highs: dict[str, int] = {}

    def begin(self, epoch: Epoch) -> None:
        """Begin an epoch: nothing has been heard."""
        self._epoch = epoch
        self._forget()

    def hear(self, pulses: Iterable[tuple[int, int]]) -> None:
        """Take a pulse; the least of all shards counts."""
        for channel, mark in pulses:
            self._lower(channel, mark)
            self._heard[channel] = self._heard.get(channel, 0) + 1

    def _lower(self, channel: int, mark: int) -> None:
        self._marks[channel] = min(self._marks.get(channel, END), mark)

    def seen(self, highs: Mapping[str, int]) -> None:
        """Take the greatest event time of each partition of a DataFrame."""
        for partition, high in highs.items():
            self.highs[partition] = max(self.highs.get(partition, high), high)

    def of(self, channel: int) -> int:
        """Give the watermark of a channel: of its sources, and of the stages that wrote to it."""
        heard, expected = self._heard.get(channel, 0), self._expected[channel]
        if heard != expected:
            msg = (
                f"channel {channel} ({self._channels[channel].label}) got {heard} of "
                f"{expected} pulses: a part of the epoch is missing"
            )
            raise TransportError(msg)
        assert self._epoch is not None
        marks = [source_watermark(self._epoch, root, self.highs) for root in self._roots[channel]]
        return min([self._marks.get(channel, END), *marks])

    def at_input(self, stage: Stage, last: int) -> int:
        """Give the input watermark of a stage: the least of its inputs; it never goes back."""
        if self._first:
            return BEGINNING  # superstep 0 holds nothing back: readers ask the sources
        marks = [
            self.of(port.channel)
            for port in stage.reads
            # Else an impulse, or nothing ever: all other sources are in superstep 0.
            if self._channels[port.channel].kind is not ChannelKind.SOURCE
        ]
        return max(last, min(marks, default=END))

    def reached(self, stage: Stage, out: int) -> None:
        """A stage has come so far: what it writes to directly has too."""
        for port in stage.writes:
            if self._channels[port.channel].kind is ChannelKind.LOCAL:
                self._lower(port.channel, out)


def source_watermark(epoch: Epoch, source: int, highs: Mapping[str, int]) -> int:
    """Give how far a source is when the epoch is over; `highs` are those of the one that feeds."""
    clock = epoch.clocks.get(source)
    if clock is None:
        return epoch.sources.get(source, END)
    if epoch.drain or epoch.last:
        return END
    if source == epoch.feeding:
        clock = clock.seen(highs, epoch.now)
        clock = clock.finished() if epoch.ending else clock
    return clock.watermark(epoch.now)


def at_output(last: int, watermark: int, holds: Iterable[int]) -> int:
    """Give the output watermark of a stage: its input's, held back; it never goes back."""
    return max(last, min([watermark, *holds]))


def pulses_of(
    task: SuperstepTask, outs: Iterable[tuple[Stage, int]]
) -> dict[int, dict[int, int]]:
    """Give what later supersteps must hear: superstep -> channel -> watermark."""
    ports: dict[int, dict[int, int]] = {}
    for stage, out in outs:
        for port in stage.writes:
            kind = task.channels[port.channel].kind
            if kind not in (ChannelKind.LOCAL, ChannelKind.OUTPUT):
                at = ports.setdefault(task.depths[port.channel], {})
                at[port.channel] = min(at.get(port.channel, END), out)
    return ports


def carriers_of_highs(task: SuperstepTask) -> list[int]:
    """Give one channel for each superstep that must know how far this task's DataFrame is."""
    fed = {task.depths[c]: c for c, roots in enumerate(task.roots) if task.source in roots}
    return [
        channel
        for depth, channel in fed.items()
        if depth != 0 and task.channels[channel].kind is not ChannelKind.OUTPUT
    ]
