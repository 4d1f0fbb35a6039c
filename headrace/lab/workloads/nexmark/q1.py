"""NEXMark 1, currency conversion: what is each bid worth in euros?

Takes persons, auctions and bids. Gives (auction, bidder, price, date_time, extra): every bid, its
price times 0.89, cut to whole cents.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workloads.nexmark.common import BID_COLUMNS, is_bid, question
from headrace.lab.workloads.nexmark.model import Bid

Row = tuple[int, int, int, int, str]


def in_euros(bid: Bid) -> Row:
    """Convert a bid's price.

    >>> in_euros(Bid(1000, 1001, 199, 7, "x"))
    (1000, 1001, 177, 7, 'x')
    """
    auction, bidder, price, date_time, extra = bid
    return auction, bidder, price * 89 // 100, date_time, extra


class Convert(beam.PTransform):  # type: ignore[misc]
    """Events to converted bids."""

    def expand(self, events: Any) -> Any:
        """Keep bids, convert each."""
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Convert" >> beam.Map(in_euros).with_output_types(Row)
        )


def build(settings: Any) -> Convert:
    """Make the pipeline from events to rows."""
    del settings
    return Convert()


WORKLOAD = question(
    "q1",
    "Currency conversion: what is each bid worth in euros?",
    BID_COLUMNS,
    build,
    stateless=True,
    only_bids=True,
)
