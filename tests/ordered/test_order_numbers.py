"""Order numbers: how writers make them, how they travel, and how rows are merged by them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import PlanError, TransportError
from headrace.plan.order import (
    FIRED_WIDTH,
    ROW_BITS,
    SOURCE_WIDTH,
    SUB_BITS,
    PortOrder,
    StageOrder,
    source_number,
)
from headrace.worker.exchange.merge import Merger
from headrace.worker.exchange.order_numbers import Numberer, Numbers, pack, unpack

WIDTH = 40
numbers = st.lists(st.integers(0, (1 << 8 * WIDTH) - 1), min_size=1, max_size=50)
runs = st.builds(
    lambda start, step, count: range(start, start + step * count, step),
    st.integers(0, 1 << 200), st.integers(1, 1 << 60), st.integers(1, 1_000),
)
near = st.lists(st.integers(1 << 90, (1 << 90) + 10_000), min_size=1, max_size=50)


many = st.lists(st.integers(1, 300), min_size=1, max_size=50).map(
    lambda counts: [
        (source_number(0, 5) + i << SUB_BITS | sub)
        for i, count in enumerate(counts) for sub in range(count)
    ]
)
around_a_carry = st.lists(
    st.integers((1 << 64) - 300, (1 << 64) + 300), min_size=1, max_size=50
)


@settings(deadline=None)
@given(numbers | near | runs | many | around_a_carry, st.booleans())
def test_numbers_come_back_as_they_went(found: Numbers, sized: bool) -> None:
    sizes = [i * i for i in range(len(found))] if sized else None
    packed = unpack(pack(found, WIDTH, sizes), WIDTH)
    assert list(packed.numbers) == list(found)
    assert packed.sizes == sizes


@settings(deadline=None)
@given(numbers | near, numbers | near)
def test_rows_sort_by_their_least_number(a: list[int], b: list[int]) -> None:
    if min(a) != min(b):
        assert (pack(a, WIDTH) < pack(b, WIDTH)) == (min(a) < min(b))


def test_a_run_of_equal_steps_costs_the_same_whatever_its_length() -> None:
    def size(found: Numbers) -> int:
        return len(pack(found, 11))

    base = source_number(3, 2)
    assert size(range(base, base + 10)) == size(range(base, base + 100_000))
    assert size(list(range(base, base + 40_000, 4))) == size(range(base, base + 40_000, 4))
    # Gaps are coded by their differences: one byte each where they are small.
    gaps = [base + i * 3 + (i % 2) for i in range(10_000)]
    assert size(gaps) < 10_200


def bytes_each(found: Numbers, sizes: list[int] | None = None) -> float:
    return (len(pack(found, WIDTH, sizes)) - WIDTH) / len(found)


def test_what_travels_with_each_element_is_a_few_bytes() -> None:
    """The table in docs/decisions/2026-11-16-order-numbers.md."""
    base = source_number(3, 2)
    keyed = [base + i for i in range(40_000) if i % 7 in (1, 5)]
    assert bytes_each(keyed) < 1.1
    # Several outputs of one element: a byte for the element, a byte for the sub-index.
    many = [base + i << SUB_BITS | sub for i in range(3_000) for sub in range(i % 5)]
    assert bytes_each(many) < 2.1
    twice = [n << SUB_BITS | sub for n in many for sub in range(2)]
    assert bytes_each(twice) < 3.1
    # Panes of one window: its end is shared, the key is not.
    order = StageOrder(width=FIRED_WIDTH, phase=1)
    panes = sorted(order.fired(60_000_000, b"key %d" % i) for i in range(10_000))
    assert bytes_each(panes) < 14.1


def test_sizes_of_elements_cost_what_they_need() -> None:
    base = source_number(0, 0)
    run = range(base, base + 10_000)
    assert bytes_each(run, [12] * 10_000) < 0.1
    assert bytes_each(run, [12, 14] * 5_000) < 1.1
    assert bytes_each(run, [12, 1_400] * 5_000) < 2.1


@settings(deadline=None)
@given(st.lists(numbers.map(sorted), min_size=1, max_size=8))
def test_merging_rows_sorts_their_elements(rows: list[list[int]]) -> None:
    merger: Merger[list[str]] = Merger(
        lambda contents: [e for content in contents for e in content],
        lambda content, places: [content[i] for i in places],
    )
    given_rows = sorted(rows, key=min)
    merged = [m for row in given_rows for m in merger.add(row, [f"e{n}" for n in row])]
    merged += merger.flush()
    together = [n for m in merged for n in m.numbers]
    assert together == sorted(n for row in rows for n in row)
    assert [e for m in merged for e in m.content] == [f"e{n}" for n in together]


def test_rows_that_do_not_overlap_pass_as_they_are() -> None:
    def fail(*_: object) -> str:
        raise AssertionError

    merger: Merger[str] = Merger(fail, fail)
    found = [m for i in range(5) for m in merger.add(range(i * 10, i * 10 + 10), f"row {i}")]
    found += merger.flush()
    assert [m.content for m in found] == [f"row {i}" for i in range(5)]


def test_what_is_whole_is_not_held() -> None:
    merger: Merger[list[int]] = Merger(
        lambda contents: [e for content in contents for e in content],
        lambda content, places: [content[i] for i in places],
    )
    most, given_back = 0, 0
    for i in range(1_000):  # two writers whose rows overlap by half
        row = list(range(i * 50, i * 50 + 100, 2 if i % 2 else 3))
        given_back += sum(len(m.numbers) for m in merger.add(row, row))
        most = max(most, merger.held)
    assert most < 500
    given_back += sum(len(m.numbers) for m in merger.flush())
    assert given_back == sum(50 if i % 2 else 34 for i in range(1_000))


def test_rows_out_of_order_are_refused() -> None:
    merger: Merger[str] = Merger(lambda c: c[0], lambda c, _: c)
    list(merger.add([10, 11], ""))
    with pytest.raises(TransportError, match="out of order"):
        list(merger.add([5], ""))


def test_outputs_of_one_cause_are_counted() -> None:
    many = Numberer(PortOrder(shift=0, many=True, width=SOURCE_WIDTH + SUB_BITS))
    assert list(many.each([4, 4, 6])) == [4 << SUB_BITS, 4 << SUB_BITS | 1, 6 << SUB_BITS]
    assert many.one(6) == 6 << SUB_BITS | 1  # goes on where the batch ended
    assert many.one(7) == 7 << SUB_BITS
    plain = Numberer(PortOrder(shift=0, width=SOURCE_WIDTH))
    assert plain.each(range(5, 9)) == range(5, 9)


def test_branches_that_meet_come_one_after_the_other_for_each_cause() -> None:
    left = Numberer(PortOrder(shift=4, branch=0, width=100))
    right = Numberer(PortOrder(shift=0, branch=1, width=100))
    wide = [n << 4 for n in (1, 2)]  # the right branch is four bits wider
    names = dict.fromkeys(left.each([1, 2]), "left") | dict.fromkeys(right.each(wide), "right")
    assert [names[number] for number in sorted(names)] == ["left", "right"] * 2


def test_what_nothing_caused_is_refused() -> None:
    with pytest.raises(PlanError, match="no element, timer or pane"):
        Numberer(PortOrder(shift=0)).one(None)


def test_what_fires_comes_after_elements_and_by_time_then_key() -> None:
    order = StageOrder(width=max(FIRED_WIDTH, SOURCE_WIDTH), phase=1)
    last_row = (source_number(5, 7) | (1 << ROW_BITS) - 1) << order.width - SOURCE_WIDTH
    fired = [
        order.fired(time, key, start, pane)
        for time in (-5, 0, 7)
        for key in (b"a", b"ab", b"b")
        for start in (-9, 3)
        for pane in (0, 1)
    ]
    assert fired == sorted(set(fired))
    assert last_row < fired[0]
    assert fired[-1] < order.ended()
    assert order.ended() < StageOrder(width=order.width, phase=2).fired(-(1 << 63), b"")


def test_no_more_partitions_than_numbers_have_room_for() -> None:
    with pytest.raises(OverflowError, match="at most"):
        source_number(0, 1 << 30)
