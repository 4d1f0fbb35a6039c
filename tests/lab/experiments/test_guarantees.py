"""What a run has shown of what systems promise, and what it has not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.guarantees import Seen, Witness, promises
from headrace.lab.record.trial import Fault, Load

CALM = Seen(
    system="a", question="count", fault="", void="", rows=10, wrong="", checkpoint_bytes=None
)
HURT = replace(CALM, fault="kill-worker")
DEAD = replace(CALM, fault="kill-driver")
ONCE, ORDER, DURABLE = 0, 1, 2


@pytest.mark.parametrize(
    ("seen", "which", "shown", "said"),
    [
        ([], ONCE, None, "no worker was killed"),
        ([CALM], ONCE, None, "no worker was killed"),
        ([CALM, HURT], ONCE, True, "every row came once: count 10 rows"),
        ([HURT, replace(HURT, wrong="wrong answer: 1 rows missing")], ONCE, False, "1 rows miss"),
        ([replace(HURT, void="no worker was at work")], ONCE, None, "count: no worker was at work"),
        ([replace(HURT, void="the system failed: X")], ONCE, False, "count: the system failed: X"),
        ([replace(HURT, system="b")], ONCE, None, "no worker was killed"),
        ([CALM], ORDER, None, "no question of this run depends on it"),
        ([replace(CALM, question="state", void="late")], ORDER, None, "no question"),
        ([replace(CALM, question="state", rows=0)], ORDER, None, "no question"),
        ([replace(CALM, question="state")] * 2, ORDER, True, "of 20 rows were right in 2 runs"),
        ([replace(CALM, question="state", wrong="wrong answer")], ORDER, False, "wrong answer"),
        ([], DURABLE, None, "no run counts"),
        ([CALM], DURABLE, False, "in memory alone"),
        # A checkpoint that was written is worth nothing until somebody goes on with it.
        ([CALM, replace(CALM, checkpoint_bytes=5_000)], DURABLE, None,
         "a checkpoint was written, up to 5,000 bytes; no driver was killed"),
        ([replace(HURT, checkpoint_bytes=5_000)], DURABLE, None, "no driver was killed"),
        ([CALM, DEAD], DURABLE, True, "on its checkpoint, every row came once: count 10 rows"),
        ([DEAD, replace(DEAD, wrong="wrong answer: 1 rows")], DURABLE, False, "count: wrong"),
        ([replace(DEAD, void="the system failed: X")], DURABLE, False, "the system failed: X"),
        ([replace(DEAD, void="no driver was there")], DURABLE, None, "no driver was there"),
        ([DEAD], ONCE, None, "no worker was killed"),
    ],
)
def test_a_promise_is_worth_what_the_trials_have_shown(
    seen: list[Seen], which: int, shown: bool | None, said: str
) -> None:
    found = promises("a", seen)[which]
    assert found.shown is shown
    assert said in found.evidence


def test_every_trial_is_noted_with_what_was_wrong_with_it() -> None:
    seen: list[Seen] = []
    bench = Witness(FakeBench(FakeSettings(loses_on_fault=3)), "mine", "state", seen.append)
    schedule = Schedule.steady(1_000, 2)
    bench.trial(Load(schedule=schedule))
    bench.trial(Load(schedule=schedule, fault=Fault(kind="kill-worker", at_seconds=1)))
    assert [(each.system, each.question, each.fault) for each in seen] == [
        ("mine", "state", ""), ("mine", "state", "kill-worker"),
    ]
    assert [each.wrong for each in seen] == ["", "wrong answer: 3 rows missing, 0 too many"]
    assert seen[0].rows == 2_000
    assert bench.name == "fake"
