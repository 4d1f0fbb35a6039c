"""Times of evenly paced streams: every place once, really shuffled, watermarks that never lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lab.data.timeline import SPREAD, Timeline

#: Sizes whose product with the spread is the identity, or one place for all.
AWKWARD = [2, 4, 7, 8, 14, 17, 56, 119, 476, 952, SPREAD, 2 * SPREAD]


@given(st.integers(1, 3_000))
@example(2 * SPREAD)
@example(3 * SPREAD)
def test_a_group_is_permuted(group: int) -> None:
    line = Timeline(base_ms=0, rate=1_000, group=group)
    places = line.places(np.arange(3 * group))
    assert sorted(places.tolist()) == list(range(3 * group))
    assert (places // group == np.arange(3 * group) // group).all()


@pytest.mark.parametrize("group", [*AWKWARD, 3, 10, 1_000])
def test_a_group_of_any_size_is_out_of_order(group: int) -> None:
    places = Timeline(base_ms=0, rate=1_000, group=group).places(np.arange(group))
    assert (np.diff(places) < 0).any()


@given(
    st.integers(1, 400), st.sampled_from([1, *AWKWARD[:6], 3, 10]), st.integers(1, 3_000_000),
    st.sampled_from([1, 1_000]),
)
@example(1, 1, 1, 1_000)
def test_no_event_precedes_the_watermark_of_an_earlier_number(
    events: int, group: int, rate: int, grain: int
) -> None:
    line = Timeline(base_ms=5, rate=rate, group=group)
    cut = line.nanos(np.arange(events)) // 1_000 // grain * grain
    for number in {0, events // 3, events - 1}:
        assert line.watermark(number, events, grain) <= cut[number:].min()
    assert line.watermark(events, events, grain) > cut.max()
    marks = [line.watermark(n, events, grain) for n in range(events + 1)]
    assert marks == sorted(marks)
