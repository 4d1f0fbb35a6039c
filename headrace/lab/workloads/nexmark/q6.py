"""NEXMark 6, average selling price by seller: what do a seller's latest auctions end at?

Takes persons, auctions and bids. Gives (seller, price, wins): the mean, rounded half up, of the
seller's ten latest winning bids (by the time of the bid, then its price), and how many the seller
has had so far.

A row comes after every change and repeats the whole: how many rows there are depends on bundles,
only the row with the most wins is determined. That one is compared (`last_of_each`); it is what
the column `wins`, which Beam's answer lacks, is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Any

import apache_beam as beam
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows

from headrace.lab.workload import Row
from headrace.lab.workloads.nexmark.common import half_up, question
from headrace.lab.workloads.nexmark.winning_bids import WinningBids

LATEST = 10
Sale = tuple[int, int]  # time of the bid, price
Latest = tuple[int, tuple[Sale, ...]]  # wins so far, the latest of them


class MeanOfLatest(beam.CombineFn):  # type: ignore[misc]
    """The mean price of the latest sales, and how many sales there were."""

    def create_accumulator(self) -> Latest:
        """Begin with nothing."""
        return 0, ()

    def add_input(self, accumulator: Latest, sale: Sale) -> Latest:
        """Take a sale; the oldest goes if there are too many."""
        return accumulator[0] + 1, _latest((*accumulator[1], sale))

    def merge_accumulators(self, accumulators: Iterable[Latest]) -> Latest:
        """Keep the latest of all."""
        known = list(accumulators)
        return sum(wins for wins, _ in known), _latest([s for _, sales in known for s in sales])

    def extract_output(self, accumulator: Latest) -> tuple[int, int]:
        """Give the mean price and the number of sales."""
        wins, sales = accumulator
        return (half_up(sum(price for _, price in sales), len(sales)), wins) if sales else (0, 0)


def _latest(sales: Iterable[Sale]) -> tuple[Sale, ...]:
    return tuple(nlargest(LATEST, sales))


def seller_and_sale(winner: tuple[int, ...]) -> tuple[int, Sale]:
    """Cut a winner, see `Winner`."""
    return winner[2], (winner[6], winner[5])


def row(mean: tuple[int, tuple[int, int]]) -> tuple[int, int, int]:
    """Make a row of a seller's mean."""
    return mean[0], *mean[1]


class SellingPrices(beam.PTransform):  # type: ignore[misc]
    """Events to (seller, price, wins)."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Find winners, and keep a running mean per seller."""
        return (
            events
            | WinningBids(self._settings)
            | "Cut" >> beam.Map(seller_and_sale).with_output_types(tuple[int, tuple[int, int]])
            | "AtOnce"
            >> beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
            )
            | "Mean" >> beam.CombinePerKey(MeanOfLatest())
            | "Row" >> beam.Map(row).with_output_types(tuple[int, int, int])
        )


def last_of_each(rows: Iterable[Row]) -> Counter[Row]:
    """Keep the row with the most wins of each seller.

    Two rows of a seller with as many wins and different prices are both kept: one must be wrong.

    >>> sorted(last_of_each([(1, 50, 1), (1, 70, 2), (1, 70, 2), (2, 9, 1)]))
    [(1, 70, 2), (2, 9, 1)]
    """
    last: dict[Any, set[Row]] = {}
    for seller, price, wins in rows:
        found = last.setdefault(seller, set())
        most = max((known[2] for known in found), default=wins)
        if wins > most:
            found.clear()
        if wins >= most:
            found.add((seller, price, wins))
    return Counter(one for found in last.values() for one in found)


def build(settings: Any) -> SellingPrices:
    """Make the pipeline from events to rows."""
    return SellingPrices(settings)


WORKLOAD = question(
    "q6",
    "Average selling price by seller: what do a seller's ten latest auctions end at?",
    ("seller", "price", "wins"),
    build,
    rule=last_of_each,
)
