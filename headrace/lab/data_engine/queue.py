"""Decides what a partition's queue holds, gives and forgets, and when its run is void.

Takes times and requests, gives batches; the clock and the socket are the caller's. Events are made
a little ahead of time and can be taken when they are due. What was taken is held until it is
acknowledged: a reader that failed takes it again. A reader that does not keep up is cut off: what
it has neither taken nor been offered is not sent any more, so that it need not be waited for.

A schedule may hold: its clock stands still until a reader has taken what was due before. So a load
begins when a system is up, however long that took, and its times count from there.

An open queue has no end of its own: at the end of its schedule it waits to be told more, so that
one run of a system is put under one load after the other. Cut off, it forgets the rest of its
schedule alone, and the clock of a further load starts anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.lab.data_engine.pressure import Limits, Pressure
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.data_engine.shares import Share

#: Makes the events from a number on: (first number, count) -> rows.
Make = Callable[[int, int], pa.RecordBatch]
#: An engine further behind its own schedule than this voids the run: latencies would be its own.
LATE_SECONDS = 0.5
#: How a run that is void for that begins to say so.
LATE = "the data engine was"
#: Seconds between two entries in the record of the queue.
SAMPLE_SECONDS = 0.05
#: Events of a queue that is open: nobody knows how many there will be.
UNKNOWN = 2**62


class QueueError(HeadraceError):
    """A reader asked for what the queue cannot give."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """How a queue stood at one moment."""

    seconds: float  # after the start
    made: int
    pulled: int
    acknowledged: int


class PartitionQueue:
    """The queue of one partition.

    Args:
        share: which partition it is.
        schedule: when its events are due.
        make: makes them.
        limits: of the queue's length, once it does not hold; None: as long as it likes.
        hold: seconds after the start at which it holds; None: it does not.
        is_open: wait for more at the end of the schedule; for one partition alone.
    """

    def __init__(
        self, share: Share, schedule: Schedule, make: Make, limits: Limits | None = None,
        hold: float | None = None, *, is_open: bool = False,
    ) -> None:
        if is_open and share.partitions > 1:
            msg = f"{share.partitions} partitions cannot be told more: each would hear it apart"
            raise QueueError(msg)
        self.share = share
        self.schedule = schedule
        self._make = make
        self._limits = limits
        self._pressure = None if limits is None else Pressure(limits)
        self._hold = hold
        self._held: deque[tuple[int, pa.RecordBatch]] = deque()  # by first offset
        self._ready = 0  # events that exist, due or not
        self._looked = 0
        self._readers: dict[str, int] = {}  # what each has acknowledged
        self._sampled = -1.0
        self._planned = share.offset_at(schedule.events)  # by the schedule, as far as it is known
        self.total = UNKNOWN if is_open else self._planned  # fewer if it stops early
        self.made = 0  # events that can be taken
        self.pulled = 0
        self.offered = 0  # events that a reader has planned with
        self.acknowledged = 0
        self.replayed = 0  # events that were taken more than once
        self.started: float | None = None  # later by as long as it held
        self.latest_seconds = 0.0  # the most it was behind its schedule
        self.void = ""
        self.unsustained = ""
        self.samples: list[QueueSample] = []

    @property
    def length(self) -> int:
        """How many events wait to be taken."""
        return self.made - self.pulled

    @property
    def ended(self) -> bool:
        """Whether no further event will come."""
        return self.made >= self.total

    @property
    def waits(self) -> bool:
        """Whether an open queue has nothing left to give, and waits to be told more."""
        over = self.started is not None and self.made >= self._planned
        return over and not self.ended and self.length == 0

    def go_on(
        self, now: float, phases: tuple[Phase, ...], make: Make, limits: Limits | None
    ) -> None:
        """Put an open queue under a further load, which begins now.

        Args:
            now: the time.
            phases: of the load; they follow those of the schedule.
            make: makes its events.
            limits: of the queue's length, during this load.

        Raises:
            QueueError: the queue is not open, or has not given what it has.
        """
        if not self.waits:
            msg = f"a queue that has {self.length:,} events to give, or an end, is not told more"
            raise QueueError(msg)
        before = self.schedule.seconds
        self.schedule = Schedule((*self.schedule.phases, *phases))
        self._planned = self.share.offset_at(self.schedule.events)
        self._make, self._limits = make, limits
        self._pressure = None if limits is None else Pressure(limits)
        self.started = now - before
        self._looked, self._sampled = self.made, -1.0
        self.void = self.unsustained = ""
        self.advance(now)

    def start(self, now: float) -> None:
        """Begin to make events; a second start changes nothing."""
        if self.started is None:
            self.prepare()
            self.started = now
            self.advance(now)

    def prepare(self) -> None:
        """Make events ahead, a block at most."""
        if self._ready - self.made < self.share.block:
            self._make_more()

    def _make_more(self) -> None:
        end = min(self.total, self._planned)
        if self._ready < end:
            count = min(self.share.left_in_block(self._ready), end - self._ready)
            self._held.append((self._ready, self._make(self.share.number(self._ready), count)))
            self._ready += count

    def advance(self, now: float) -> None:
        """Let the events be taken that are due by now, and look at the queue."""
        if self.started is None:
            return
        seconds = self._held_at(now)
        due = min(self.total, self.share.offset_at(self.schedule.made_by(seconds)))
        if due > self.made:
            self._note_delay(seconds)
        while self._ready < due:
            self._make_more()
        if self._hold is None:
            self._look(due, seconds)
            self._look_at_oldest(seconds)
        else:
            self._looked = self.made = max(self.made, due)
        if seconds - self._sampled >= SAMPLE_SECONDS:
            self._sampled = seconds
            self.samples.append(QueueSample(seconds, self.made, self.pulled, self.acknowledged))

    def _held_at(self, now: float) -> float:
        """Give the time of the schedule, which stands still while it holds."""
        assert self.started is not None
        seconds = now - self.started
        if self._hold is None or seconds < self._hold:
            return seconds
        hold, share = self._hold, self.share
        # Partitions that are read up to one number leave a part of a block.
        rest = share.block if share.partitions > 1 else 0
        if self.pulled + rest >= share.offset_at(self.schedule.made_by(hold) - 1):
            self.started, self._hold = now - hold, None
        return hold

    def _note_delay(self, seconds: float) -> None:
        """Note how long the next event has been due already."""
        late = seconds - self.schedule.due(self.share.number(self.made))
        self.latest_seconds = max(self.latest_seconds, late)
        if late > LATE_SECONDS and not self.void:
            self.void = (
                f"{LATE} {late:.2f} s behind its own schedule: partition "
                f"{self.share.partition} could not make its events in time"
            )

    def _look(self, due: int, seconds: float) -> None:
        """Let events through, and look at the queue once per so many of them."""
        while self._limits is not None and self._pressure is not None:
            at = self._looked + self._limits.acceptable
            if at > due:
                break
            self._looked = self.made = at
            reason = self._pressure.look(self.length)
            if reason:
                self._cut_off(reason, seconds)
                return
        self.made = max(self.made, min(due, self.total))

    def _look_at_oldest(self, seconds: float) -> None:
        """Cut a reader off whose next event has waited for too long."""
        oldest = None if self._limits is None else self._limits.oldest_seconds
        if oldest is None or not self.length:
            return
        waited = seconds - self.schedule.due(self.share.number(self.pulled))
        if waited > oldest:
            self._cut_off(f"an event has waited {waited:.1f} s, more than {oldest:g} s", seconds)

    def _cut_off(self, reason: str, seconds: float) -> None:
        """End the run of a reader that does not keep up."""
        self.unsustained = reason
        # The queue at its longest, before what nobody has seen is dropped.
        self.samples.append(QueueSample(seconds, self.made, self.pulled, self.acknowledged))
        self.made = max(self.pulled, self.offered)
        if self.total < UNKNOWN:
            self.stop()
        else:
            self._forget_the_rest()

    def _forget_the_rest(self) -> None:
        """Let the schedule of an open queue end with the events that are made."""
        self.schedule = self.schedule.cut(self.made)
        self._planned, self._ready, self._limits = self.made, self.made, None
        while self._held and self._held[-1][0] >= self.made:
            self._held.pop()
        if self._held:
            first, batch = self._held[-1]
            self._held[-1] = first, batch.slice(0, self.made - first)

    def stop(self) -> None:
        """Make no further events: what can be taken now is all there will be."""
        self.total = min(self.total, self.made)
        self._limits = None

    def offer(self, reader: str = "") -> int:
        """Give how far events can be taken, to a reader that plans with it.

        A query may read a stream twice, by readers that do not plan at the same moment: what one of
        them has done with is held until each has.
        """
        self._readers.setdefault(reader, 0)
        self.offered = self.made
        return self.made

    def pull(self, start: int, most: int) -> list[pa.RecordBatch]:
        """Give the events from an offset on, at most so many, as far as they are due.

        Raises:
            QueueError: they were acknowledged, so they are gone, or nobody has offered them.
        """
        if start < self.acknowledged:
            msg = f"offset {start:,} was acknowledged and is gone; {self.acknowledged:,} is held"
            raise QueueError(msg)
        if start > self.made:
            msg = f"offset {start:,} is ahead of the {self.made:,} events that were made"
            raise QueueError(msg)
        end = min(self.made, start + most)
        found = []
        for first, batch in self._held:
            low, high = max(start, first), min(end, first + batch.num_rows)
            if low < high:
                found.append(batch.slice(low - first, high - low))
            elif first >= end:
                break
        self.replayed += max(0, min(self.pulled, end) - start)
        self.pulled = max(self.pulled, end)
        return found

    def acknowledge(self, until: int, reader: str = "") -> None:
        """Forget the events below an offset, once all readers have acknowledged them.

        Raises:
            QueueError: nobody has taken them yet.
        """
        if until > self.pulled:
            msg = f"offset {until:,} is acknowledged, but only {self.pulled:,} events were taken"
            raise QueueError(msg)
        self._readers[reader] = max(self._readers.get(reader, 0), until)
        self.acknowledged = max(self.acknowledged, min(self._readers.values()))
        while self._held and self._held[0][0] + self._held[0][1].num_rows <= self.acknowledged:
            self._held.popleft()
