"""Question 3: sellers and their auctions find each other, and are forgotten in time."""

from __future__ import annotations

from headrace.lab.workload import Row
from headrace.lab.workloads.nexmark.q3 import WORKLOAD
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import auction, batch, bid, person, rows, streaming

PATIENCE = NexmarkSettings(max_auctions_waiting_time=600)


def told(*auctions: int, name: str = "Ann Lee", state: str = "OR") -> list[Row]:
    return [(name, "Bend", state, number) for number in auctions]


def test_who_matches_is_what_the_question_says() -> None:
    events = [
        auction(11, seller=1), person(1), auction(12, seller=1),  # before and after the person
        auction(13, seller=1, category=11),  # another category
        person(2, state="ID"), auction(14, seller=2), person(3, state="CA"), auction(15, seller=3),
        person(4, state="WA"), auction(16, seller=4),  # another state
        auction(17, seller=5), bid(11),  # nobody
    ]
    expected = sorted(told(11, 12) + told(14, state="ID") + told(15, state="CA"))
    assert batch(WORKLOAD, events) == expected
    assert batch(WORKLOAD, events[::-1]) == expected


def test_a_second_person_of_the_same_number_is_not_answered() -> None:
    persons = [person(1, 0, name="First"), 1, person(1, 1, name="Second"), 2]
    script = [*persons, auction(11, 2, seller=1)]
    assert rows(streaming(WORKLOAD, script)) == told(11, name="First")


def test_a_pair_has_the_time_of_what_completed_it() -> None:
    script = [auction(11, 5, seller=1), person(1, 7), 8, auction(12, 9, seller=1)]
    found = streaming(WORKLOAD, script)
    assert [time % 1_000_000 // 1_000 for _, time in found] == [7, 9]


def test_a_person_is_forgotten_when_nothing_is_heard_for_long() -> None:
    script = [person(1, 0), 599_999, auction(11, 599_999, seller=1), 1_199_998]
    # The first auction set the timer anew, to 1,199,999.
    script += [auction(12, 1_199_998, seller=1), 1_799_998, auction(13, 1_799_998, seller=1)]
    assert rows(streaming(WORKLOAD, script, PATIENCE)) == told(11, 12)


def test_an_auction_waits_no_longer_than_that_either() -> None:
    script = [auction(11, 0, seller=1), 600_000, person(1, 600_000), auction(12, 600_001, seller=1)]
    assert rows(streaming(WORKLOAD, script, PATIENCE)) == told(12)


def test_an_older_event_sets_the_timer_back() -> None:
    # The timer is overwritten, not kept at its latest: the person is forgotten at 601,000.
    script = [person(1, 5_000), auction(11, 1_000, seller=1), 601_000]
    script += [auction(12, 602_000, seller=1)]
    assert rows(streaming(WORKLOAD, script, PATIENCE)) == told(11)
