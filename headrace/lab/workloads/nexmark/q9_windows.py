"""NEXMark 9 as Beam's own pipeline has it: an auction and its bids meet in a window of their own.

Takes persons, auctions and bids. Gives what q9 gives: (auction, bidder, price, bid_time, expires).

An auction opens the window from its time to its expiry; a bid opens one of twice the mean length
of an auction. Among the windows of one auction number, those of bids that begin before the expiry
merge into the auction's; the others stay alone and close without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import IntervalWindow, WindowFn
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Auction, Bid, Record
from headrace.lab.workloads.nexmark.q9 import COLUMNS
from headrace.lab.workloads.nexmark.winning_bids import improved, mean_length_ms, opened


class AuctionWindows(WindowFn):  # type: ignore[misc]
    """Gives (auction, terms) and (auction, offer) pairs their windows; merges per auction.

    Plain interval windows, whose coder every runner knows. Those of bids are told by their length:
    an auction of just that length opens its window a millisecond early; nothing else notices.
    """

    def __init__(self, bid_ms: int) -> None:
        self._bid_ms = bid_ms

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        """Open a window."""
        what = context.element[1]
        if len(what) == 3:
            return [_window(what[0], what[0] + self._bid_ms)]
        _, expires, _, _, date_time = what
        early = expires - date_time == self._bid_ms
        return [_window(date_time - early, expires)]

    def merge(self, context: WindowFn.MergeContext) -> None:
        """Merge the windows of bids in time into the auction's; there is at most one such."""
        bids: list[IntervalWindow] = []
        auctions: list[IntervalWindow] = []
        for window in context.windows:
            length = window.end.micros - window.start.micros
            (bids if length == self._bid_ms * 1_000 else auctions).append(window)
        if auctions:
            # An auction announced twice would open two windows; bids go to the earlier.
            auction = min(auctions, key=lambda window: (window.start, window.end))
            early = [window for window in bids if window.start < auction.end]
            if early:
                context.merge([auction, *early], auction)

    def get_window_coder(self) -> Any:
        """Give the coder of the windows."""
        return IntervalWindowCoder()


def _window(start_ms: int, end_ms: int) -> IntervalWindow:
    return IntervalWindow(Timestamp(micros=start_ms * 1_000), Timestamp(micros=end_ms * 1_000))


def by_auction(event: Record) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Key by the auction: the terms of the auction (five numbers) or an offer (three)."""
    if type(event) is Bid:
        return ((event.auction, (event.date_time, event.price, event.bidder)),)
    if type(event) is Auction:
        terms = event.reserve, event.expires, event.category, event.seller, event.date_time
        return ((event.id, terms),)
    return ()


def winner(group: tuple[int, Iterable[Any]]) -> Iterator[tuple[int, ...]]:
    """Find the best of the offers that met in one window."""
    auction, found = group
    offers, terms = [], None
    for one in found:
        if len(one) == 3:
            offers.append(one)
        else:
            terms = one
    if terms is not None:
        expires, price, bid_time, bidder, *_ = improved(opened(terms, 0), tuple(offers))
        if bidder is not None:
            yield auction, bidder, price, bid_time, expires


class WinnersByWindows(beam.PTransform):  # type: ignore[misc]
    """Events to one row per auction that has a winner."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._bid_ms = max(2 * mean_length_ms(settings), 1)

    def expand(self, events: Any) -> Any:
        """Let windows merge, then choose."""
        return (
            events
            | "ByAuction" >> beam.FlatMap(by_auction).with_output_types(tuple[int, Any])
            | "Window" >> beam.WindowInto(AuctionWindows(self._bid_ms))
            | "Meet" >> beam.GroupByKey()
            | "Choose" >> beam.FlatMap(winner)
        )


def build(settings: Any) -> WinnersByWindows:
    """Make the pipeline from events to rows."""
    return WinnersByWindows(settings)


WINDOWS = question(
    "q9-windows",
    "Winning bids, found by windows that merge.",
    COLUMNS,
    build,
    answer="q9",
)
