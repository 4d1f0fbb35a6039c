"""Where sources are after an epoch is decided without Spark: positions in, positions out."""

from __future__ import annotations

import json

from headrace.engine.checkpoint.manifests import LogRecord, SourceRecord
from headrace.engine.positions import FAR_AHEAD, Intake, Positions, Sources, run_away
from headrace.plan.clocks import MAX_TIME, MIN_TIME, SourceClock
from headrace.plan.scripts import Script, ScriptStep, StepKind
from headrace.plan.sources import Frame, Impulse, ScriptOutput

SECOND = 1_000_000
ELEMENTS = ScriptStep(kind=StepKind.ELEMENTS, tag="a", elements=((b"x", 5),))
SCRIPT = Script(
    name="script", coder_id="c", tags=("a", "b"),
    steps=(
        ELEMENTS,
        ScriptStep(kind=StepKind.WATERMARK, tag="a", micros=7),
        ScriptStep(kind=StepKind.CLOCK, micros=9),
    ),
)  # fmt: skip
SOURCES = Sources(
    channels={
        Impulse(): 0, Frame("events"): 1, Frame("table"): 2,
        ScriptOutput("script", "a"): 3, ScriptOutput("script", "b"): 4,
    },
    scripts=(SCRIPT,), bounded=("table",),
)  # fmt: skip
START = Positions(
    clocks={"events": SourceClock(delay=SECOND), "table": SourceClock()}, steps={"script": 0}
)


def test_before_the_first_epoch_only_impulses_are_at_the_end_of_time() -> None:
    assert SOURCES.watermarks(START, now=0) == {
        0: MAX_TIME, 1: MIN_TIME, 2: MIN_TIME, 3: MIN_TIME, 4: MIN_TIME
    }  # fmt: skip
    assert SOURCES.unread(START) == ["table"]
    assert SOURCES.steps_left(START) == 3


def test_a_batch_moves_the_clock_of_its_own_source_and_counts() -> None:
    log = LogRecord(folder="spark/0", batch=4, sums={})
    intake = Intake(frame=object(), source="events", batch=4)
    after = START.after(intake, {"p": 10 * SECOND}, now=3, wakeup=8, log=log)
    assert after.clocks["events"].watermark(3) == 9 * SECOND
    assert after.clocks["table"].watermark(3) == MIN_TIME
    assert (after.batches, after.logs, after.wakeup) == ({"events": 4}, {"events": log}, 8)
    assert after.begun and not START.begun  # what was given is not changed


def test_a_bounded_frame_that_was_read_has_ended() -> None:
    after = START.after(
        Intake(frame=object(), source="table", ending=True), {}, now=0, wakeup=None
    )
    assert SOURCES.unread(after) == []
    assert after.clocks["table"].watermark(0) == MAX_TIME
    assert after.clocks["events"].watermark(0) == MIN_TIME


def test_a_drain_ends_every_source_and_stays() -> None:
    after = START.after(Intake(drain=True), {}, now=0, wakeup=None)
    again = after.after(Intake(), {}, now=1, wakeup=None)
    for positions in (after, again):
        assert positions.drained
        assert all(clock.ended for clock in positions.clocks.values())


def test_the_steps_of_a_script_come_one_by_one_and_the_last_one_ends_it() -> None:
    first = SOURCES.next_step(START)
    assert first.arrivals == ((3, "c", ELEMENTS.elements),)
    second = SOURCES.next_step(first.positions)
    assert (second.arrivals, second.clock_micros) == ((), 0)
    assert SOURCES.watermarks(second.positions, now=0)[3] == 7
    third = SOURCES.next_step(second.positions)
    assert third.clock_micros == 9
    assert SOURCES.steps_left(third.positions) == 0
    assert SOURCES.watermarks(third.positions, now=0)[4] == MAX_TIME


def test_a_step_that_no_stage_reads_brings_nothing_and_is_done() -> None:
    deaf = Sources(channels={}, scripts=(SCRIPT,), bounded=())
    step = deaf.next_step(START)
    assert step.arrivals == ()
    assert deaf.steps_left(step.positions) == 2


def test_what_a_manifest_keeps_gives_the_same_positions_again() -> None:
    log = LogRecord(folder="spark/0", batch=2, sums={"offsets/2": "x"})
    there = SOURCES.next_step(START).positions.after(
        Intake(frame=object(), source="events", batch=2), {"": SECOND}, now=3, wakeup=5, log=log
    )
    told = SourceRecord.from_json(json.loads(json.dumps(there.record(11, "w").to_json())))
    assert (told.now, told.writer) == (11, "w")
    assert START.restored(told, there.batches, there.logs, now=3) == there


def test_silence_while_no_driver_ran_makes_no_partition_idle() -> None:
    clocks = {"events": SourceClock(idle_after=10)}
    there = Positions(clocks=clocks).after(Intake(source="events"), {"p": 1}, now=0, wakeup=None)
    assert there.next_wakeup(0) == 10
    back = Positions(clocks=clocks).restored(there.record(0, "w"), {}, {}, now=500)
    assert back.next_wakeup(500) == 510


def test_what_is_due_first_wakes_the_loop() -> None:
    positions = Positions(
        clocks={"events": SourceClock(idle_after=10).seen({"p": 1}, now=0)}, wakeup=25
    )
    assert positions.next_wakeup(0) == 10
    assert positions.next_wakeup(10) == 25  # it is idle by then


def test_a_partition_that_fell_idle_during_an_epoch_makes_the_next_one_due() -> None:
    """The slower one held the watermark when the epoch began, and nobody speaks any more."""
    clocks = {"events": SourceClock(idle_after=10).seen({"slow": 5, "fast": 50}, now=0)}
    there = Positions(clocks=clocks).after(
        Intake(source="events"), {"fast": 60}, now=9, wakeup=None
    )
    assert there.next_wakeup(9) == 10
    assert there.next_wakeup(12) == 12  # the epoch took until then: it is due at once
    ticked = there.after(Intake(), {}, now=12, wakeup=None)
    assert ticked.clocks["events"].watermark(12) == 60
    assert ticked.next_wakeup(12) == 19  # the other one; it moves nothing
    assert ticked.next_wakeup(20) is None


def test_a_watermark_that_runs_away_from_the_clock_is_told_of_once() -> None:
    far = {"": FAR_AHEAD + 2 * SECOND}
    after = START.after(Intake(source="events"), far, now=0, wakeup=None)
    assert run_away(START, after, now=0) == ["events"]
    again = after.after(Intake(source="events"), far, now=0, wakeup=None)
    assert run_away(after, again, now=0) == []


def test_the_last_batch_of_all_ends_every_source_and_counts() -> None:
    intake = Intake(frame=object(), source="events", batch=0, last=True)
    after = START.after(intake, {}, now=10, wakeup=None)
    assert after.drained and after.batches == {"events": 0}
    assert all(clock.ended for clock in after.clocks.values())
    assert after.read == frozenset()  # the DataFrame is not bounded
