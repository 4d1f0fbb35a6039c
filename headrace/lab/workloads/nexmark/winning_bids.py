"""Winning bids: for each auction the best valid bid, when the auction is over.

Takes persons, auctions and bids, gives `Winner`s. A bid is valid if it was made before the auction
expires, whether or not the auction had begun, and offers the reserve price at least. The highest
price wins, among equal ones the earliest bid (then the lowest bidder's number, so that it is
always the same).

A bid whose auction is not known yet waits until `2 * mean_length_ms` after itself and is then
forgotten. In a batch run all events meet before time goes on, so nothing is forgotten.

Beam stamps a winner with the auction's last moment, one millisecond before it expires. A timer may
not put out anything older than itself without it being late, so here a winner's time is that of
the expiry; who places winners in windows shifts the windows by `LAST_MOMENT_MS` instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from headrace.lab.workloads.nexmark.common import at_ms, to_ms
from headrace.lab.workloads.nexmark.model import Auction, Bid
from headrace.lab.workloads.nexmark.times import Schedule

#: How far before its expiry an auction's last moment is.
LAST_MOMENT_MS = 1
#: Bids gathered before they are sent on, so that a great bundle does not fill the memory.
GATHERED_BIDS = 50_000

Offer = tuple[int, int, int]  # a bid: date_time, price, bidder
Terms = tuple[int, int, int, int, int]  # an auction: reserve, expires, category, seller, date_time


class Winner(NamedTuple):
    """Names the places of the plain tuples that leave here."""

    auction: int
    category: int
    seller: int
    expires: int
    bidder: int
    price: int
    bid_time: int

#: What is known of an auction, the plain tuple in its cell: expires, price, bid time, bidder,
#: category, seller, and when even the fact that it is over may be forgotten.
#: Before there is a valid bid the price is one below the reserve, so that one comparison does. An
#: auction that is over expires at 0: no bid comes before that.
BestBid = tuple[Any, ...]


#: Later than any bid: where the first valid bid's time is compared with it, the bid wins.
_NEVER = 2**63 - 1
_OVER = (0,)


def mean_length_ms(settings: Any) -> int:
    """Give the mean length of an auction, after which a waiting bid is half way to oblivion."""
    schedule = Schedule.of(settings)
    ticks = max(schedule.delays) * 50 // 3 * settings.num_in_flight_auctions
    return int(-(-ticks // schedule.ticks_per_ms))


def opened(terms: Terms, patience_ms: int) -> tuple[Any, ...]:
    """Give the best of an auction without bids."""
    reserve, expires, category, seller, date_time = terms
    return expires, reserve - 1, _NEVER, None, category, seller, date_time + patience_ms


def improved(best: BestBid, offers: tuple[Offer, ...]) -> BestBid:
    """Give the best after some bids; the same object if none of them is better."""
    expires = best[0]
    if not expires:
        return best
    _, price, time, bidder, *_ = best
    better = False
    for offer in offers:
        if offer[1] >= price and offer[0] < expires:
            bid_time, bid_price, who = offer
            if bid_price > price or (
                bidder is not None and (bid_time, who) < (time, bidder)
            ):
                time, price, bidder = offer
                better = True
    return (expires, price, time, bidder, *best[4:]) if better else best


class Gather(beam.DoFn):  # type: ignore[misc]
    """Keys bids and auctions by auction; all bids of a bundle on one auction leave together.

    One cell is then read once per bundle and auction, not once per bid.
    """

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._offers: defaultdict[int, list[Offer]] = defaultdict(list)
        self._room = GATHERED_BIDS

    def process(self, element: Any) -> Any:
        """Take an event."""
        kind = type(element)
        if kind is Bid:
            auction, bidder, price, date_time, _ = element
            self._offers[auction].append((date_time, price, bidder))
            self._room -= 1
            return self._flush() if not self._room else ()
        if kind is Auction:
            a = element
            return ((a.id, (a.reserve, a.expires, a.category, a.seller, a.date_time)),)
        return ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Send on what is left."""
        for stamped in self._flush():
            yield WindowedValue(stamped.value, stamped.timestamp, (GlobalWindow(),))

    def _flush(self) -> list[Any]:
        out = [at_ms((a, tuple(offers)), min(offers)[0]) for a, offers in self._offers.items()]
        self._offers.clear()
        self._room = GATHERED_BIDS
        return out


