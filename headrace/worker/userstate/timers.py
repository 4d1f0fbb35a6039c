"""Collects the timers a stage sets and gives them back in firing order.

Takes Beam's timer objects as user code sets and clears them; gives the next one due. A timer is
known by (transform, family, key, tag, window): setting it again moves it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

from apache_beam.portability.api import beam_runner_api_pb2

_EVENT_TIME = beam_runner_api_pb2.TimeDomain.EVENT_TIME


class DueTimer(NamedTuple):
    """A timer whose moment has come."""

    transform_id: str
    family: str
    timer: Any


class TimerQueue:
    """All timers of one stage on one shard.

    At the end of a bounded input the watermark jumps to the end of time, and so does processing
    time: event-time timers fire in the order of their timestamps, then processing-time timers.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, tuple[Any, ...]]] = []
        self._live: dict[tuple[Any, ...], tuple[int, Any]] = {}
        self._count = 0

    def sink(self, transform_id: str, family: str, domain: int, key_impl: Any) -> TimerSink:
        """Give the object through which user code sets timers of one family."""
        rank = 0 if domain == _EVENT_TIME else 1

        def put(timer: Any) -> None:
            name = (
                transform_id, family, key_impl.encode(timer.user_key), timer.dynamic_timer_tag,
                timer.windows[0],
            )
            self._count += 1
            if timer.clear_bit:
                self._live.pop(name, None)
                return
            self._live[name] = (self._count, timer)
            heapq.heappush(self._heap, (rank, timer.fire_timestamp.micros, self._count, name))

        return TimerSink(put)

    def pop(self) -> DueTimer | None:
        """Give the next timer to fire, or None."""
        while self._heap:
            _, _, count, name = heapq.heappop(self._heap)
            live = self._live.get(name)
            if live is not None and live[0] == count:  # else cleared or moved since
                del self._live[name]
                return DueTimer(name[0], name[1], live[1])
        return None


class TimerSink:
    """Stands where Beam expects a timer coder and a data stream; nothing is encoded."""

    def __init__(self, put: Callable[[Any], None]) -> None:
        self._put = put

    def encode_to_stream(self, timer: Any, stream: Any, nested: bool) -> None:  # noqa: ARG002
        """Take the timer as the object it is."""
        self._put(timer)

    def maybe_flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""
