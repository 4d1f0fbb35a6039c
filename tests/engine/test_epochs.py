"""What a streaming run does next: every action by example, and what holds in every situation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.epochs import Action, Situation, next_action

#: A run in the middle of its life with nothing to do: one DataFrame may still bring rows.
QUIET = Situation(
    begun=True, unread=0, steps=0, listening=1, suspended=0, ended=False, wakeup=None, now=100,
    stop_requested=False, drain_requested=False, drained=False,
)

EXAMPLES: dict[str, tuple[Situation, Action]] = {
    "nothing is committed yet": (replace(QUIET, begun=False), Action.BEGIN),
    "drained before it began": (
        replace(QUIET, begun=False, drain_requested=True), Action.BEGIN,
    ),
    "a bounded frame waits": (replace(QUIET, unread=1, steps=1), Action.READ),
    "a test stream has steps": (replace(QUIET, steps=1, wakeup=1), Action.STEP),
    "nothing is due": (QUIET, Action.WAIT),
    "something will be due": (replace(QUIET, wakeup=101), Action.WAIT),
    "something is due now": (replace(QUIET, wakeup=100), Action.TICK),
    "told to drain": (replace(QUIET, drain_requested=True, wakeup=1), Action.DRAIN),
    "drained, a timer is left": (
        replace(QUIET, drain_requested=True, drained=True, ended=True, wakeup=1), Action.TICK,
    ),
    "drained, all is out": (
        replace(QUIET, drain_requested=True, drained=True, ended=True), Action.FINISH,
    ),
    "steps after a drain do not count": (
        replace(QUIET, drained=True, steps=3, unread=2, ended=True), Action.FINISH,
    ),
    "started again after it was drained": (
        replace(QUIET, drained=True, ended=True), Action.FINISH,
    ),
    "told to stop": (replace(QUIET, stop_requested=True), Action.STOP),
    "told to stop before it began": (
        replace(QUIET, begun=False, stop_requested=True), Action.STOP,
    ),
    "told to stop and to drain": (
        replace(QUIET, stop_requested=True, drain_requested=True), Action.STOP,
    ),
    "all that is there now was read": (
        replace(QUIET, listening=0, suspended=1), Action.STOP,
    ),
    "all that is there now was read, and the run is to end with it": (
        replace(QUIET, listening=0, suspended=1, drains_when_read=True), Action.DRAIN,
    ),
    "told to end with what is there, and one of two frames still reads": (
        replace(QUIET, listening=1, suspended=1, drains_when_read=True), Action.WAIT,
    ),
    "one of two frames still reads": (replace(QUIET, listening=1, suspended=1), Action.WAIT),
    "no source is left": (replace(QUIET, listening=0, ended=True), Action.FINISH),
    "no source is left, a timer is": (
        replace(QUIET, listening=0, ended=True, wakeup=200), Action.WAIT,
    ),
    "a rest holds the watermark": (replace(QUIET, listening=0, wakeup=99), Action.TICK),
    "something holds the watermark for ever": (replace(QUIET, listening=0), Action.STUCK),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_situation_has_its_action(name: str) -> None:
    situation, action = EXAMPLES[name]
    assert next_action(situation) is action


def test_the_examples_show_every_action() -> None:
    assert {action for _, action in EXAMPLES.values()} == set(Action)


few = st.integers(0, 2)
times = st.integers(0, 3)
situations = st.builds(
    Situation, begun=st.booleans(), unread=few, steps=few, listening=few, suspended=few,
    ended=st.booleans(), wakeup=st.none() | times, now=times, stop_requested=st.booleans(),
    drain_requested=st.booleans(), drains_when_read=st.booleans(), drained=st.booleans(),
)


@given(situations)
def test_a_told_stop_wins_over_everything(s: Situation) -> None:
    assert next_action(replace(s, stop_requested=True)) is Action.STOP


@given(situations)
def test_nothing_runs_before_the_first_epoch(s: Situation) -> None:
    assert next_action(replace(s, begun=False)) in (Action.BEGIN, Action.STOP)


@given(situations)
def test_a_run_begins_once_and_drains_once(s: Situation) -> None:
    action = next_action(s)
    assert not (s.begun and action is Action.BEGIN)
    assert not (s.drained and action is Action.DRAIN)


@given(situations)
def test_a_drained_run_takes_nothing_more(s: Situation) -> None:
    assert next_action(replace(s, begun=True, drained=True, stop_requested=False)) in (
        Action.FINISH, Action.TICK, Action.WAIT, Action.STUCK,
    )


@given(situations)
def test_no_run_finishes_with_work_left(s: Situation) -> None:
    if next_action(s) is Action.FINISH:
        assert s.begun and s.ended and s.wakeup is None
        assert s.drained or not (s.unread or s.steps or s.listening or s.drain_requested)


@given(situations)
def test_no_run_waits_while_something_is_due(s: Situation) -> None:
    if next_action(s) is Action.WAIT:
        assert s.wakeup is None or s.wakeup > s.now
        assert s.drained or not (s.unread or s.steps or s.drain_requested)


@given(situations)
def test_no_run_waits_for_nothing(s: Situation) -> None:
    """Only a clock that will come to a wakeup, or a source, can end a wait."""
    if next_action(s) is Action.WAIT:
        assert s.wakeup is not None or s.listening


@given(situations)
def test_a_run_that_has_ended_is_not_stuck(s: Situation) -> None:
    if next_action(s) is Action.STUCK:
        assert not s.ended and s.wakeup is None


@given(situations)
def test_a_tick_needs_a_reason(s: Situation) -> None:
    if next_action(s) is Action.TICK:
        assert s.wakeup is not None and s.wakeup <= s.now


@given(situations)
def test_a_script_is_played_to_its_end_by_turns(s: Situation) -> None:
    """Whatever a run has to read is read in a bounded number of turns, each of which takes one."""
    s = replace(s, begun=True, stop_requested=False, drain_requested=False, drained=False)
    turns = 0
    while (action := next_action(s)) in (Action.READ, Action.STEP):
        turns += 1
        s = (
            replace(s, unread=s.unread - 1)
            if action is Action.READ
            else replace(s, steps=s.steps - 1)
        )
    assert (s.unread, s.steps) == (0, 0)
    assert turns <= 4
