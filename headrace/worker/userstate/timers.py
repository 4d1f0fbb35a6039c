"""Collects the timers a stage sets and gives them back in firing order.

Takes Beam's timer objects as user code sets and clears them; gives the next one due. A timer is
known by (transform, family, key, tag, window): setting it again moves it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from typing import NamedTuple

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from headrace.worker.beam_types import OutStream, Timer, TimerCoder, Window

#: The name of a timer: its transform and family, its encoded key, its tag, its window.
_Name = tuple[str, str, bytes, str, Window]
#: A timer that was set: its time, its number, its name.
_Entry = tuple[int, int, _Name]

_EVENT_TIME = beam_runner_api_pb2.TimeDomain.EVENT_TIME


class DueTimer(NamedTuple):
    """A timer whose moment has come."""

    transform_id: str
    family: str
    timer: Timer
    by_event_time: bool = True


class MemoryTimers:
    """All timers of one stage on one shard, in memory.

    At the end of a bounded input the watermark jumps to the end of time, and so does processing
    time: event-time timers fire in the order of their timestamps, then processing-time timers.
    """

    def __init__(self) -> None:
        self.families = 0
        self._event: list[_Entry] = []
        self._clock: list[_Entry] = []
        self._live: dict[_Name, tuple[int, Timer]] = {}
        self._count = 0

    def sink(
        self, transform_id: str, family: str, domain: int, timer_coder: TimerCoder
    ) -> TimerSink:
        """Give the object through which user code sets timers of one family."""
        self.families += 1
        heap = self._event if domain == _EVENT_TIME else self._clock
        encode_key = timer_coder._get_component_coders()[0].get_impl().encode  # noqa: SLF001

        def put(timer: Timer) -> None:
            name = (
                transform_id, family, encode_key(timer.user_key), timer.dynamic_timer_tag,
                timer.windows[0],
            )
            self._count += 1
            if timer.clear_bit:
                self._live.pop(name, None)
                return
            self._live[name] = (self._count, timer)
            heapq.heappush(heap, (timer.fire_timestamp.micros, self._count, name))

        return TimerSink(put)

    def pop(self, watermark: int, now: int) -> DueTimer | None:
        """Give the next timer to fire: event time first, by time, then in the order of setting."""
        for heap, bound in ((self._event, watermark), (self._clock, now)):
            while heap and heap[0][0] <= bound:
                _, count, name = heapq.heappop(heap)
                live = self._live.get(name)
                if live is not None and live[0] == count:  # else cleared or moved since
                    del self._live[name]
                    return DueTimer(name[0], name[1], live[1], heap is self._event)
        return None

    def next_due(self, watermark: int) -> int | None:
        """Give the firing time of the first event-time timer that is due; None: none is."""
        heap = self._event
        while heap and heap[0][0] <= watermark:
            fire, count, name = heap[0]
            live = self._live.get(name)
            if live is not None and live[0] == count:
                return fire
            heapq.heappop(heap)
        return None

    def hold(self) -> int:
        """Give the moment at which set timers hold the output watermark."""
        holds: list[int] = [timer.hold_timestamp.micros for _, timer in self._live.values()]
        return min(holds, default=int(MAX_TIMESTAMP.micros))

    def next_wakeup(self) -> int | None:
        """Give the time of the first processing-time timer; None if none is set."""
        times = [at for at, count, name in self._clock if self._live.get(name, (0,))[0] == count]
        return min(times, default=None)

    def drop(self, owners: Collection[bytes]) -> int:  # noqa: ARG002 (none expires)
        """Nothing expires before the end of time."""
        return 0


class TimerSink:
    """Stands where Beam expects a timer coder and a data stream; nothing is encoded."""

    def __init__(self, put: Callable[[Timer], None]) -> None:
        self._put = put

    def encode_to_stream(self, timer: Timer, stream: OutStream | None, nested: bool) -> None:  # noqa: ARG002
        """Take the timer as the object it is."""
        self._put(timer)

    def maybe_flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""
