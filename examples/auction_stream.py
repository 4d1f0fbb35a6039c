"""An auction house as a stream: bids in four currencies, out of order, against a falling hammer.

Bids wait until the exchange rates of their minute are known, a timer lets the hammer fall on every
auction, and what was bid and sold is summed up minute by minute. Any Beam runner can run it; to see
what it becomes, and to see it run on a bounded piece of the stream or on the stream itself:

    headrace explain examples/auction_stream.py
    python examples/auction_stream.py --runner=headrace.SparkRunner
    python examples/demo.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger, userstate, window
from apache_beam.utils.windowed_value import PaneInfoTiming

CATEGORIES = ("art", "books", "clocks", "dishes")
CURRENCIES = ("CHF", "EUR", "GBP", "USD")
START = 1_700_000_040  # a full minute
MINUTE = 60
SPAN = 5 * MINUTE
AUCTIONS = 300
#: No bid arrives later than this after it was made. The watermark of the bids relies on it.
SECONDS_UNDERWAY = 20


class Auction(NamedTuple):
    auction: int
    category: str
    closes: int


class Rate(NamedTuple):
    second: int  # when its minute begins
    currency: str
    cents: int  # what one unit is worth


class Bid(NamedTuple):
    second: int
    auction: int
    bidder: int
    price: int
    currency: str


class Offer(NamedTuple):
    """A bid with what is known of its auction, its price in cents."""

    second: int
    auction: int
    bidder: int
    cents: int
    category: str
    closes: int


class Sale(NamedTuple):
    auction: int
    category: str
    bidder: int
    cents: int


# -- the events, made by arithmetic: every run sees the same


def auctions() -> list[Auction]:
    return [
        Auction(n, CATEGORIES[n % 4], START + SPAN * (n + 1) // AUCTIONS) for n in range(AUCTIONS)
    ]


def rates() -> list[Rate]:
    minutes = range(START, START + SPAN, MINUTE)
    return [
        Rate(minute, currency, 80 + (minute // MINUTE * 7 + n * 11) % 60)
        for minute in minutes
        for n, currency in enumerate(CURRENCIES)
    ]


def bids(count: int) -> Iterator[Bid]:
    """Bids in the order they are made; some are made after the hammer has fallen."""
    for n in range(count):
        next_to_close = n * AUCTIONS // count
        auction = min(AUCTIONS - 1, max(0, next_to_close + n * 13 % 30 - 3))
        price = (100 + n * 7919 % 907) * (4 - auction % 4)  # art is dear
        yield Bid(START + n * SPAN // count, auction, n * 31 % 997, price, CURRENCIES[n * 5 % 4])


def arrivals(count: int) -> list[Bid]:
    """The same bids in the order they arrive."""
    underway = {n: bid.second + n * 17 % SECONDS_UNDERWAY for n, bid in enumerate(bids(count))}
    made = list(bids(count))
    return [made[n] for n in sorted(underway, key=lambda n: (underway[n], n))]


# -- the pipeline


def priced(bid: Any, known: dict[int, Auction], worth: dict[str, int]) -> Offer:
    """The bid in cents, with its auction's category and end."""
    found = known[bid.auction]
    cents = bid.price * worth[bid.currency]
    return Offer(bid.second, bid.auction, bid.bidder, cents, found.category, found.closes)


class Hammer(beam.DoFn):
    """Keeps the best offer of each auction and sells when event time passes the auction's end."""

    FALL = userstate.TimerSpec("fall", userstate.TimeDomain.WATERMARK)
    Fall = beam.DoFn.TimerParam(FALL)
    Best = beam.DoFn.StateParam(
        userstate.ReadModifyWriteStateSpec("best", FastPrimitivesCoder())
    )

    def __init__(self) -> None:
        self.too_late = Metrics.counter("auction", "after the hammer")

    def process(self, element: tuple[int, Offer], best: Any = Best, fall: Any = Fall) -> None:
        _, offer = element
        if offer.second >= offer.closes:
            self.too_late.inc()
            return
        found = best.read()
        if found is None:
            fall.set(offer.closes)
        this = (offer.cents, offer.bidder, offer.category)
        if found is None or this > found:
            best.write(this)

    @userstate.on_timer(FALL)
    def sell(self, auction: int = beam.DoFn.KeyParam, best: Any = Best) -> Iterator[Sale]:
        cents, bidder, category = best.read()
        best.clear()
        yield Sale(auction, category, bidder, cents)


