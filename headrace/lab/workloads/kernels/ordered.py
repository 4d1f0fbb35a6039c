"""Hands events to a function in the order of their time, whatever the order of their arrival.

Takes keyed events, gives what the function makes of them. Two steps: a grouping by short fixed
windows (slices) sorts inside a slice; a cell of state per partition carries what the function
remembers from slice to slice, and a timer at the slice's end takes slices in order. So state and
timers cost something per partition and slice, not per event.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Duration, Timestamp

#: Takes what it remembers (empty at first; it may change it) and events in order, gives rows.
Step = Callable[[dict[Any, Any], list[tuple[Any, ...]]], list[tuple[Any, ...]]]

_MICROS_PER_MS = 1_000


class InOrder(beam.PTransform):  # type: ignore[misc]
    """Apply a step to each partition's events, sorted as tuples.

    State: what the step remembers, per partition, and slices that the watermark has not passed.
    Order: free; any arrival order that is not late gives the same rows.
    Late:  dropped, as by any grouping with no allowed lateness.
    Shard: by partition; a partition is never split.

    Args:
        step: makes rows of sorted events.
        slice_ms: length of the slices; rows leave when the watermark passes a slice's end.
    """

    def __init__(self, step: Step, slice_ms: int) -> None:
        super().__init__()
        self._step = step
        self._slice_ms = slice_ms

    def expand(self, events: Any) -> Any:
        """Take (partition, event) pairs; an event is a tuple that begins with its time in us."""
        slice_micros = self._slice_ms * _MICROS_PER_MS
        return (
            events
            | "Slices" >> beam.WindowInto(FixedWindows(Duration(micros=slice_micros)))
            | "Gather" >> beam.GroupByKey()
            | "Sort"
            >> beam.Map(_sorted, slice_micros).with_output_types(tuple[int, tuple[int, bytes]])
            | "Whole stream" >> beam.WindowInto(GlobalWindows())
            | "Carry" >> beam.ParDo(_Carry(self._step)).with_output_types(tuple[Any, ...])
        )


def _sorted(
    group: tuple[int, Iterable[tuple[Any, ...]]], slice_micros: int
) -> tuple[int, tuple[int, bytes]]:
    """Make one packet of a slice: bytes cross the exchange and the state as they are."""
    partition, events = group
    ordered = sorted(events)
    # The end itself, not the last microsecond before it: timers travel in whole milliseconds, and
    # one that fired before its slice's end would be set again for ever.
    end = ordered[-1][0] // slice_micros * slice_micros + slice_micros
    return partition, (end, pickle.dumps(ordered, pickle.HIGHEST_PROTOCOL))


class _Carry(beam.DoFn):  # type: ignore[misc]
    """Keeps slices until the watermark has passed them, then takes them in order."""

    SLICES = BagStateSpec("slices", TupleCoder((VarIntCoder(), BytesCoder())))
    MEMORY = ReadModifyWriteStateSpec("memory", BytesCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)
    # Beam finds a method's cells by the defaults of its arguments.
    _SLICES = beam.DoFn.StateParam(SLICES)
    _MEMORY = beam.DoFn.StateParam(MEMORY)
    _DUE = beam.DoFn.TimerParam(DUE)

    def __init__(self, step: Step) -> None:
        self._step = step

    def process(
        self,
        element: tuple[int, tuple[int, bytes]],
        slices: Any = _SLICES,
        due: Any = _DUE,
    ) -> None:
        """Keep a slice."""
        _, packet = element
        slices.add(packet)
        # A later call may move the timer; when it fires, all slices up to then are taken, and it
        # is set again for the rest, so none is forgotten and none is taken early.
        due.set(Timestamp(micros=packet[0]))

    @on_timer(DUE)  # type: ignore[untyped-decorator]
    def take(
        self,
        at: Any = beam.DoFn.TimestampParam,
        slices: Any = _SLICES,
        memory: Any = _MEMORY,
        due: Any = _DUE,
    ) -> Iterator[Any]:
        """Take the slices that end by now."""
        waiting = sorted(slices.read())
        ripe = [packet for packet in waiting if packet[0] <= at.micros]
        slices.clear()
        for packet in waiting[len(ripe) :]:
            slices.add(packet)
        if len(ripe) < len(waiting):
            due.set(Timestamp(micros=waiting[len(ripe)][0]))
        kept = memory.read()
        known: dict[Any, Any] = pickle.loads(kept) if kept else {}
        for _, packed in ripe:
            yield from self._step(known, pickle.loads(packed))
        memory.write(pickle.dumps(known, pickle.HIGHEST_PROTOCOL))
