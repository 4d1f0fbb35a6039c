"""Decides how far event time has come at a source.

Pure: takes the highest event time of each of the source's partitions, epoch by epoch, and gives a
watermark. Times are microseconds since 1970 and are handed in; nothing here reads a clock. Frozen,
so driver and workers may share one: all of them come to the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

#: Beam's least and greatest time. Written out, because this room knows no Beam.
MIN_TIME = -9_223_372_036_854_775_000
MAX_TIME = 9_223_372_036_854_775_000
#: The greatest watermark of a source that has not ended: at `MAX_TIME` a pipeline is over. Beam
#: writes times down in milliseconds, so it is one of these less.
LAST_OPEN_TIME = MAX_TIME - 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One of the partitions that a source has of its own, such as Kafka's."""

    name: str
    highest: int  # the greatest event time it brought
    heard: int  # when it last brought anything; processing time


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClock:
    """The event time of one source.

    The watermark of an epoch is `clock.seen(highest, now).watermark(now)`, and the clock that
    `seen` gave is kept for the next one. An epoch that looked and found nothing is `seen({}, now)`.
    From one such clock to the next the watermark never goes back, as long as `now` does not.

    >>> clock = SourceClock(delay=2, idle_after=10).seen({"a": 100, "b": 50}, now=0)
    >>> clock.watermark(now=0), clock.watermark(now=10)
    (48, 98)
    >>> clock = clock.seen({"a": 130}, now=9)
    >>> clock.watermark(now=9), clock.next_idle(now=9), clock.watermark(now=10)
    (48, 10, 128)
    """

    delay: int = 0  # how far the rows of one partition may be out of order
    idle_after: int | None = None  # silence after which a partition holds nothing back; None: never
    max_ahead: int | None = None  # rows further ahead of processing time count for nothing
    by_arrival: bool = False  # rows have the time at which they are read; the rest is not used
    partitions: tuple[Partition, ...] = ()  # ordered by name
    floor: int = MIN_TIME  # the watermark after the last epoch
    ended: bool = False

    def seen(self, highest: Mapping[str, int], now: int) -> SourceClock:
        """Take what one epoch brought: the greatest event time in each of the partitions."""
        ceiling = self.ceiling(now)
        known = {partition.name: partition for partition in self.partitions}
        for name, time in highest.items():
            if ceiling is not None and time > ceiling:
                continue
            before = known.get(name)
            known[name] = Partition(
                name=name,
                highest=time if before is None else max(before.highest, time),
                heard=now if before is None else max(before.heard, now),
            )
        ordered = tuple(known[name] for name in sorted(known))
        after = replace(self, partitions=() if self.by_arrival else ordered)
        return replace(after, floor=after.watermark(now))

    def expecting(self, names: Iterable[str], now: int) -> SourceClock:
        """Know of partitions that may not have brought anything yet.

        Such a one holds the watermark back like one that has fallen silent: until it speaks, or
        has been silent for `idle_after`.

        >>> clock = SourceClock(idle_after=10).expecting(["a", "b"], now=0).seen({"a": 7}, now=4)
        >>> clock.watermark(now=9) == MIN_TIME, clock.watermark(now=10)
        (True, 7)
        """
        known = {partition.name for partition in self.partitions}
        new = [Partition(name=n, highest=MIN_TIME, heard=now) for n in names if n not in known]
        if not new or self.by_arrival:
            return self
        ordered = sorted((*self.partitions, *new), key=lambda partition: partition.name)
        return replace(self, partitions=tuple(ordered))

    def watermark(self, now: int) -> int:
        """Give the time before which no more rows are awaited; `MIN_TIME` before any row came.

        A row whose time *is* the watermark is still on time, as with Beam's own estimators.
        """
        if self.ended:
            return MAX_TIME
        if self.by_arrival:
            found = now
        elif not self.partitions:
            found = MIN_TIME
        else:
            active = [partition.highest for partition in self._active(now)]
            # Where all are idle none of them holds back the one that has come furthest.
            bound = min(active) if active else max(p.highest for p in self.partitions)
            found = bound - self.delay
        return max(self.floor, min(found, LAST_OPEN_TIME))

    def finished(self) -> SourceClock:
        """The source has ended: no row will come any more."""
        return replace(self, ended=True)

    def resumed(self, now: int) -> SourceClock:
        """The pipeline stood still until now: silence that nobody listened to is none."""
        return replace(
            self, partitions=tuple(replace(p, heard=max(p.heard, now)) for p in self.partitions)
        )

    def ceiling(self, now: int) -> int | None:
        """Give the greatest event time that may move the watermark; None: any may."""
        return None if self.max_ahead is None else now + self.max_ahead

    def next_idle(self, now: int) -> int | None:
        """Give the moment at which the next partition will count as idle; None if none will."""
        if self.idle_after is None or self.ended:
            return None
        return min((p.heard + self.idle_after for p in self._active(now)), default=None)

    def has_moved(self, now: int) -> bool:
        """Whether silence alone has moved the watermark since the last epoch.

        A partition may fall idle while an epoch runs, or between two looks: then nothing is awaited
        at a later moment, and what the watermark closes would stay open until somebody speaks.

        >>> clock = SourceClock(idle_after=10).seen({"a": 100, "b": 50}, now=0)
        >>> clock.has_moved(now=9), clock.has_moved(now=10), clock.seen({}, now=10).has_moved(11)
        (False, True, False)
        """
        return not self.by_arrival and not self.ended and self.watermark(now) > self.floor

    def to_json(self) -> dict[str, Any]:
        """Give what must be kept between epochs. The policy is not part of it: see `restored`."""
        return {
            "partitions": {p.name: [p.highest, p.heard] for p in self.partitions},
            "floor": self.floor,
            "ended": self.ended,
        }

    def restored(self, saved: Mapping[str, Any]) -> SourceClock:
        """Go on from what `to_json` gave, with the policy of this clock.

        So a pipeline may be started again with another delay.
        """
        partitions = saved["partitions"]
        return replace(
            self,
            partitions=tuple(
                Partition(name=name, highest=partitions[name][0], heard=partitions[name][1])
                for name in sorted(partitions)
            ),
            floor=saved["floor"],
            ended=saved["ended"],
        )

    def _active(self, now: int) -> Iterator[Partition]:
        if self.idle_after is None:
            return iter(self.partitions)
        since = now - self.idle_after
        return (partition for partition in self.partitions if partition.heard > since)
