"""NEXMark 2, selection: which bids are there on some chosen auctions?

Takes persons, auctions and bids. Gives (auction, price): of every bid whose auction's number is a
multiple of `auction_skip`; equal ones as often as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Bid, Record


def chosen(skip: int) -> Callable[[Record], bool]:
    """Give the test for bids on chosen auctions.

    >>> [chosen(10)(Bid(n, 1, 1, 1, "")) for n in (1000, 1001)]
    [True, False]
    """

    def is_chosen(event: Record) -> bool:
        return type(event) is Bid and event.auction % skip == 0

    return is_chosen


def auction_and_price(bid: Bid) -> tuple[int, int]:
    """Cut a bid to two fields."""
    return bid.auction, bid.price


class Select(beam.PTransform):  # type: ignore[misc]
    """Events to (auction, price) of the chosen bids."""

    def __init__(self, skip: int) -> None:
        super().__init__()
        self._skip = skip

    def expand(self, events: Any) -> Any:
        """Keep the chosen bids, cut each."""
        return (
            events
            | "Chosen" >> beam.Filter(chosen(self._skip))
            | "Cut" >> beam.Map(auction_and_price).with_output_types(tuple[int, int])
        )


def build(settings: Any) -> Select:
    """Make the pipeline from events to rows."""
    return Select(settings.auction_skip)


WORKLOAD = question(
    "q2",
    "Selection: which bids are there on some chosen auctions?",
    ("auction", "price"),
    build,
    stateless=True,
    only_bids=True,
)
