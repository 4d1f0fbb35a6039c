"""NEXMark's records, many at a time: columns of persons, auctions and bids from event ids.

The order of the draws is Beam's; every value of a record depends on it. Knows nothing of the order
of events, and of time only what it is told.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data.java_random import JavaRandoms
from headrace.lab.data.randoms import I64
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from headrace.lab.workloads.nexmark.texts import exact_strings, lengths_of, spaced_strings
from headrace.lab.workloads.nexmark.times import Schedule

#: The columns of a kind of record in the order of its fields: numbers, or arrays of strings.
Columns = tuple[Any, ...]

BLOCK = 50  # ids of which one is a person, three are auctions, the rest bids
AUCTIONS = 3
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT = 100  # one in so many people or auctions is hot
LEAD = 10  # people and auctions that are named before they appear

_FIRST_NAMES = "Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split()
_LAST_NAMES = "Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split()
_NAMES = pa.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])
_CITIES = pa.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle",
     "Kent", "Cheyenne"]
)
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_FOUR_DIGITS = pa.array([f"{number:04d}" for number in range(10_000)])


def persons(ids: I64, millis: I64, settings: NexmarkSettings) -> Columns:
    """Make the persons whose event ids these are."""
    randoms = JavaRandoms.seeded(ids)
    name = _NAMES.take(pa.array(randoms.below(11) * len(_LAST_NAMES) + randoms.below(9)))
    local, host = spaced_strings(randoms, 7), spaced_strings(randoms, 5)
    email = pc.binary_join_element_wise(local, "@", host, ".com", "")
    groups = [_FOUR_DIGITS.take(pa.array(randoms.below(10_000))) for _ in range(4)]
    card = pc.binary_join_element_wise(*groups, " ")
    city = _CITIES.take(pa.array(randoms.below(len(_CITIES))))
    state = _STATES.take(pa.array(randoms.below(len(_STATES))))
    size = 8 + sum(lengths_of(text) for text in (name, email, card, city, state))
    extra = _extra(randoms, settings.avg_person_byte_size - size)
    return FIRST_ID + ids // BLOCK, name, email, card, city, state, millis, extra


def auctions(
    ids: I64, numbers: I64, millis: I64, schedule: Schedule, settings: NexmarkSettings
) -> Columns:
    """Make the auctions whose event ids these are; `numbers` are their places in time."""
    randoms = JavaRandoms.seeded(ids)
    block, place = np.divmod(ids, BLOCK)
    seller = _hot_or(randoms, settings.hot_sellers_ratio, block // HOT * HOT)
    _some_people(randoms, seller, block, settings)
    category = FIRST_CATEGORY + randoms.below(CATEGORIES)
    initial_bid = prices(randoms)
    horizon = schedule.millis(numbers + settings.ahead) - millis
    rows = np.arange(len(ids))
    expires = millis + 1 + randoms.below_long_each(np.maximum(2 * horizon, 1), rows)
    item_name, description = spaced_strings(randoms, 20), spaced_strings(randoms, 100)
    reserve = initial_bid + prices(randoms)
    size = 48 + lengths_of(item_name) + lengths_of(description)
    extra = _extra(randoms, settings.avg_auction_byte_size - size)
    return (
        FIRST_ID + block * AUCTIONS + place - 1, item_name, description, initial_bid, reserve,
        millis, expires, FIRST_ID + seller, category, extra,
    )


def bids(ids: I64, millis: I64, settings: NexmarkSettings) -> Columns:
    """Make the bids whose event ids these are."""
    randoms = JavaRandoms.seeded(ids)
    block = ids // BLOCK
    newest = block * AUCTIONS + AUCTIONS - 1
    auction = _hot_or(randoms, settings.hot_auction_ratio, newest // HOT * HOT)
    cold = np.flatnonzero(auction < 0)
    oldest = np.maximum(newest[cold] - settings.num_in_flight_auctions, 0)
    auction[cold] = oldest + randoms.below_long_each(newest[cold] - oldest + 1 + LEAD, cold)
    bidder = _hot_or(randoms, settings.hot_bidders_ratio, block // HOT * HOT + 1)
    _some_people(randoms, bidder, block, settings)
    price = prices(randoms)
    extra = _extra(randoms, settings.avg_bid_byte_size - 32)
    return FIRST_ID + auction, FIRST_ID + bidder, price, millis, extra


def _hot_or(randoms: JavaRandoms, ratio: int, hot: I64) -> I64:
    """Choose the hot ones; -1 where chance is against it."""
    return np.where(randoms.below(ratio) > 0, hot, -1)


def _some_people(
    randoms: JavaRandoms, chosen: I64, newest: I64, settings: NexmarkSettings
) -> None:
    """Put one of the active people where none is chosen yet."""
    rows = np.flatnonzero(chosen < 0)
    there = newest[rows] + 1
    active = np.minimum(there, settings.num_active_people)
    chosen[rows] = there - active + randoms.below_long_each(active + LEAD, rows)


def prices(randoms: JavaRandoms) -> I64:
    """Draw prices in cents, their logarithms evenly spread.

    Powers of ten come from the fast exponential function, whose last bits differ between machines.
    Where such a bit could decide about rounding, the C library's power is asked, as Java asks its.
    """
    exponents = randoms.double() * 6
    cents = np.exp(exponents * math.log(10)) * 100 + 0.5
    result = np.floor(cents)
    fraction = cents - result
    for row in np.flatnonzero((fraction < 1e-5) | (fraction > 1 - 1e-5)).tolist():
        result[row] = math.floor(math.pow(10.0, float(exponents[row])) * 100 + 0.5)
    return np.asarray(result.astype(np.int64))


def _extra(randoms: JavaRandoms, wanted: I64 | int) -> pa.StringArray:
    """Make the padding that brings records to their size, give or take a fifth of itself."""
    count = len(randoms.states)
    if isinstance(wanted, int):  # the same for all rows
        fifth = _fifth(max(wanted, 0))
        sizes = np.full(count, max(wanted, 0) - fifth)
        if fifth:
            sizes += randoms.below(2 * fifth)
        return exact_strings(randoms, sizes)
    wanted = np.maximum(wanted, 0)
    fifths = np.floor(0.2 * wanted + 0.5).astype(np.int64)
    sizes = wanted - fifths
    rows = np.flatnonzero(fifths)
    sizes[rows] += randoms.below_each(2 * fifths[rows], rows)
    return exact_strings(randoms, sizes)


def _fifth(wanted: int) -> int:
    return math.floor(0.2 * wanted + 0.5)


def kinds_of(ids: I64) -> npt.NDArray[np.int8]:
    """Give the kind of each event: 0 person, 1 auction, 2 bid."""
    place = ids % BLOCK
    return (place > 0).astype(np.int8) + (place > AUCTIONS)