class Close(beam.DoFn):  # type: ignore[misc]
    """Keeps the best bid of each auction, and gives it when the auction is over.

    The cell of an auction holds nothing, or the bids that wait for it, or its `BestBid`, or
    `_OVER`. The one timer is set for what comes next: a waiting bid grows too old, the auction
    expires, or enough time has gone by for nobody to bid any more.
    """

    CELL = ReadModifyWriteStateSpec("auction", FastPrimitivesCoder())
    NEXT = TimerSpec("next", TimeDomain.WATERMARK)
    Cell = beam.DoFn.StateParam(CELL)
    Next = beam.DoFn.TimerParam(NEXT)

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms

    def process(
        self,
        element: tuple[int, tuple[Any, ...]],
        cell: Any = Cell,
        timer: Any = Next,
    ) -> None:
        """Take an auction, or bids on it."""
        what = element[1]
        known = cell.read()
        waits = known is None or type(known[0]) is tuple
        if type(what[0]) is int:
            if waits:  # else the auction was announced twice
                self._open(what, known or (), cell, timer)
        elif waits:
            oldest = min(known)[0] if known else _NEVER
            cell.write((*(known or ()), *what))
            if min(what)[0] < oldest:
                timer.set(_time(min(what)[0] + self._patience_ms))
        else:
            better = improved(known, what)
            if better is not known:
                cell.write(better)

    def _open(self, terms: Any, waiting: tuple[Offer, ...], cell: Any, timer: Any) -> None:
        cell.write(improved(opened(terms, self._patience_ms), waiting))
        timer.set(_time(terms[1]))

    @on_timer(NEXT)  # type: ignore[untyped-decorator]
    def next(
        self,
        auction: int = beam.DoFn.KeyParam,
        now: Timestamp = beam.DoFn.TimestampParam,
        cell: Any = Cell,
        timer: Any = Next,
    ) -> Iterator[tuple[int, ...]]:
        """Go on to what comes next for an auction."""
        known = cell.read()
        if known is None:
            return
        if type(known[0]) is tuple:
            self._forget(known, to_ms(now), cell, timer)
        elif known == _OVER:
            cell.clear()
        elif known[0] <= to_ms(now):
            expires, price, bid_time, bidder, category, seller, forget = known
            if bidder is not None:
                yield auction, category, seller, expires, bidder, price, bid_time
            if forget > expires:
                # Many bids come after the end: with this in the cell they cost a reading only.
                cell.write(_OVER)
                timer.set(_time(forget))
            else:
                cell.clear()

    def _forget(self, waiting: tuple[Offer, ...], now_ms: int, cell: Any, timer: Any) -> None:
        left = tuple(offer for offer in waiting if offer[0] + self._patience_ms > now_ms)
        if left:
            cell.write(left)
            timer.set(_time(min(left)[0] + self._patience_ms))
        else:
            cell.clear()


def _time(ms: int) -> Timestamp:
    return Timestamp(micros=ms * 1_000)


class WinningBids(beam.PTransform):  # type: ignore[misc]
    """Events to plain tuples, in the order of `Winner`, each at the time the auction expires."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self._patience_ms = 2 * mean_length_ms(settings)

    def expand(self, events: Any) -> Any:
        """Bring bids to their auctions, then wait for the end of each."""
        return (
            events
            | "Gather" >> beam.ParDo(Gather()).with_output_types(tuple[int, Any])
            | "Close" >> beam.ParDo(Close(self._patience_ms)).with_output_types(
                tuple[int, int, int, int, int, int, int]
            )
        )
