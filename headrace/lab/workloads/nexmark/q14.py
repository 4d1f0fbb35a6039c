"""NEXMark 14, session side-input join: in which session was each bid made, by the side table?

Takes persons, auctions and bids. Gives (auction, bidder, price, date_time, extra): every bid, when
the session of its bidder is over, with `extra` = `<text of the side table>:<start>:<end>` in ISO
8601. A session has less than `session_gap_sec` between each bid and the next; it ends that long
after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows, Sessions

from headrace.lab.workloads.nexmark.common import BID_COLUMNS, is_bid, iso, question, to_ms
from headrace.lab.workloads.nexmark.model import Bid
from headrace.lab.workloads.nexmark.q13 import Row, side_table

Offer = tuple[int, int, int]  # auction, price, date_time


def by_bidder(bid: Bid) -> tuple[int, Offer]:
    """Key a bid by its bidder."""
    return bid.bidder, (bid.auction, bid.price, bid.date_time)


def with_session(
    group: tuple[int, Iterable[Offer]], window: Any = beam.DoFn.WindowParam
) -> tuple[int, str, list[Offer]]:
    """Add the bounds of the session."""
    return group[0], f"{iso(to_ms(window.start))}:{iso(to_ms(window.end))}", list(group[1])


def looked_up(
    count: int,
) -> Callable[[tuple[int, str, list[Offer]], dict[int, str]], Iterator[Row]]:
    """Give the function that makes the rows of a session."""

    def look_up(session: tuple[int, str, list[Offer]], table: dict[int, str]) -> Iterator[Row]:
        bidder, bounds, offers = session
        extra = f"{table[bidder % count]}:{bounds}"
        for auction, price, date_time in offers:
            yield auction, bidder, price, date_time, extra

    return look_up


class JoinSessions(beam.PTransform):  # type: ignore[misc]
    """Events to bids with what the side table says, and their sessions."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._gap_sec = settings.session_gap_sec
        self._count = settings.side_input_row_count

    def expand(self, events: Any) -> Any:
        """Find sessions, then look each up."""
        table = beam.pvalue.AsDict(side_table(events, self._count))
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "ByBidder" >> beam.Map(by_bidder).with_output_types(tuple[int, Offer])
            | "Sessions" >> beam.WindowInto(Sessions(self._gap_sec))
            | "Meet" >> beam.GroupByKey()
            | "Bounds" >> beam.Map(with_session)
            # The table is in the global window, and so must be who asks it.
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "LookUp" >> beam.FlatMap(looked_up(self._count), table).with_output_types(Row)
        )


def build(settings: Any) -> JoinSessions:
    """Make the pipeline from events to rows."""
    return JoinSessions(settings)


WORKLOAD = question(
    "q14",
    "Session side-input join: in which session of its bidder was each bid made?",
    BID_COLUMNS,
    build,
)
