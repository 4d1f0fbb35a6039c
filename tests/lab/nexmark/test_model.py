"""The records of NEXMark and their forms; what Beam wrote is checked with the generator."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.workloads.nexmark.model import (
    Auction,
    Bid,
    Person,
    Record,
    decode,
    decode_all,
    encode,
    from_json,
    java_hash,
    string_hash,
    to_json,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-(2**62), 2**62)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.one_of(
    st.builds(Person, LONGS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TIMES, TEXTS),
    st.builds(Auction, LONGS, TEXTS, TEXTS, LONGS, LONGS, TIMES, TIMES, LONGS, LONGS, TEXTS),
    st.builds(Bid, LONGS, LONGS, LONGS, TIMES, TEXTS),
)
BID = Bid(1000, 1001, 250, 1_436_918_400_000, "abc")


@given(RECORDS)
def test_every_record_is_read_back_from_its_json_and_from_its_bytes(record: Record) -> None:
    for back in (from_json(to_json(record)), decode(encode(record))):
        assert back == record
        assert type(back) is type(record)


@given(st.lists(RECORDS, max_size=4))
def test_records_back_to_back_are_read_one_by_one(records: list[Record]) -> None:
    assert list(decode_all(b"".join(map(encode, records)))) == records


@given(RECORDS)
def test_bytes_that_end_too_early_are_refused(record: Record) -> None:
    data = encode(record)
    for length in range(len(data)):
        with pytest.raises(ValueError, match="no event at byte 0|0 events where one"):
            decode(data[:length])


def test_two_events_are_not_one_and_an_unknown_tag_is_none() -> None:
    with pytest.raises(ValueError, match="2 events where one was expected"):
        decode(encode(BID) * 2)
    with pytest.raises(ValueError, match="no event at byte 0"):
        decode(b"\x03")


@given(RECORDS)
def test_fields_may_stand_in_any_order_with_spaces_between(record: Record) -> None:
    fields = json.loads(to_json(record))
    turned = json.dumps(dict(reversed(fields.items())), indent=2)
    assert from_json(turned) == record


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "not a record but a JSON list"),
        ("null", "not a record but a JSON NoneType"),
        ("{}", "the field auction is missing: taken for a bid"),
        ('{"name":"x"}', "the field id is missing: taken for a person"),
        ('{"itemName":"x"}', "the field id is missing: taken for an auction"),
        ('{"auction":1,"bidder":2,"price":true,"dateTime":4,"extra":""}', "price of a bid must be"),
        ('{"auction":1,"bidder":2,"price":3.0,"dateTime":4,"extra":""}', "a whole number, not 3.0"),
        ('{"auction":1,"bidder":2,"price":3,"dateTime":4,"extra":null}', "must be a string, not N"),
        ('{"auction":1,"bidder":2,"price":3,"dateTime":4,"extra":"","x":1}', "has no field x"),
        (f'{{"auction":{2**63},"bidder":2,"price":3,"dateTime":4,"extra":""}}', "64 bits"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(line: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        from_json(line)


def test_quotes_backslashes_and_control_characters_are_escaped() -> None:
    assert to_json(BID._replace(extra='\\"\n')).endswith(r'"extra":"\\\"\n"}')



@given(st.text(max_size=30) | st.just("x" * 3_000))
def test_the_hash_of_a_text_folds_its_utf_16_units(text: str) -> None:
    total = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        total = (31 * total + int.from_bytes(units[at : at + 2], "big")) % 2**32
    assert string_hash(text) == total


def test_the_hash_of_a_bid_worked_out_by_hand() -> None:
    """All fields 0 and no text: what is left are the powers of 31 and the instant's constant."""
    iso, utc = 73 * 961 + 83 * 31 + 79, 85 * 961 + 84 * 31 + 67
    record = 31**5 + (iso * 11 + utc) * 31
    whole = (31**3 + record) % 2**32
    assert java_hash(Bid(0, 0, 0, 0, "")) == (whole - 2**32 if whole >= 2**31 else whole)
