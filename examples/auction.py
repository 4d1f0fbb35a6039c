"""An auction house in a batch: who sells what, to whom, and for how much.

Persons, auctions and bids are made by arithmetic, so every run sees the same data. The pipeline
joins sellers with their auctions, takes the best bid of each auction in windows of ten seconds,
joins bids with auctions, and sums what each category earned. Any Beam runner can run it:

    python examples/auction.py --events 1000
    headrace explain examples/auction.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import window

WINDOW_SECONDS = 10
CATEGORIES = ("art", "books", "clocks", "dishes")


class Person(NamedTuple):
    person: int
    name: str


class Auction(NamedTuple):
    auction: int
    seller: int
    category: str
    reserve: int


class Bid(NamedTuple):
    auction: int
    bidder: int
    price: int
    second: int


def persons(events: int) -> Iterator[Person]:
    for n in range(max(1, events // 50)):
        yield Person(n, f"person-{n}")


def auctions(events: int) -> Iterator[Auction]:
    sellers = max(1, events // 50)
    for n in range(max(1, events // 15)):
        yield Auction(n, n * 7 % sellers, CATEGORIES[n % len(CATEGORIES)], 50 + n * 13 % 100)


def bids(events: int) -> Iterator[Bid]:
    open_auctions = max(1, events // 15)
    for n in range(events):
        yield Bid(n * 11 % open_auctions, n * 3 % 17, 10 + n * 37 % 190, n // 5)


class RunningTotal(beam.DoFn):
    """Numbers the sums it sees: it remembers, so it cannot run on two shards and stay right."""

    def __init__(self) -> None:
        self.total = 0

    def process(self, element: tuple[str, int]) -> Iterator[tuple[str, int]]:
        category, earned = element
        self.total += earned
        yield category, self.total


def with_seller(joined: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[tuple[str, int]]:
    """The auctions of one seller, by the seller's name."""
    _, found = joined
    for person in found["person"]:
        for auction in found["auction"]:
            yield person.name, auction.auction


def sold(joined: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[tuple[str, int]]:
    """The price of an auction by its category, if the best bid met the reserve."""
    _, found = joined
    best = max(found["price"], default=0)
    for auction in found["auction"]:
        if best >= auction.reserve:
            yield auction.category, best


def build(pipeline: beam.Pipeline, events: int) -> dict[str, beam.PCollection]:
    """Attach the whole pipeline; gives its results by name."""
    people = pipeline | "Persons" >> beam.Create(list(persons(events)))
    offers = pipeline | "Auctions" >> beam.Create(list(auctions(events)))
    offered = pipeline | "Bids" >> beam.Create(list(bids(events)))

    sellers = (
        {
            "person": people | "ByPerson" >> beam.Map(lambda p: (p.person, p)),
            "auction": offers | "BySeller" >> beam.Map(lambda a: (a.seller, a)),
        }
        | "JoinSellers" >> beam.CoGroupByKey()
        | "WithSeller" >> beam.FlatMap(with_seller)
    )

    prices = (
        offered
        | "Stamp" >> beam.Map(lambda b: window.TimestampedValue(b, b.second))
        | "ByAuction" >> beam.Map(lambda b: (b.auction, b.price)).with_output_types(tuple[int, int])
        | "Windows" >> beam.WindowInto(window.FixedWindows(WINDOW_SECONDS))
        | "BestInWindow" >> beam.CombinePerKey(max)
    )
    # The key is the same auction, handed on unchanged: this grouping finds its input in place.
    history = (
        prices
        | "Positive" >> beam.Filter(lambda kv: kv[1] > 0)
        | "WholeDay" >> beam.WindowInto(window.GlobalWindows())
        | "History" >> beam.GroupByKey()
        | "Sorted" >> beam.MapTuple(lambda auction, found: (auction, sorted(found)))
    )

    earned = (
        {
            "price": prices | "AnyTime" >> beam.WindowInto(window.GlobalWindows()),
            "auction": offers | "ByNumber" >> beam.Map(lambda a: (a.auction, a)),
        }
        | "JoinBids" >> beam.CoGroupByKey()
        | "Sold" >> beam.FlatMap(sold).with_output_types(tuple[str, int])
        | "Earned" >> beam.CombinePerKey(sum)
    )
    totals = earned | "RunningTotal" >> beam.ParDo(RunningTotal())

    top = earned | "Top" >> beam.combiners.Top.Of(1, key=lambda kv: kv[1])
    shares = earned | "Share" >> beam.Map(
        lambda kv, best: (kv[0], round(kv[1] / best[0][1], 3)), beam.pvalue.AsSingleton(top)
    )
    return {"sellers": sellers, "history": history, "totals": totals, "shares": shares}


def main(argv: list[str] | None = None) -> None:
    """Run the pipeline and print what each category earned, against the best of them."""
    parser = argparse.ArgumentParser(description="An auction house in a batch.")
    parser.add_argument("--events", type=int, default=1000, help="how many bids to make")
    known, rest = parser.parse_known_args(argv)
    with beam.Pipeline(options=PipelineOptions(rest)) as pipeline:
        results = build(pipeline, known.events)
        results["shares"] | "Print" >> beam.Map(print)


if __name__ == "__main__":
    main()
