"""What goes wrong and when: frozen schedules, drawn from a seed, and made smaller when they fail.

A gap is a place between two things that a driver does to the world: an operation on a file of the
checkpoint or of a sink, or a point of the commit (`headrace.state.crash_points`). Gaps are counted
per driver. Pure: knows nothing of drivers and files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

#: Gaps of a driver's life within which faults are drawn; a life without faults has 50 to 130.
GAPS = 120
#: Drivers that may have a fault of their own; whoever comes later is left alone.
DRIVERS = 10
MOST_FAULTS = 20
#: The same for a life in which the real tasks run: it has 80 to 260.
GAPS_WITH_TASKS = 200


class Tasks(Enum):
    """What runs the tasks of epochs."""

    COUNTING = "counting"  # a few lines that count: a schedule takes milliseconds
    REAL = "real"  # headrace's own, with stages, timers, side inputs and an outbox


class Fault(Enum):
    """What happens at a gap. Where the gap is no operation, the first four are all the same."""

    KILL_BEFORE = "kill before"  # the driver dies, and the operation never happens
    KILL_AFTER = "kill after"  # it happens, and the driver dies before it knows
    LOST_WRITE = "lost write"  # it does not happen, and the driver is told so
    LOST_ANSWER = "lost answer"  # it happens, and the driver is told that it did not
    PAUSE_BEFORE = "pause before"  # the driver sleeps with the operation on its way: a late write
    PAUSE_AFTER = "pause after"  # the driver sleeps, thought dead, and goes on beside a newer one
    WORKER_KILLED = "worker killed"  # the process of the next task dies; the driver goes on


#: Faults by which a driver's work stops for good.
DEADLY = frozenset({Fault.KILL_BEFORE, Fault.KILL_AFTER})


@dataclass(frozen=True, slots=True, order=True)
class Planned:
    """One fault of a schedule."""

    driver: int  # counted from 0, in the order in which they start
    gap: int  # counted from 0, in its life
    fault: str  # a member's value: order and JSON are then plain

    @property
    def kind(self) -> Fault:
        """The fault."""
        return Fault(self.fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All that decides a run: the same schedule gives the same run."""

    seed: int  # decides who goes on when a driver sleeps or ends
    batches: int  # of each stream of the input
    faults: tuple[Planned, ...]  # at most one for a gap
    tasks: str = Tasks.COUNTING.value  # a member's value


def drawn(seed: int, tasks: Tasks = Tasks.COUNTING) -> Schedule:
    """Draw a schedule."""
    dice = random.Random(seed)
    count = dice.randint(1, MOST_FAULTS)
    found: dict[tuple[int, int], Planned] = {}
    kinds, gaps = list(Fault), GAPS_WITH_TASKS
    if tasks is Tasks.COUNTING:  # its tasks have no process that could die alone
        kinds, gaps = [one for one in Fault if one is not Fault.WORKER_KILLED], GAPS
    for number in range(count):
        driver = number % DRIVERS  # most faults end their driver: so most need one of their own
        # Half of them early, where a driver takes over; the others where it commits.
        gap = dice.randrange(gaps if dice.random() < 0.5 else gaps // 3)
        found[driver, gap] = Planned(driver, gap, dice.choice(kinds).value)
    return Schedule(
        seed=seed, batches=dice.randint(1, 3), faults=tuple(sorted(found.values())),
        tasks=tasks.value,
    )


def tasks_of(seed: int, share: float) -> Tasks:
    """Say which tasks run in the schedule of a seed, if such a share of all is to have real ones.

    Evenly spread: of any hundred seeds that follow one another, as many as the share says.
    """
    return Tasks.REAL if int((seed + 1) * share) > int(seed * share) else Tasks.COUNTING


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Make a failing schedule smaller as long as it fails: fewer faults, then less input.

    Args:
        schedule: one that fails.
        fails: runs a schedule; whether it failed.
    """
    again = True
    while again:
        again = False
        for fault in schedule.faults:
            fewer = replace(
                schedule, faults=tuple(one for one in schedule.faults if one != fault)
            )
            # Without the first driver's faults there may be no need for that driver either.
            moved = replace(
                schedule,
                faults=tuple(sorted(
                    Planned(one.driver - (one.driver > fault.driver), one.gap, one.fault)
                    for one in fewer.faults
                )),
            )  # fmt: skip
            found = next((one for one in (moved, fewer) if fails(one)), None)
            if found is not None:
                schedule, again = found, True
                break
    for batches in range(1, schedule.batches):
        smaller = replace(schedule, batches=batches)
        if fails(smaller):
            return smaller
    return schedule
