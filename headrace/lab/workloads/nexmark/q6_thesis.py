"""NEXMark 6 as the thesis has it: the mean price of every ten sales of a seller.

Takes persons, auctions and bids. Gives (seller, price): the mean, a float, of each full group of
ten winning bids of a seller, in the order in which their auctions close (by the auction's number
where two close at once). Groups do not overlap; what does not fill a group is never given.

Winners of different auctions come from different places, in any order. They wait until all that
close before them must have come, so that the groups are always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workloads.nexmark.common import question, to_ms
from headrace.lab.workloads.nexmark.winning_bids import WinningBids

GROUP = 10
Sale = tuple[int, int, int]  # expires, auction, price: sorts in the order of closing


def seller_and_sale(winner: tuple[int, ...]) -> tuple[int, Sale]:
    """Cut a winner, see `Winner`."""
    return winner[2], (winner[3], winner[0], winner[5])


class MeanOfGroups(beam.DoFn):  # type: ignore[misc]
    """Takes a seller's sales, gives a mean per full group.

    The cell holds (prices, waiting): the prices of the group that fills, and sales that may still
    be preceded by others. The timer is set one millisecond after the first of those: then nothing
    that closes at the same moment can be missing.
    """

    CELL = ReadModifyWriteStateSpec("sales", FastPrimitivesCoder())
    RIPE = TimerSpec("ripe", TimeDomain.WATERMARK)
    Cell = beam.DoFn.StateParam(CELL)
    Ripe = beam.DoFn.TimerParam(RIPE)

    def process(
        self,
        element: tuple[int, Sale],
        cell: Any = Cell,
        ripe: Any = Ripe,
    ) -> None:
        """Let a sale wait."""
        sale = element[1]
        prices, waiting = cell.read() or ((), ())
        cell.write((prices, (*waiting, sale)))
        if not waiting or sale < min(waiting):
            ripe.set(_after(sale))

    @on_timer(RIPE)  # type: ignore[untyped-decorator]
    def ripen(
        self,
        seller: int = beam.DoFn.KeyParam,
        now: Timestamp = beam.DoFn.TimestampParam,
        cell: Any = Cell,
        ripe: Any = Ripe,
    ) -> Iterator[tuple[int, float]]:
        """Put the sales that nothing can precede any more into their groups."""
        held = cell.read()
        if held is None:
            return
        prices, sales = list(held[0]), sorted(held[1])
        due = sum(sale[0] < to_ms(now) for sale in sales)
        for _, _, price in sales[:due]:
            prices.append(price)
            if len(prices) == GROUP:
                yield seller, sum(prices) / GROUP
                prices.clear()
        cell.write((tuple(prices), tuple(sales[due:])))
        if sales[due:]:
            ripe.set(_after(sales[due]))


def _after(sale: Sale) -> Timestamp:
    return Timestamp(micros=(sale[0] + 1) * 1_000)


class GroupMeans(beam.PTransform):  # type: ignore[misc]
    """Events to (seller, price)."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, events: Any) -> Any:
        """Find winners, group them by seller."""
        return (
            events
            | WinningBids(self._settings)
            | "Cut" >> beam.Map(seller_and_sale).with_output_types(tuple[int, Sale])
            | "Groups" >> beam.ParDo(MeanOfGroups()).with_output_types(tuple[int, float])
        )


def build(settings: Any) -> GroupMeans:
    """Make the pipeline from events to rows."""
    return GroupMeans(settings)


THESIS = question(
    "q6-thesis",
    "Average selling price by seller, of every ten auctions.",
    ("seller", "price"),
    build,
    doubles=("price",),
)
