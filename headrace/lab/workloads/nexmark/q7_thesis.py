"""NEXMark 7 as the thesis has it: one highest bid of the last ten seconds.

Takes persons, auctions and bids. Gives (window_start, auction, price, bidder): per fixed window of
`window_size_sec` one bid with the highest price. Among equal prices the thesis keeps the first it
meets; here it is the earliest (then the lowest auction, then the lowest bidder), whatever the
order in which bids come.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.lab.workloads.nexmark.common import is_bid, question, to_ms
from headrace.lab.workloads.nexmark.model import Bid

Rank = tuple[int, int, int, int]  # price, then what makes a bid the earlier one: all negative


def rank(bid: Bid) -> Rank:
    """Order bids: the greatest is the one to keep."""
    return bid.price, -bid.date_time, -bid.auction, -bid.bidder


def row(best: Rank, window: Any = beam.DoFn.WindowParam) -> tuple[int, int, int, int]:
    """Make a row of the best bid of a window."""
    price, _, auction, bidder = best
    return to_ms(window.start), -auction, price, -bidder


class OneHighestBid(beam.PTransform):  # type: ignore[misc]
    """Events to (window_start, auction, price, bidder)."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, events: Any) -> Any:
        """Keep the best bid of each window."""
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Rank" >> beam.Map(rank).with_output_types(Rank)
            | "Window" >> beam.WindowInto(FixedWindows(self._size_sec))
            | "Best" >> beam.CombineGlobally(max).without_defaults()
            | "Row" >> beam.Map(row).with_output_types(tuple[int, int, int, int])
        )


def build(settings: Any) -> OneHighestBid:
    """Make the pipeline from events to rows."""
    return OneHighestBid(settings.window_size_sec)


THESIS = question(
    "q7-thesis",
    "Highest bid: one bid with the highest price, lately.",
    ("window_start", "auction", "price", "bidder"),
    build,
)
