"""Random texts and prices of NEXMark in the cases that chance brings too seldom."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lab.data.java_random import JavaRandoms
from headrace.lab.workloads.nexmark import texts
from headrace.lab.workloads.nexmark.records import prices
from headrace.lab.workloads.nexmark.texts import exact_strings, spaced_strings, spread, strings_of
from tests.lab.nexmark import plain

FACTOR, ADDEND = 0x5DEECE66D, 0xB
STATES = st.lists(st.integers(0, 2**48 - 1), min_size=1, max_size=30)


def before(state: int, draws: int) -> int:
    """The state from which so many draws lead to this one."""
    inverse = pow(FACTOR, -1, 2**48)
    for _ in range(draws):
        state = (state - ADDEND) * inverse % 2**48
    return state


def single(state: int) -> plain.Random:
    random = plain.Random(0)
    random.s = state
    return random


def check_spaced(states: list[int], most: int) -> None:
    many, alone = JavaRandoms(np.array(states, np.uint64)), [single(state) for state in states]
    assert strings_of(spaced_strings(many, most)) == [random.string(most) for random in alone]
    assert [int(state) % 2**48 for state in many.states] == [random.s for random in alone]


@given(states=STATES, most=st.sampled_from([4, 5, 7, 20, 100]))
def test_strings_with_spaces_are_what_single_draws_make(states: list[int], most: int) -> None:
    check_spaced(states, most)


@pytest.mark.parametrize("most", [5, 7, 20, 100])
def test_a_draw_that_is_refused_is_repeated(most: int) -> None:
    """The last 24 of the 2**31 draws are refused for letters, the last 11 of them for spaces."""
    refused = [(2**31 - back << 17) + 12_345 for back in (1, 5, 11, 12, 20, 24, 25)]
    check_spaced([before(state, draws) for state in refused for draws in range(1, 40)], most)


def test_many_rows_are_worked_on_in_blocks_and_repaired_in_each() -> None:
    refused = (2**31 - 1 << 17) + 1
    with mock.patch.object(texts, "_BLOCK", 100):
        check_spaced([before(refused, draws % 30 + 1) for draws in range(200)], 20)


@given(states=STATES, data=st.data())
@example(states=[before(2**47, 1)], data=None)  # -2**31, whose magnitude has 32 bits
@example(states=[before(2**47 - 1, 1)], data=None)
def test_exact_strings_are_what_single_draws_make(
    states: list[int], data: st.DataObject | None
) -> None:
    sizes = [20] * len(states)
    if data is not None:
        sizes = data.draw(st.lists(st.integers(0, 40), min_size=len(states), max_size=len(states)))
    many = JavaRandoms(np.array(states, np.uint64))
    made = strings_of(exact_strings(many, np.array(sizes)))
    assert made == [
        single(state).exact(size) for state, size in zip(states, sizes, strict=True)
    ]


def test_texts_longer_than_a_block_are_made_row_by_row() -> None:
    with mock.patch.object(texts, "_BLOCK", 10):
        made = strings_of(exact_strings(JavaRandoms.seeded(np.arange(3)), np.array([100, 0, 61])))
    assert made == [plain.Random(seed).exact(size) for seed, size in [(0, 100), (1, 0), (2, 61)]]


def test_strings_are_spread_over_rows_and_the_others_are_empty() -> None:
    made = exact_strings(JavaRandoms.seeded(np.arange(4)), np.array([2, 0, 3, 4]))
    words = strings_of(made)
    later = spread(made.slice(2), np.array([0, 3]), 5)
    assert later.to_pylist() == [words[2], "", "", words[3], ""]
    assert strings_of(made.slice(1, 2)) == words[1:3]


def test_two_million_prices_are_those_of_the_c_library() -> None:
    seeds = np.arange(2_000_000)
    exponents = (JavaRandoms.seeded(seeds).double() * 6).tolist()
    expected = [math.floor(math.pow(10.0, each) * 100 + 0.5) for each in exponents]
    assert prices(JavaRandoms.seeded(seeds)).tolist() == expected


def test_a_price_that_the_last_bit_decides_is_rounded_as_the_c_library_says() -> None:
    halves = np.random.default_rng(1).integers(10**4, 10**8, 5_000) + 0.5
    near = np.log10(halves / 100) / 6
    randoms = mock.Mock()
    randoms.double.return_value = near
    expected = [math.floor(math.pow(10.0, each) * 100 + 0.5) for each in (near * 6).tolist()]
    assert prices(randoms).tolist() == expected
