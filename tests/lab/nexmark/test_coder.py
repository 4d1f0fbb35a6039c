"""The compiled coder of events against the plain one."""

from __future__ import annotations

from headrace.lab.workloads.nexmark import SETTINGS, generator
from headrace.lab.workloads.nexmark.coder import EventCoder
from headrace.lab.workloads.nexmark.model import Bid, Person, decode, encode


def test_the_bytes_are_those_of_the_plain_coder_and_give_the_event_back() -> None:
    events, _ = generator(SETTINGS(num_events=3_000, out_of_order_group_size=7)).elements(0, 3_000)
    coder = EventCoder()
    for event in events:
        data = coder.encode(event)
        assert data == encode(event)
        again = coder.decode(data)
        assert (type(again), again) == (type(event), event)
        assert again == decode(data)


def test_numbers_below_zero_and_letters_beyond_ascii_come_back() -> None:
    coder = EventCoder()
    for event in (
        Bid(-1, -(2**63), 2**63 - 1, -5, "Ωü"),
        Person(1, "Ωmega", "", "", "", "", 0, "\x00"),
    ):
        assert coder.encode(event) == encode(event)
        assert coder.decode(coder.encode(event)) == event
