"""The auction example against answers computed without Beam."""

from __future__ import annotations

from collections import defaultdict

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to

from examples import auction

EVENTS = 300


def best_bids() -> dict[int, dict[int, int]]:
    """The best price of each auction in each window, by plain loops."""
    best: dict[int, dict[int, int]] = defaultdict(dict)
    for bid in auction.bids(EVENTS):
        window = bid.second // auction.WINDOW_SECONDS
        found = best[bid.auction]
        found[window] = max(found.get(window, 0), bid.price)
    return best


def test_the_example_gives_what_plain_loops_give() -> None:
    best = best_bids()
    history = [(a, sorted(windows.values())) for a, windows in best.items()]
    names = {p.person: p.name for p in auction.persons(EVENTS)}
    offers = list(auction.auctions(EVENTS))
    sellers = [(names[a.seller], a.auction) for a in offers if a.seller in names]
    earned: dict[str, int] = defaultdict(int)
    for offer in offers:
        price = max(best[offer.auction].values(), default=0)
        if price >= offer.reserve:
            earned[offer.category] += price
    top = max(earned.values())
    shares = [(c, round(e / top, 3)) for c, e in earned.items()]

    with beam.Pipeline("FnApiRunner") as pipeline:
        results = auction.build(pipeline, EVENTS)
        assert_that(results["history"], equal_to(history), label="history")
        assert_that(results["sellers"], equal_to(sellers), label="sellers")
        assert_that(results["shares"], equal_to(shares), label="shares")
