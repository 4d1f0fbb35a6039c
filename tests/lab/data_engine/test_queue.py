"""The queue of one partition, in a time that the test moves."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.queue import PartitionQueue, QueueError
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.data_engine.shares import Share

START = 1_000.0


def make(start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": list(range(start, start + count))})


def queue_of(
    rate: float = 100, seconds: float = 10, block: int = 8, limits: Limits | None = None,
    make: Callable[[int, int], pa.RecordBatch] = make,
) -> PartitionQueue:
    share = Share(partition=0, partitions=1, block=block)
    return PartitionQueue(share, Schedule.steady(rate, seconds), make, limits)


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["number"].to_pylist()]


def test_nothing_is_due_before_the_first_pull() -> None:
    queue = queue_of()
    queue.advance(START)
    queue.advance(START + 100)
    assert (queue.made, queue.samples) == (0, [])
    queue.start(START + 200)
    queue.advance(START + 201)
    assert queue.made == 101  # the schedule began with the start, not with the process


def test_events_can_be_taken_when_they_are_due_and_not_before() -> None:
    queue = queue_of()
    queue.start(START)
    assert numbers(queue.pull(0, 1_000)) == [0]
    queue.advance(START + 0.5)
    assert numbers(queue.pull(1, 1_000)) == list(range(1, 51))
    assert queue.length == 0


def test_what_one_of_two_readers_has_done_with_is_held_for_the_other() -> None:
    queue = queue_of()
    queue.start(START)
    queue.offer("ahead")
    queue.offer("behind")
    queue.advance(START + 1)
    queue.pull(0, 60)
    queue.acknowledge(60, "ahead")
    assert queue.acknowledged == 0
    assert numbers(queue.pull(0, 60)) == list(range(60))
    queue.acknowledge(40, "behind")
    assert queue.acknowledged == 40
    queue.acknowledge(60, "behind")
    assert queue.acknowledged == 60


def test_what_was_taken_can_be_taken_again_until_it_is_acknowledged() -> None:
    queue = queue_of()
    queue.start(START)
    queue.advance(START + 1)
    first = numbers(queue.pull(0, 60))
    assert numbers(queue.pull(0, 60)) == first == list(range(60))
    assert queue.replayed == 60
    queue.acknowledge(60)
    with pytest.raises(QueueError, match="acknowledged and is gone"):
        queue.pull(59, 1)
    assert numbers(queue.pull(60, 1)) == [60]


def test_what_was_not_taken_cannot_be_acknowledged_nor_what_was_not_made_taken() -> None:
    queue = queue_of()
    queue.start(START)
    with pytest.raises(QueueError, match="only 0 events were taken"):
        queue.acknowledge(1)
    with pytest.raises(QueueError, match="ahead of the 1 events"):
        queue.pull(2, 1)


def test_an_engine_that_was_not_there_in_time_voids_the_run() -> None:
    queue = queue_of()
    queue.start(START)
    queue.advance(START + 0.3)
    assert not queue.void
    queue.advance(START + 0.9)  # events were due from 0.31 on
    assert "0.59 s behind its own schedule" in queue.void
    assert queue.latest_seconds == pytest.approx(0.59)


def test_a_generator_slower_than_its_rate_voids_the_run() -> None:
    """Each block takes a tenth of a second to make, and is to last for eight hundredths."""
    now = START

    def slowly(start: int, count: int) -> pa.RecordBatch:
        nonlocal now
        now += 0.1
        return make(start, count)

    queue = queue_of(make=slowly)
    queue.start(now)
    while not queue.ended:
        queue.advance(now)
        now += 0.01
    assert "could not make its events in time" in queue.void


def test_a_reader_that_does_not_keep_up_ends_the_making() -> None:
    queue = queue_of(limits=Limits(acceptable=50, limit=200))
    queue.start(START)
    for step in range(1, 100):
        queue.advance(START + step / 10)
        if queue.ended:
            break
        # Half of what is made is taken.
        taken = queue.made // 2
        if taken > queue.pulled:
            queue.pull(queue.pulled, taken - queue.pulled)
    # Looked at after 50, 100, 150, ... events: 30, 55, 80 and so on wait (what is made at a look
    # is half a step old); the first look that counts is the second one, the fourth ends it.
    assert queue.unsustained == "above 50 for 4 looks in a row"
    # What was made at that look and not taken is not sent any more; the record has the queue.
    assert queue.total == queue.made == queue.pulled < 250
    assert max(sample.made - sample.pulled for sample in queue.samples) == 250 - queue.pulled


def test_what_a_reader_has_planned_with_is_still_sent_when_it_is_cut_off() -> None:
    queue = queue_of(limits=Limits(acceptable=50, limit=60))
    queue.start(START)
    queue.advance(START + 0.3)
    assert queue.offer() == 31
    queue.advance(START + 1)
    assert queue.unsustained
    assert queue.total == queue.made == 31
    assert numbers(queue.pull(0, 100)) == list(range(31))
    queue.advance(START + 2)
    assert queue.ended and queue.made == 31


def test_a_reader_whose_events_wait_for_too_long_is_cut_off_at_any_rate() -> None:
    queue = queue_of(limits=Limits.of_age(0.5))
    queue.start(START)
    said = []
    for seconds in (0.1, 0.2, 0.3, 0.4, 0.5, 0.79, 0.9):
        queue.advance(START + seconds)
        said.append(queue.unsustained)
        if seconds == 0.5:
            queue.pull(0, 30)  # the next one was due at 0.3 s
    assert said == [""] * 6 + ["an event has waited 0.6 s, more than 0.5 s"]
    assert queue.total == 30


def test_a_reader_that_keeps_up_sees_the_whole_schedule() -> None:
    queue = queue_of(limits=Limits(acceptable=50, limit=200))
    queue.start(START)
    for step in range(1, 101):
        queue.advance(START + step / 10)
        queue.pull(queue.pulled, 1_000)
        queue.acknowledge(queue.pulled)
    assert (queue.unsustained, queue.total, queue.pulled) == ("", 1_000, 1_000)
    assert [sample.made for sample in queue.samples[:3]] == [1, 11, 21]


def test_stopping_early_ends_with_what_was_made() -> None:
    queue = queue_of()
    queue.start(START)
    queue.advance(START + 1)
    queue.stop()
    queue.advance(START + 2)
    assert (queue.total, queue.made, queue.ended) == (101, 101, True)


@given(
    st.integers(1, 40), st.integers(1, 3),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 80), st.booleans()), max_size=30),
)
def test_whatever_is_taken_in_whatever_pieces_is_each_event_once_in_order(
    block: int, partitions: int, steps: list[tuple[float, int, bool]]
) -> None:
    share = Share(partition=partitions - 1, partitions=partitions, block=block)
    queue = PartitionQueue(share, Schedule.steady(100, 10), make)
    queue.start(START)
    now, got = START, list[int]()
    for wait, most, acknowledges in [*steps, (20.0, 10_000, True)]:
        now += wait
        queue.advance(now)
        got += numbers(queue.pull(len(got), most))
        if acknowledges:
            queue.acknowledge(len(got))
    expected = [n for n in range(1_000) if n // block % partitions == partitions - 1]
    assert got == expected


def test_a_schedule_that_holds_goes_on_when_all_before_was_taken() -> None:
    share = Share(partition=0, partitions=1, block=8)
    limits = Limits(acceptable=10, limit=20)
    queue = PartitionQueue(share, Schedule.steady(100, 10), make, limits, hold=1.0)
    queue.start(START)
    for seconds in (0.5, 1.0, 3.0, 7.0):  # a system that takes seven seconds to be there
        queue.advance(START + seconds)
    assert (queue.made, queue.unsustained, queue.void) == (101, "", "")
    assert [sample.seconds for sample in queue.samples][-1] == 1.0
    queue.pull(0, 101)
    queue.advance(START + 8.0)
    assert queue.made == 101
    assert queue.started == START + 7.0  # the second of before, and no time since
    queue.advance(START + 8.05)
    assert queue.made == 106
    queue.advance(START + 8.5)
    assert queue.unsustained  # from here on it is looked at
    assert not queue.void


def test_partitions_that_hold_do_not_wait_for_each_others_blocks() -> None:
    share = Share(partition=1, partitions=2, block=8)
    queue = PartitionQueue(share, Schedule.steady(100, 10), make, hold=1.0)
    queue.start(START)
    queue.advance(START + 1.0)
    queue.pull(0, queue.made - 8)
    queue.advance(START + 2.0)
    queue.advance(START + 2.5)
    assert queue.made > share.offset_at(101)


def open_queue(limits: Limits | None = None) -> PartitionQueue:
    share = Share(partition=0, partitions=1, block=8)
    return PartitionQueue(share, Schedule.steady(100, 1), make, limits, is_open=True)


def test_an_open_queue_waits_at_its_end_and_goes_on_from_the_time_at_which_it_is_told() -> None:
    queue = open_queue()
    queue.start(START)
    queue.advance(START + 5)
    assert (queue.made, queue.ended, queue.waits) == (100, False, False)
    queue.pull(0, 1_000)
    assert queue.waits
    queue.go_on(START + 9, (Phase(2, 1_000),), make, None)
    queue.advance(START + 9.5)
    assert numbers(queue.pull(100, 10_000)) == list(range(100, 601))
    queue.advance(START + 20)
    assert queue.made == 2_100
    queue.pull(601, 10_000)
    # The second load's own clock begins at 1 s, where the schedule of the first has ended.
    assert queue.started == START + 8
    queue.stop()
    assert (queue.ended, queue.waits, queue.total) == (True, False, 2_100)


def test_a_reader_that_is_cut_off_is_put_under_the_next_load_without_the_rest() -> None:
    queue = open_queue()
    queue.start(START)
    queue.advance(START + 2)
    queue.pull(0, 1_000)
    queue.go_on(START + 2, (Phase(10, 1_000),), make, Limits(acceptable=100, limit=300))
    queue.advance(START + 2.1)
    queue.pull(100, 50)  # 150 are taken
    queue.advance(START + 4)
    assert queue.unsustained == "above 100 for 3 looks in a row"
    assert (queue.made, queue.ended, queue.waits) == (150, False, True)
    assert queue.schedule.events == 150
    assert queue.schedule.seconds == pytest.approx(1.05)
    queue.go_on(START + 10, (Phase(1, 40),), make, None)
    assert queue.unsustained == ""
    queue.advance(START + 20)
    assert numbers(queue.pull(150, 1_000)) == list(range(150, 190))
    assert queue.schedule.due(189) == pytest.approx(1.05 + 39 / 40)


def test_what_has_an_end_or_something_left_is_not_told_more() -> None:
    queue = queue_of(seconds=1)
    queue.start(START)
    queue.advance(START + 2)
    queue.pull(0, 1_000)
    with pytest.raises(QueueError, match="is not told more"):
        queue.go_on(START + 3, (Phase(1, 1),), make, None)
    queue = open_queue()
    queue.start(START)
    queue.advance(START + 2)
    with pytest.raises(QueueError, match="has 100 events to give"):
        queue.go_on(START + 3, (Phase(1, 1),), make, None)
    with pytest.raises(QueueError, match="2 partitions cannot be told more"):
        share = Share(partition=0, partitions=2, block=8)
        PartitionQueue(share, Schedule.steady(1, 1), make, is_open=True)


@given(st.floats(200, 5e6))
def test_a_limit_of_twice_what_is_acceptable_bears_two_looks_at_any_rate(rate: float) -> None:
    assert Limits.of_rate(rate, 1.5, 3).patience == 2
    assert Limits.of_rate(rate, 1, 5).patience == 5
