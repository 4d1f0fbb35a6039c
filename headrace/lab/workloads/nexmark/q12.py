"""NEXMark 12, processing-time windows: how many bids does a person make in ten seconds of our time?

Takes persons, auctions and bids. Gives (bidder, count): a bidder's first bid opens a window, and
`window_size_sec` of processing time later its bids are counted; the next bid opens the next window.
At the end of the input the rest is given.

Which rows there are depends on the run. What they add up to per bidder does not: that is compared.
A bounded input is there as a whole before any time goes by, so each bidder has one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import GlobalWindows

from headrace.lab.workload import Row
from headrace.lab.workloads.nexmark.common import is_bid, question
from headrace.lab.workloads.nexmark.model import Bid


def one_for_its_bidder(bid: Bid) -> tuple[int, int]:
    """Count a bid."""
    return bid.bidder, 1


class CountByOurTime(beam.PTransform):  # type: ignore[misc]
    """Events to (bidder, count)."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, events: Any) -> Any:
        """Count bids per bidder, again and again."""
        bids = (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Bidder" >> beam.Map(one_for_its_bidder).with_output_types(tuple[int, int])
        )
        if not events.is_bounded:
            # Not for bounded input: Beam's local runner has no clock there.
            bids = bids | "OurTime" >> beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterProcessingTime(self._size_sec)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
        return bids | "Count" >> beam.CombinePerKey(sum)


def sums(rows: Iterable[Row]) -> Counter[Row]:
    """Add up the counts of each bidder; one who made no bid does not count.

    >>> sorted(sums([(1, 2), (2, 1), (1, 3), (3, 0)]))
    [(1, 5), (2, 1)]
    """
    totals: Counter[Any] = Counter()
    for bidder, count in rows:
        totals[bidder] += count
    return Counter((bidder, count) for bidder, count in totals.items() if count)


def build(settings: Any) -> CountByOurTime:
    """Make the pipeline from events to rows."""
    return CountByOurTime(settings.window_size_sec)


COLUMNS = ("bidder", "count")
WORKLOAD = question(
    "q12",
    "Processing-time windows: how many bids does a person make in ten seconds of our time?",
    COLUMNS,
    build,
    only_bids=True,
    rule=sums,
)
