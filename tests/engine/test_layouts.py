"""How an epoch is laid out: every reason by example, and what holds whatever is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.layouts import (
    FEW_ELEMENTS,
    FEW_SHARD_RUNS,
    FEW_STATE_ROWS,
    SMALL_SECONDS,
    SMALL_STATE_BYTES,
    Layout,
    Outlook,
    SmallEpochs,
    Work,
    layout_of,
)

#: A timer is due in a pipeline of little state.
SMALL = Outlook(
    wish=SmallEpochs.AUTO, near=True, elements=0, shard_runs=4, state_rows=10, state_bytes=65_536,
    seconds=0.01,
)

STAGES: dict[str, tuple[Outlook, str]] = {
    "turned off": (replace(SMALL, wish=SmallEpochs.OFF), "--small_epochs=off"),
    "a cluster, or a checkpoint far away": (replace(SMALL, near=False), "not on one machine"),
    "impulses may stand for all the data": (replace(SMALL, known=False), "how much"),
    "rows of a DataFrame that nobody counted": (replace(SMALL, elements=None), "how much"),
    "many elements": (replace(SMALL, elements=FEW_ELEMENTS + 1), "elements come in"),
    "many shards": (replace(SMALL, shard_runs=FEW_SHARD_RUNS + 1), "shards"),
    "much may fire": (replace(SMALL, state_rows=FEW_STATE_ROWS + 1), "rows of state"),
    "large values": (replace(SMALL, state_bytes=SMALL_STATE_BYTES + 1), "bytes of state"),
    "nobody has seen one": (replace(SMALL, seconds=None), "first of its kind"),
    "functions that take long": (replace(SMALL, seconds=2 * SMALL_SECONDS), "of late"),
    "one process was not enough": (replace(SMALL, lost=True), "lost"),
    "one task would mix the partitions": (replace(SMALL, fed_in_order=True), "order"),
}


def test_a_small_epoch_is_one_task() -> None:
    assert layout_of(SMALL)[0] is Layout.ONE_TASK


@pytest.mark.parametrize(("outlook", "reason"), STAGES.values(), ids=STAGES.keys())
def test_an_epoch_is_stages_and_says_why(outlook: Outlook, reason: str) -> None:
    layout, found = layout_of(outlook)
    assert layout is Layout.STAGES
    assert reason in found


@given(
    st.builds(
        Outlook, wish=st.sampled_from(SmallEpochs), near=st.booleans(),
        fed_in_order=st.booleans(), known=st.booleans(),
        elements=st.none() | st.integers(0, 3 * FEW_ELEMENTS),
        shard_runs=st.integers(0, 3 * FEW_SHARD_RUNS),
        state_rows=st.integers(0, 3 * FEW_STATE_ROWS),
        state_bytes=st.integers(0, 3 * SMALL_STATE_BYTES),
        seconds=st.none() | st.floats(0, 3 * SMALL_SECONDS), lost=st.booleans(),
    )  # fmt: skip
)
def test_what_the_user_wants_holds_and_less_of_anything_is_never_less_small(o: Outlook) -> None:
    layout, _ = layout_of(o)
    if o.wish is SmallEpochs.OFF:
        assert layout is Layout.STAGES
    if o.wish is SmallEpochs.ALWAYS and not (o.fed_in_order or o.lost):
        assert layout is Layout.ONE_TASK
    if layout is Layout.ONE_TASK:
        less = replace(o, elements=0, shard_runs=0, state_rows=0, state_bytes=0, seconds=0.0)
        assert layout_of(less)[0] is Layout.ONE_TASK


def test_a_long_epoch_is_forgotten_by_halves_and_only_for_what_fed_it() -> None:
    work = Work().after("", 0.01).after("bids", 4.0)
    assert work.of_late("") == 0.01
    seen = []
    for _ in range(6):
        work = work.after("bids", 0.05)
        seen.append(work.of_late("bids"))
    assert seen == [2.0, 1.0, 0.5, 0.25, 0.125, 0.0625]
