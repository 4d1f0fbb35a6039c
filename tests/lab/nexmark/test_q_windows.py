"""Questions 5, 7 and 8: what is asked about each window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.workloads.nexmark import q5, q7, q7_thesis, q8
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import T0, answers, auction, batch, bid, person, rows, streaming


def test_q5_keeps_all_auctions_with_the_greatest_count() -> None:
    events = [bid(1, at=0), bid(1, at=1), bid(2, at=2), bid(2, at=4_999), bid(3, at=5_000)]
    found = answers([q5.WORKLOAD, q5.THESIS], events)
    first = [(T0 - 5_000, 1, 2), (T0 - 5_000, 2, 2)]  # begins before the first event
    others = [(T0, 1, 2), (T0, 2, 2), (T0 + 5_000, 3, 1)]
    assert rows(found["q5"]) == first + others
    assert rows(found["q5-thesis"]) == others


def test_q5_of_the_thesis_counts_from_the_first_event() -> None:
    # The line of time begins with event 50,000: five seconds after the base time.
    settings = NexmarkSettings(first_event_number=50_000)
    assert batch(q5.THESIS, [bid(1, at=5_000)], settings) == [(T0 + 5_000, 1, 1)]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), min_size=1), st.integers(0, 5))
def test_the_hottest_do_not_depend_on_how_they_are_brought_together(pairs: Any, cut: int) -> None:
    combine = q5.KeepHottest()
    parts = []
    for part in (pairs[:cut], pairs[cut:]):
        held = combine.create_accumulator()
        for pair in part:
            held = combine.add_input(held, pair)
        parts.append(held)
    most, auctions = combine.extract_output(combine.merge_accumulators(parts))
    assert most == max(count for _, count in pairs)
    assert sorted(auctions) == sorted(a for a, count in pairs if count == most)


BIDS = [
    bid(1, 500, 10, bidder=1),
    bid(2, 500, 5, bidder=2, extra="y"), bid(2, 500, 5, bidder=2, extra="y"),
    bid(3, 499, 1), bid(4, 9, 9_999), bid(5, 3, 10_000), person(1), auction(1),
]


def test_q7_gives_every_bid_with_the_highest_price() -> None:
    found = answers([q7.WORKLOAD, q7.SIDE_INPUT, q7_thesis.THESIS], BIDS)
    expected = [
        (T0, 1, 1, 500, T0 + 10, "x"),
        (T0, 2, 2, 500, T0 + 5, "y"), (T0, 2, 2, 500, T0 + 5, "y"),
        (T0 + 10_000, 5, 7, 3, T0 + 10_000, "x"),
    ]
    assert rows(found["q7"]) == rows(found["q7-side-input"]) == expected
    assert rows(found["q7-thesis"]) == [(T0, 2, 500, 2), (T0 + 10_000, 5, 3, 7)]
    assert (T0 + 5) * 1_000 in {time for _, time in found["q7-side-input"]}  # the bid's own time


@pytest.mark.parametrize("workload", [q7.WORKLOAD, q7.SIDE_INPUT], ids=lambda w: w.name)
def test_q7_answers_a_stream_when_the_window_is_over(workload: Any) -> None:
    script = [bid(1, 5, 1), bid(2, 7, 2), 9_999, bid(3, 7, 9_999), 10_000, bid(4, 1, 10_001)]
    assert [row[1] for row in rows(streaming(workload, script))] == [2, 3, 4]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1), st.integers(0, 9))
def test_the_highest_bids_do_not_depend_on_how_they_are_brought_together(
    offers: Any, cut: int
) -> None:
    bids = [bid(number, price) for number, price in offers]
    combine = q7.KeepHighest()
    one_by_one = combine.create_accumulator()
    for each in bids[:cut]:
        one_by_one = combine.add_input(one_by_one, each)
    at_once = combine.add_inputs(combine.create_accumulator(), iter(bids[cut:]))
    found = combine.extract_output(combine.merge_accumulators([one_by_one, at_once]))
    top = max(price for _, price in offers)
    assert sorted(found) == sorted(tuple(each) for each in bids if each.price == top)
    assert all(type(each) is tuple for each in found)


def test_q8_joins_within_one_window_only() -> None:
    events = [
        auction(1, 1, seller=1, reserve=300), person(1, 9_999),
        auction(2, 9_999, seller=1, reserve=300),
        auction(3, 10_000, seller=1),  # the next window
        person(2, 0), auction(4, 10_000, seller=2), auction(5, 0, seller=3), bid(1),
    ]
    assert batch(q8.WORKLOAD, events) == [(1, "Ann Lee", 300), (1, "Ann Lee", 300)]


def test_q8_refuses_two_persons_of_one_number_in_a_window() -> None:
    with pytest.raises(ValueError, match="2 persons have the number 7"):
        list(q8.rows((7, ["A", 100, "B"])))