class Pane(beam.DoFn):
    """What a pane says of its minute, and whether the minute was over."""

    def process(
        self,
        element: tuple[str, int],
        minute: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[tuple[str, int, int, str]]:
        timing = PaneInfoTiming.to_string(pane.timing).lower()
        yield element[0], int(minute.start), element[1], timing


class Ledger(beam.DoFn):
    """One line for each category and minute: what was sold, and out of how many offers."""

    def process(
        self, element: tuple[str, dict[str, Iterable[int]]], minute: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[str, int, int, int, int]]:
        category, found = element
        sold = list(found["sold"])
        yield category, int(minute.start), len(sold), sum(sold), sum(found["offers"])


def build(pipeline: beam.Pipeline, bids: Any, rates: Any) -> dict[str, beam.PCollection]:
    """Attach the pipeline to bids and rates in event time; gives its results by name."""
    known = pipeline | "Auctions" >> beam.Create([(a.auction, a) for a in auctions()])
    minutes = beam.WindowInto(window.FixedWindows(MINUTE))
    worth = (
        rates
        | "Worth" >> beam.Map(lambda rate: (rate.currency, rate.cents))
        | "RateMinutes" >> minutes
    )
    # A bid waits here until the rates of its minute are complete.
    offers = (
        bids
        | "BidMinutes" >> minutes
        | "Price" >> beam.Map(priced, beam.pvalue.AsDict(known), beam.pvalue.AsDict(worth))
    )
    by_category = offers | "ByCategory" >> beam.Map(lambda o: (o.category, o.cents))
    volume = (
        by_category
        | "EarlyPanes" >> beam.WindowInto(
            window.FixedWindows(MINUTE),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | "Volume" >> beam.CombinePerKey(sum)
        | "Panes" >> beam.ParDo(Pane())
    )
    sales = (
        offers
        | "WholeDay" >> beam.WindowInto(window.GlobalWindows())
        | "ByAuction" >> beam.Map(lambda o: (o.auction, o)).with_output_types(tuple[int, Offer])
        | "Hammer" >> beam.ParDo(Hammer())
    )
    sold = (
        sales
        | "SoldFor" >> beam.Map(lambda sale: (sale.category, sale.cents))
        | "SaleMinutes" >> minutes
    )
    ledger = (
        {"sold": sold, "offers": by_category | "Offers" >> beam.combiners.Count.PerKey()}
        | "Join" >> beam.CoGroupByKey()
        | "Ledger" >> beam.ParDo(Ledger())
    )
    return {"sales": sales, "volume": volume, "ledger": ledger}


#: The columns of the results, for those who write them to a table.
COLUMNS = {
    "sales": "auction long, category string, bidder long, cents long",
    "volume": "category string, minute long, cents long, timing string",
    "ledger": "category string, minute long, sold long, cents long, offers long",
}


# -- the same answers without Beam


def expected(count: int) -> dict[str, list[tuple[Any, ...]]]:
    """The answers by plain loops; volume as the sum of its panes."""
    worth = {(r.second, r.currency): r.cents for r in rates()}
    known = {a.auction: a for a in auctions()}
    best: dict[int, tuple[int, int]] = {}
    volume: dict[tuple[str, int], int] = defaultdict(int)
    lines: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for bid in bids(count):
        minute = bid.second // MINUTE * MINUTE
        found = known[bid.auction]
        cents = bid.price * worth[minute, bid.currency]
        volume[found.category, minute] += cents
        lines[found.category, minute][2] += 1
        if bid.second < found.closes:
            best[bid.auction] = max(best.get(bid.auction, (0, 0)), (cents, bid.bidder))
    sales = []
    for number, (cents, bidder) in best.items():
        found = known[number]
        sales.append((number, found.category, bidder, cents))
        line = lines[found.category, found.closes // MINUTE * MINUTE]
        line[0] += 1
        line[1] += cents
    return {
        "sales": sorted(sales),
        "volume": sorted((*key, cents) for key, cents in volume.items()),
        "ledger": sorted((*key, *line) for key, line in lines.items()),
    }


def main(argv: list[str] | None = None) -> None:
    """Run on a bounded piece of the stream and print the ledger."""
    with beam.Pipeline(options=PipelineOptions(argv)) as pipeline:
        made = pipeline | "Bids" >> beam.Create(arrivals(3_000))
        told = pipeline | "Rates" >> beam.Create(rates())
        stamp = beam.Map(lambda event: window.TimestampedValue(event, event.second))
        results = build(pipeline, made | "BidTimes" >> stamp, told | "RateTimes" >> stamp)
        results["ledger"] | "Print" >> beam.Map(print)


if __name__ == "__main__":
    main()
