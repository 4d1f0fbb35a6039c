"""Questions that look at one event at a time, or only carry events: 0, 1, 2, 13, 15, 16."""

from __future__ import annotations

import pytest

from headrace.errors import OptionError
from headrace.lab.workload import Mode
from headrace.lab.workloads.nexmark import q0, q1, q2, q13, q15, q16
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import T0, answers, auction, batch, bid, person, rows, streaming

EVENTS = [person(1), auction(1_230, 1), bid(1_230, 199, 2), bid(1_230, 199, 2), bid(1_231, 7, 3)]
BID = '{"auction":1230,"bidder":7,"price":199,"dateTime":1436918400002,"extra":"x"}'


def test_each_event_is_answered_as_one_by_one_it_must_be() -> None:
    found = answers([q0.WORKLOAD, q1.WORKLOAD, q2.WORKLOAD, q15.WORKLOAD, q16.WORKLOAD], EVENTS)
    assert rows(found["q1"]) == [
        (1_230, 7, 177, T0 + 2, "x"), (1_230, 7, 177, T0 + 2, "x"), (1_231, 7, 6, T0 + 3, "x"),
    ]
    assert rows(found["q2"]) == [(1_230, 199), (1_230, 199)]
    texts = rows(found["q0"])
    assert texts.count((BID,)) == 2
    assert len(texts) == len(EVENTS)
    assert rows(found["q15"]) == rows(found["q16"]) == texts
    assert sorted(time for _, time in found["q16"]) == [(T0 + n) * 1_000 for n in (0, 1, 2, 2, 3)]


def test_q2_skips_as_the_setting_says() -> None:
    assert batch(q2.WORKLOAD, EVENTS, NexmarkSettings(auction_skip=1_231)) == [(1_231, 7)]


def test_q13_looks_up_the_remainder_of_the_bidder() -> None:
    settings = NexmarkSettings(side_input_row_count=3)
    events = [bid(1, bidder=7), bid(1, bidder=9), auction(1)]
    expected = [(1, 7, 100, T0, "1"), (1, 9, 100, T0, "0")]
    assert batch(q13.WORKLOAD, events, settings) == expected
    assert rows(streaming(q13.WORKLOAD, [*events, 10], settings)) == expected


def test_q13_refuses_an_empty_table() -> None:
    with pytest.raises(OptionError, match="at least one row"):
        batch(q13.WORKLOAD, [bid(1)], NexmarkSettings(side_input_row_count=0))


def test_q15_is_for_batch_only() -> None:
    assert q15.WORKLOAD.modes == (Mode.BATCH,)
