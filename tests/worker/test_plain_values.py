"""Where a key lives depends on the key alone, never on how it was shipped."""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from apache_beam import coders
from apache_beam.coders.coders import LengthPrefixCoder
from hypothesis import given
from hypothesis import strategies as st

from headrace.worker.batched.plain_values import (
    FAITHFUL,
    PLAIN,
    list_check,
    scalar_types,
    tuple_check,
)
from headrace.worker.exchange.keys import ShardOf, int_shard

VAR_INT = coders.VarIntCoder()
TEXT = coders.StrUtf8Coder()
ANY = coders.FastPrimitivesCoder()
PAIR = coders.TupleCoder([VAR_INT, TEXT])
SHARDS = 1_009  # a large prime: two keys on one shard by chance would be rare


class Name(str):
    """A str of the user's own."""


class Point(NamedTuple):
    """A tuple of the user's own."""

    x: int
    label: str


@pytest.mark.parametrize(
    ("coder", "twin", "key"),
    [
        (VAR_INT, True, 1),
        (VAR_INT, False, 0),
        (VAR_INT, np.int64(7), 7),
        (VAR_INT, np.int32(-7), -7),
        (VAR_INT, np.uint8(200), 200),
        (TEXT, Name("kim"), "kim"),
        (TEXT, np.str_("kim"), "kim"),
        (PAIR, Point(3, "a"), (3, "a")),
        (PAIR, (True, "a"), (1, "a")),
        (PAIR, (np.int64(3), Name("a")), (3, "a")),
        (LengthPrefixCoder(VAR_INT), True, 1),
        (coders.FloatCoder(), 1, 1.0),
        (coders.FloatCoder(), True, 1.0),
        (coders.BooleanCoder(), 1, True),
    ],
    ids=repr,
)
def test_keys_that_their_coder_makes_equal_live_on_one_shard(
    coder: Any, twin: Any, key: Any
) -> None:
    assert coder.decode(coder.encode(twin)) == key
    shard_of = ShardOf(coder, SHARDS)
    assert shard_of.any(twin) == shard_of.any(key)


BULK_KEYS = st.integers() | st.text() | st.binary()


@given(BULK_KEYS | st.tuples(BULK_KEYS) | st.tuples(BULK_KEYS, BULK_KEYS))
def test_a_key_shipped_in_bulk_and_one_shipped_as_a_row_live_on_one_shard(key: Any) -> None:
    shard_of = ShardOf(ANY, SHARDS)
    assert shard_of.faithful(key) == shard_of.any(key)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.text())
def test_a_pair_lives_on_one_shard_whichever_way_it_is_shipped(number: int, text: str) -> None:
    shard_of = ShardOf(PAIR, SHARDS)
    assert shard_of.faithful((number, text)) == shard_of.any((number, text))


def test_the_shard_of_a_key_is_the_same_for_ever() -> None:
    """State on disk will be found by it. CRC-32 of the check string 123456789 is cbf43926."""
    assert ShardOf(TEXT, 10_000).any("123456789") == 0xCBF43926 % 10_000
    assert ShardOf(coders.BytesCoder(), 10_000).any(b"123456789") == 0xCBF43926 % 10_000
    # 2**64 divided by the golden ratio, its upper half: what a key of one is multiplied by.
    assert int_shard(1, 1 << 32) == 0x9E3779B9
    assert int_shard(-1, 1 << 32) == 0x61C88646
    assert int_shard(1 << 64, 7) == int_shard(0, 7) == 0


def test_a_float_key_is_hashed_by_its_eight_bytes() -> None:
    expected = zlib.crc32(struct.pack(">d", 1.5)) % SHARDS
    assert ShardOf(coders.FloatCoder(), SHARDS).any(1.5) == expected


def test_neighbouring_numbers_are_spread_evenly() -> None:
    counts = [0] * 8
    for key in range(8_000):
        counts[int_shard(key, 8)] += 1
    assert all(900 < count < 1_100 for count in counts)


@pytest.mark.parametrize(
    ("coder", "types"),
    [
        (VAR_INT, {int}),
        (TEXT, {str}),
        (coders.BytesCoder(), {bytes}),
        (coders.FloatCoder(), {float}),
        (coders.BooleanCoder(), {bool}),
        (LengthPrefixCoder(LengthPrefixCoder(TEXT)), {str}),
        (ANY, set(PLAIN)),
        (coders.PickleCoder(), set()),
        (PAIR, set()),
    ],
    ids=repr,
)
def test_a_coder_names_the_types_it_gives_back_unchanged(coder: Any, types: set[type]) -> None:
    assert scalar_types(coder) == types


@given(st.sampled_from([VAR_INT, TEXT, coders.FloatCoder(), coders.BooleanCoder(), ANY]), st.data())
def test_a_value_of_a_named_type_comes_back_with_its_type(coder: Any, data: Any) -> None:
    made = {
        int: st.integers(-(1 << 63), (1 << 63) - 1), str: st.text(), bytes: st.binary(),
        float: st.floats(allow_nan=False), bool: st.booleans(), type(None): st.none(),
    }  # fmt: skip
    value = data.draw(st.one_of([made[kind] for kind in scalar_types(coder)]))
    back = coder.decode(coder.encode(value))
    assert (type(back), back) == (type(value), value)


@pytest.mark.parametrize(
    ("coder", "value", "passes"),
    [
        (PAIR, (1, "a"), True),
        (PAIR, (True, "a"), False),
        (PAIR, (1, "a", 2), False),
        (PAIR, (1,), False),
        (ANY, (1, b"", "a"), True),
        (ANY, (1, 1.0), False),
        (ANY, (1, (2, 3)), False),
        (ANY, (), True),
        (coders.TupleCoder([ANY, VAR_INT]), ("a", 1), True),
        (coders.TupleCoder([ANY, VAR_INT]), (1.0, 1), False),
        (coders.TupleCoder([ANY, VAR_INT]), ("a", 1, 2), False),
    ],
    ids=repr,
)
def test_only_tuples_of_faithful_fields_may_be_keys_in_bulk(
    coder: Any, value: Any, passes: bool
) -> None:
    check = tuple_check(coder, FAITHFUL)
    assert check is not None
    assert check(value) is passes


def test_a_tuple_with_a_field_of_an_unknown_coder_never_travels_in_bulk() -> None:
    assert tuple_check(coders.TupleCoder([VAR_INT, coders.PickleCoder()]), PLAIN) is None
    assert tuple_check(coders.TupleCoder([VAR_INT, coders.FloatCoder()]), FAITHFUL) is None
    assert tuple_check(VAR_INT, PLAIN) is None


def test_only_a_coder_for_anything_gives_lists_back() -> None:
    assert list_check(ANY)
    assert list_check(LengthPrefixCoder(ANY))
    assert not list_check(VAR_INT)
