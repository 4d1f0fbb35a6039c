"""NEXMark 11, user sessions: how many bids does a person make in each session of activity?

Takes persons, auctions and bids. Gives (bidder, count, start, end): the bids of one bidder with
less than `window_size_sec` between each and the next; the end is that long after the last bid.

A session of more than `max_log_events` bids is given in several rows; `whole_sessions` adds them
up before they are compared. Beam's Java pipeline gives the rest of a session when its window is
dropped, `occasional_delay_sec / 2` seconds (whole ones) after its end. Beam's Python runner would
drop the rest with the window, so here it is given at the end of the session, and bids that come
later but within that time make further rows. The sums are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import Sessions

from headrace.lab.workload import Row
from headrace.lab.workloads.nexmark.common import is_bid, question, to_ms
from headrace.lab.workloads.nexmark.model import Bid


def one_for_its_bidder(bid: Bid) -> tuple[int, int]:
    """Count a bid."""
    return bid.bidder, 1


def row(
    counted: tuple[int, int], window: Any = beam.DoFn.WindowParam
) -> tuple[int, int, int, int]:
    """Add the bounds of the session."""
    return *counted, to_ms(window.start), to_ms(window.end)


class UserSessions(beam.PTransform):  # type: ignore[misc]
    """Events to (bidder, count, start, end)."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._gap_sec = settings.window_size_sec
        self._pane = settings.max_log_events
        self._lateness_sec = settings.occasional_delay_sec // 2

    def expand(self, events: Any) -> Any:
        """Count bids per bidder and session."""
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Bidder" >> beam.Map(one_for_its_bidder).with_output_types(tuple[int, int])
            | "Sessions"
            >> beam.WindowInto(
                Sessions(self._gap_sec),
                trigger=AfterWatermark(early=AfterCount(self._pane), late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=self._lateness_sec,
            )
            | "Count" >> beam.CombinePerKey(sum)
            | "Row" >> beam.Map(row).with_output_types(tuple[int, int, int, int])
        )


def whole_sessions(rows: Iterable[Row]) -> Counter[Row]:
    """Add up the rows of each session: those of one bidder whose spans overlap.

    A row given before its session was complete has a shorter span. Two sessions never overlap.

    >>> sorted(whole_sessions([(1, 2, 0, 15), (1, 3, 0, 30), (1, 1, 30, 40), (2, 1, 0, 10)]))
    [(1, 1, 30, 40), (1, 5, 0, 30), (2, 1, 0, 10)]
    """
    sessions: list[tuple[Any, ...]] = []
    for bidder, count, start, end in sorted(rows, key=lambda row: (row[0], row[2], row[3])):
        if sessions and sessions[-1][0] == bidder and start < sessions[-1][3]:
            _, before, first, last = sessions.pop()
            sessions.append((bidder, before + count, first, max(last, end)))
        else:
            sessions.append((bidder, count, start, end))
    return Counter(sessions)


def build(settings: Any) -> UserSessions:
    """Make the pipeline from events to rows."""
    return UserSessions(settings)


WORKLOAD = question(
    "q11",
    "User sessions: how many bids does a person make in each session of activity?",
    ("bidder", "count", "start", "end"),
    build,
    only_bids=True,
    rule=whole_sessions,
)
