"""Java's random numbers: published draws, and arrays of generators against single ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.data.java_random import JavaRandom, JavaRandoms, jumps

SEEDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20)
#: Nearly half of the draws are refused below 2**30 + 1, none below a power of two.
BOUNDS = st.one_of(
    st.sampled_from([1, 2, 13, 26, 10_000, 2**30 + 1, 2**30, 1_500_000_000, 2**31 - 1]),
    st.integers(1, 2**31 - 1),
)


def of(seeds: list[int]) -> tuple[JavaRandoms, list[JavaRandom]]:
    return JavaRandoms.seeded(np.array(seeds, np.int64)), [JavaRandom(seed) for seed in seeds]


def states(single: list[JavaRandom]) -> list[int]:
    return [random.state for random in single]


def cut(many: JavaRandoms) -> list[int]:
    return [int(state) % 2**48 for state in many.states]


def test_the_draws_of_java_itself() -> None:
    """Printed by a Java program."""
    zero = JavaRandom(0)
    assert [zero.int32() for _ in range(3)] == [-1155484576, -723955400, 1033096058]
    for bound, drawn in [(13, [5, 5, 10, 8, 0, 9, 7, 2]), (4, [2, 3, 0, 2, 2, 1, 2, 0])]:
        random = JavaRandom(0)
        assert [random.below(bound) for _ in drawn] == drawn
    four = JavaRandom(4)
    assert [four.double(), four.double()] == [0.7306094602878371, 0.9187140138555101]
    seven = JavaRandom(7)
    assert [seven.below(1_500_000_000) for _ in range(5)] == [
        1371249164, 20678044, 747989380, 1053566254, 1222239534,
    ]
    large = JavaRandom(12345678901)
    assert [large.int64(), large.int64()] == [-4322158335616893940, 2702840415973975052]
    assert [large.below(1), large.below(10_000)] == [0, 6841]


def test_a_generator_goes_on_from_a_state() -> None:
    random = JavaRandom(99)
    random.int32()
    assert JavaRandom.at(random.state).int64() == random.int64()


@given(seeds=SEEDS, bounds=st.lists(BOUNDS, min_size=1, max_size=5))
def test_many_generators_draw_below_a_bound_as_single_ones_do(
    seeds: list[int], bounds: list[int]
) -> None:
    many, single = of(seeds)
    for bound in bounds:
        assert many.below(bound).tolist() == [random.below(bound) for random in single]
        assert many.double().tolist() == [random.double() for random in single]
    assert cut(many) == states(single)


@given(data=st.data(), seeds=SEEDS)
def test_some_of_many_generators_draw_with_bounds_of_their_own(
    data: st.DataObject, seeds: list[int]
) -> None:
    many, single = of(seeds)
    rows = data.draw(st.lists(st.integers(0, len(seeds) - 1), unique=True))
    wide = st.one_of(BOUNDS, st.integers(2**31 - 2, 2**62))
    bounds = data.draw(st.lists(wide, min_size=len(rows), max_size=len(rows)))
    drawn = many.below_long_each(np.array(bounds, np.int64), np.array(rows, np.int64))
    expected = [
        single[row].below(bound) if bound < 2**31 - 1 else java_rest(single[row].int64(), bound)
        for row, bound in zip(rows, bounds, strict=True)
    ]
    assert drawn.tolist() == expected
    assert cut(many) == states(single)


def java_rest(value: int, bound: int) -> int:
    """The magnitude of Java's remainder, which has the sign of the dividend."""
    return value % bound if value >= 0 else -value % bound


@given(seeds=SEEDS, data=st.data())
def test_skipping_is_drawing_and_forgetting(seeds: list[int], data: st.DataObject) -> None:
    many, single = of(seeds)
    counts = data.draw(st.lists(st.integers(1, 300), min_size=len(seeds), max_size=len(seeds)))
    many.skip(np.array(counts, np.int64))
    for random, count in zip(single, counts, strict=True):
        for _ in range(count):
            random.bits(31)
    assert cut(many) == states(single)


def test_jumps_are_known_for_more_draws_than_before() -> None:
    few, _ = jumps(3)
    many, addends = jumps(1_000)
    assert many[:3].tolist() == few.tolist()
    random = JavaRandom(5)
    begin = random.state
    for _ in range(1_000):
        random.bits(1)
    assert (begin * int(many[999]) + int(addends[999])) % 2**48 == random.state
