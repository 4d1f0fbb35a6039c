"""Residuals in a store: when they may go on, what they hold, and what an epoch costs."""

from __future__ import annotations

import marshal
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.layout import Kind, any_key_group, kind_of, name
from headrace.worker.userstate.residuals import Residuals
from tests.worker.stream_groups import CountingStore

END: int = MAX_TIMESTAMP.micros
STAGE = 3
ELEMENTS = st.sampled_from([b"a", b"b"])


def application(element: bytes, delay: int = 0, hold: int | None = None) -> Any:
    """Make what Beam gives at the end of a bundle; times in microseconds."""
    made = beam_fn_api_pb2.DelayedBundleApplication()
    made.requested_time_delay.FromMicroseconds(delay)
    made.application.element = element
    if hold is not None:
        made.application.output_watermarks["out"].FromMicroseconds(hold)
    return made


def epoch(store: CountingStore) -> Residuals:
    found = Residuals(STAGE)
    found.attach(store)
    return found


def test_a_residual_comes_back_when_it_is_due_and_not_before() -> None:
    store = CountingStore()
    rests = epoch(store)
    rests.add("t", application(b"late", delay=20, hold=7), now=100)
    rests.add("t", application(b"soon", delay=10, hold=9), now=100)
    rests.flush()
    rests = epoch(store)
    assert (rests.next_wakeup(), rests.hold()) == (110, 7)
    assert [r.element for r in rests.take_due(110)] == [b"soon"]
    assert (rests.next_wakeup(), rests.hold()) == (120, 7)
    rests.flush()
    rests = epoch(store)
    assert [r.element for r in rests.take_all()] == [b"late"]
    assert (rests.next_wakeup(), rests.hold()) == (None, END)
    rests.flush()
    assert store.rows == {}


def test_one_that_says_nothing_of_its_output_holds_everything() -> None:
    rests = epoch(CountingStore())
    rests.add("t", application(b"x"), now=0)
    assert rests.hold() == MIN_TIMESTAMP.micros


def test_an_epoch_reads_what_is_due_not_what_waits() -> None:
    store = CountingStore()
    rests = epoch(store)
    for number in range(1_000):
        rests.add("t", application(b"%d" % number, delay=1_000 + number, hold=number), now=0)
    rests.flush()
    store.clear()
    rests = epoch(store)
    assert len(rests.take_due(1_004)) == 5
    assert (rests.next_wakeup(), rests.hold()) == (1_005, 5)
    rests.flush()
    assert store.scanned <= 5 + 4  # the first of each index, when the epoch begins and at its end


def test_two_of_the_same_moment_and_element_are_both_kept() -> None:
    store = CountingStore()
    for _ in range(3):
        rests = epoch(store)
        rests.add("t", application(b"same", delay=5, hold=1), now=0)
        rests.flush()
    rests = epoch(store)
    assert [r.element for r in rests.take_due(5)] == [b"same"] * 3
    rests.flush()
    assert store.rows == {}


def test_rows_of_a_checkpoint_without_the_index_of_holds_get_one() -> None:
    """Such rows were written up to checkpoint format 2."""
    store = CountingStore()
    for due, hold, element in [(10, 4, b"a"), (20, 3, b"b")]:
        row = name(Kind.RESIDUAL, STAGE, any_key_group(element), (0).to_bytes(4, "big"), time=due)
        store.put(row, marshal.dumps((hold, "t", element), 2))
    rests = epoch(store)
    assert (rests.next_wakeup(), rests.hold()) == (10, 3)
    assert [r.element for r in rests.take_due(15)] == [b"a"]
    rests.flush()
    rests = epoch(store)
    assert (rests.next_wakeup(), rests.hold()) == (20, 3)
    assert [r.element for r in rests.take_all()] == [b"b"]
    assert store.rows == {}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), ELEMENTS)),
            st.integers(0, 12),
        ),
        max_size=8,
    )
)
def test_any_sequence_of_epochs_is_that_of_a_plain_list(epochs: list[Any]) -> None:
    store = CountingStore()
    model: list[tuple[int, int, bytes]] = []
    for added, now in epochs:
        rests = epoch(store)
        for delay, hold, element in added:
            rests.add("t", application(element, delay=delay, hold=hold), now=0)
            model.append((delay, hold, element))
        taken = sorted((r.due, r.hold, r.element) for r in rests.take_due(now))
        assert taken == sorted(one for one in model if one[0] <= now)
        model = [one for one in model if one[0] > now]
        assert rests.hold() == min((hold for _, hold, _ in model), default=END)
        assert rests.next_wakeup() == min((due for due, _, _ in model), default=None)
        rests.flush()
        kinds = [kind_of(row) for row in store.rows]
        assert len(kinds) == 2 * len(model)
