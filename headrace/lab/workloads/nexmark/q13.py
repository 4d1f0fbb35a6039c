"""NEXMark 13, bounded side-input join: what does the side table say of each bidder?

Takes persons, auctions and bids. Gives (auction, bidder, price, date_time, extra): every bid, its
`extra` replaced by the text that the side table has for `bidder mod side_input_row_count`. The
table has the decimal text of each number from 0 up; it reaches the bids as a side input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.errors import OptionError
from headrace.lab.workloads.nexmark.common import BID_COLUMNS, is_bid, question
from headrace.lab.workloads.nexmark.model import Bid

Row = tuple[int, int, int, int, str]


def looked_up(count: int) -> Callable[[Bid, dict[int, str]], Row]:
    """Give the function that replaces a bid's `extra`.

    >>> looked_up(500)(Bid(1, 1001, 2, 3, "x"), {1: "one"})
    (1, 1001, 2, 3, 'one')
    """

    def look_up(bid: Bid, table: dict[int, str]) -> Row:
        auction, bidder, price, date_time, _ = bid
        return auction, bidder, price, date_time, table[bidder % count]

    return look_up


def side_table(events: Any, count: int) -> Any:
    """Make the side table: a PCollection of (number, text).

    Raises:
        OptionError: it has no rows.
    """
    if count < 1:
        msg = f"side_input_row_count={count}: a join needs a table of at least one row"
        raise OptionError(msg)
    numbers = events.pipeline | "Numbers" >> beam.Create([count])
    return numbers | "Table" >> beam.FlatMap(numbered_texts).with_output_types(tuple[int, str])


def numbered_texts(count: int) -> list[tuple[int, str]]:
    """Give the rows of the side table.

    >>> numbered_texts(2)
    [(0, '0'), (1, '1')]
    """
    return [(number, str(number)) for number in range(count)]


class JoinSideTable(beam.PTransform):  # type: ignore[misc]
    """Events to bids with what the side table says."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def expand(self, events: Any) -> Any:
        """Look every bid up."""
        table = beam.pvalue.AsDict(side_table(events, self._count))
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "LookUp" >> beam.Map(looked_up(self._count), table).with_output_types(Row)
        )


def build(settings: Any) -> JoinSideTable:
    """Make the pipeline from events to rows."""
    return JoinSideTable(settings.side_input_row_count)


WORKLOAD = question(
    "q13",
    "Bounded side-input join: what does the side table say of each bidder?",
    BID_COLUMNS,
    build,
    only_bids=True,
    stateless=True,
)
