"""Winning bids and what is made of them, questions 4, 6 and 9: by hand and by a naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.workloads.nexmark import q4, q6, q6_thesis, q9
from headrace.lab.workloads.nexmark.model import Auction, Bid
from headrace.lab.workloads.nexmark.q9_windows import WINDOWS, AuctionWindows
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.lab.workloads.nexmark.winning_bids import improved, mean_length_ms, opened
from tests.lab.nexmark.pipelines import T0, answers, auction, batch, bid, rows, streaming

#: A bid waits 2 * 17 ms for its auction: 10 auctions in flight at 10,000 events per second.
IMPATIENT = NexmarkSettings(num_in_flight_auctions=10)

# Auction by auction: what happens to it, and who must win (auction, bidder, price, time, expires).
CASES: dict[str, Any] = {
    "an early bid wins": (
        [bid(1, 900, -5_000), auction(1), bid(1, 800, 10)], (1, 7, 900, T0 - 5_000, T0 + 1_000)
    ),
    "the reserve price is enough": (
        [auction(2, reserve=500), bid(2, 500, 1), bid(2, 499, 2)], (2, 7, 500, T0 + 1, T0 + 1_000)
    ),
    "below the reserve nobody wins": ([auction(3, reserve=500), bid(3, 499, 1)], None),
    "a bid at the expiry loses": (
        [auction(4), bid(4, 900, 1_000), bid(4, 300, 999)], (4, 7, 300, T0 + 999, T0 + 1_000)
    ),
    "of equal prices the earlier wins": (
        [auction(5), bid(5, 300, 20, bidder=8), bid(5, 300, 10, bidder=9), bid(5, 300, 30)],
        (5, 9, 300, T0 + 10, T0 + 1_000),
    ),
    "of equal prices and times the lower bidder wins": (
        [bid(6, 300, 20, bidder=8), auction(6), bid(6, 300, 20, bidder=7)],
        (6, 7, 300, T0 + 20, T0 + 1_000),
    ),
    "an auction without bids has no winner": ([auction(7)], None),
    "bids without an auction have no winner": ([bid(8, 100, 1), bid(8, 200, 2)], None),
    "the initial bid does not count": (
        [auction(9, reserve=0), bid(9, 0, 1)], (9, 7, 0, T0 + 1, T0 + 1_000)
    ),
    "an auction as long as a bid's window": (
        [bid(10, 150, -1), auction(10, expires=334)], (10, 7, 150, T0 - 1, T0 + 334)
    ),
}
EVENTS = [event for events, _ in CASES.values() for event in events]
WINNERS = sorted(winner for _, winner in CASES.values() if winner)


def test_every_case_has_the_winner_that_was_found_by_hand() -> None:
    assert 2 * mean_length_ms(NexmarkSettings()) == 334  # one of the cases is about it
    found = answers([q9.WORKLOAD, WINDOWS, q9.THESIS], EVENTS)
    assert rows(found["q9"]) == WINNERS
    assert rows(found["q9-windows"]) == WINNERS
    assert rows(found["q9-thesis"]) == [(winner[0], winner[2]) for winner in WINNERS]


def test_the_order_of_arrival_does_not_matter_in_batch() -> None:
    found = answers([q9.WORKLOAD, WINDOWS], EVENTS[::-1])
    assert rows(found["q9"]) == rows(found["q9-windows"]) == WINNERS


@pytest.mark.parametrize("workload", [q9.WORKLOAD, WINDOWS], ids=["state", "windows"])
def test_a_stream_gives_a_winner_when_its_auction_is_over(workload: Any) -> None:
    script = [
        bid(1, 700, 5), 6, auction(1, 10, expires=60), bid(1, 800, 20),  # one waits, one is better
        59, auction(2, 59, expires=70), 60,  # the first is over
        bid(1, 9_000, 61), bid(2, 100, 62), 75, bid(2, 9_000, 76), 400, bid(2, 9_000, 401),
    ]
    assert rows(streaming(workload, script, IMPATIENT)) == [
        (1, 7, 800, T0 + 20, T0 + 60), (2, 7, 100, T0 + 62, T0 + 70),
    ]


@pytest.mark.parametrize("workload", [q9.WORKLOAD, WINDOWS], ids=["state", "windows"])
def test_a_stream_forgets_a_bid_whose_auction_does_not_come(workload: Any) -> None:
    # The first bid is forgotten at 34; the second, 10 ms younger, is still there at 40.
    script = [bid(1, 900, 0), bid(1, 500, 10), 40, auction(1, 40, expires=100), bid(1, 200, 50)]
    assert rows(streaming(workload, script, IMPATIENT)) == [(1, 7, 500, T0 + 10, T0 + 100)]
    assert batch(workload, [e for e in script if not isinstance(e, int)], IMPATIENT) == [
        (1, 7, 900, T0, T0 + 100)
    ]


def test_a_winner_leaves_at_the_expiry() -> None:
    script = [auction(1, expires=60), bid(1, 100, 1), 60, bid(5, 1, 61)]
    assert [time for _, time in streaming(q9.WORKLOAD, script)] == [(T0 + 60) * 1_000]


@given(
    auction=st.builds(
        lambda reserve, expires: (reserve, expires, 10, 1, 0), st.integers(0, 8), st.integers(1, 8)
    ),
    offers=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))),
    cut=st.integers(0, 20),
)
def test_the_best_bid_is_the_best_of_all_valid_ones(auction: Any, offers: Any, cut: int) -> None:
    reserve, expires, *_ = auction
    valid = [o for o in offers if o[0] < expires and o[1] >= reserve]
    best = min(valid, key=lambda o: (-o[1], o[0], o[2]), default=None)
    kept = improved(opened(auction, 5), tuple(offers[:cut]))
    kept = improved(kept, tuple(offers[cut:]))
    _, price, time, bidder, category, seller, forget = kept
    assert (category, seller, forget) == (10, 1, 5)
    assert (None if bidder is None else (time, price, bidder)) == best


def test_an_auction_and_its_bids_do_not_merge_with_bids_after_the_expiry() -> None:
    windows = AuctionWindows(bid_ms=50)

    class Element:
        def __init__(self, *what: int) -> None:
            self.element = (1, what)

    [of_auction] = windows.assign(Element(100, 60, 10, 1, 10))  # of just the length of a bid's
    bids = [windows.assign(Element(at, 1, 1))[0] for at in (0, 59, 60)]
    merged: list[Any] = []

    class Merging:
        def __init__(self) -> None:
            self.windows = [*bids, of_auction]

        def merge(self, parts: Any, result: Any) -> None:
            merged.append((set(parts), result))

    windows.merge(Merging())
    assert merged == [({of_auction, *bids[:2]}, of_auction)]


def sold(number: int, expires: int, price: int, *, seller: int = 1, category: int = 10) -> Any:
    """An auction, and one bid that wins it, made when the number says."""
    terms = {"expires": expires, "reserve": 0, "seller": seller, "category": category}
    return [auction(number, **terms), bid(number, price, number - 10_000)]


def test_q4_averages_the_auctions_whose_last_moment_is_in_the_window() -> None:
    events = [
        *sold(1, 10_000, 100),  # on a boundary: in the windows that end there, not in the next
        *sold(2, 10_001, 201),
        *sold(3, 9_000, 4, category=11),
        *sold(4, 9_500, 5, category=11),
    ]
    found = answers([q4.WORKLOAD, q4.THESIS], events)
    assert rows(found["q4"]) == [
        (T0, 10, 100), (T0, 11, 5),  # 4.5 is rounded up
        (T0 + 5_000, 10, 151), (T0 + 5_000, 11, 5),  # 150.5 too
        (T0 + 10_000, 10, 201),
    ]
    assert rows(found["q4-thesis"]) == [
        (T0 + 8_000, 11, 4), (T0 + 9_000, 10, 100), (T0 + 9_000, 11, 5), (T0 + 10_000, 10, 201),
    ]


def test_q4_loses_nothing_on_a_boundary_of_a_stream() -> None:
    script = [*sold(1, 10_000, 100), 10_000, *sold(2, 12_000, 200), 15_000]
    assert rows(streaming(q4.WORKLOAD, script)) == [
        (T0, 10, 100), (T0 + 5_000, 10, 150), (T0 + 10_000, 10, 200),
    ]


def test_q6_takes_the_ten_latest_by_the_time_of_the_bid() -> None:
    # Twelve sales; those of numbers 1 and 2 were bid for first, but end last.
    events = [e for n in range(3, 13) for e in sold(n, 1_000 + n, 10 * n)]
    events += [*sold(1, 5_000, 10**6), *sold(2, 5_000, 10**6), *sold(20, 100, 7, seller=2)]
    assert batch(q6.WORKLOAD, events) == [(1, 75, 12), (2, 7, 1)]


def test_q6_gives_a_row_after_every_change_of_a_stream() -> None:
    script = [*sold(1, 1_000, 100), 1_000, *sold(2, 2_000, 201), 2_000]
    found = {row for row, _ in streaming(q6.WORKLOAD, script)}
    assert found == {(1, 100, 1), (1, 151, 2)}
    assert dict(q6.last_of_each(found)) == {(1, 151, 2): 1}


def test_q6_of_the_thesis_gives_every_ten_sales_in_the_order_of_closing() -> None:
    # 21 sales; the one that closes first is announced last, and two close at once.
    events = [e for n in range(2, 21) for e in sold(n, 1_000 + n // 2, 10 * n)]
    events += [*sold(30, 3_000, 10**6), *sold(1, 500, 0)]
    first, second = sum(range(1, 11)) - 1, sum(range(11, 21))
    assert batch(q6_thesis.THESIS, events) == [(1, float(first)), (1, float(second))]
    assert rows(streaming(q6_thesis.THESIS, [*events, 1_004, 4_000])) == [
        (1, float(first)), (1, float(second))
    ]


def test_two_rows_of_a_seller_that_disagree_are_both_kept() -> None:
    assert dict(q6.last_of_each([(1, 5, 2), (1, 6, 2), (1, 9, 1)])) == {(1, 5, 2): 1, (1, 6, 2): 1}


def test_hand_made_events_are_what_they_seem() -> None:
    assert all(type(event) in (Auction, Bid) for event in EVENTS)
