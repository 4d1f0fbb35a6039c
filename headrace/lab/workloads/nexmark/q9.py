"""NEXMark 9, winning bids: who wins each auction?

Takes persons, auctions and bids. Gives (auction, bidder, price, bid_time, expires): for each
auction that has a valid bid the best one, when the auction is over. See `winning_bids`.

The thesis' variant gives (auction, price) only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.winning_bids import WinningBids


def row(winner: tuple[int, ...]) -> tuple[int, ...]:
    """Make a row of a winner, see `Winner`."""
    auction, _, _, expires, bidder, price, bid_time = winner
    return auction, bidder, price, bid_time, expires


def auction_and_price(winner: tuple[int, ...]) -> tuple[int, ...]:
    """Make a row of the thesis' variant."""
    return winner[0], winner[5]


class Winners(beam.PTransform):  # type: ignore[misc]
    """Events to one row per auction that has a winner."""

    def __init__(self, settings: Any, to_row: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
        super().__init__()
        self._settings = settings
        self._to_row = to_row

    def expand(self, events: Any) -> Any:
        """Find winners."""
        return events | WinningBids(self._settings) | "Row" >> beam.Map(self._to_row)


def build(settings: Any) -> Winners:
    """Make the pipeline from events to rows."""
    return Winners(settings, row)


def build_thesis(settings: Any) -> Winners:
    """Make the pipeline of the thesis."""
    return Winners(settings, auction_and_price)


COLUMNS = ("auction", "bidder", "price", "bid_time", "expires")
WORKLOAD = question("q9", "Winning bids: who wins each auction?", COLUMNS, build)
THESIS = question(
    "q9-thesis",
    "Winning bids: what does each auction end at?",
    ("auction", "price"),
    build_thesis,
)
