"""What goes wrong and when: frozen schedules, drawn from a seed, and made smaller when they fail.

A gap is a place between two things that a driver does to the world: an operation on a file of the
checkpoint or of a sink, or a point of the commit (`headrace.state.crash_points`). Gaps are counted
per driver. Pure: knows nothing of drivers and files.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

#: Gaps of a driver's life within which faults are drawn; a life without faults has 50 to 130.
GAPS = 120
#: Drivers that may have a fault of their own; whoever comes later is left alone.
DRIVERS = 10
MOST_FAULTS = 20


class Fault(Enum):
    """What happens at a gap. Where the gap is no operation, the first four are all the same."""

    KILL_BEFORE = "kill before"  # the driver dies, and the operation never happens
    KILL_AFTER = "kill after"  # it happens, and the driver dies before it knows
    LOST_WRITE = "lost write"  # it does not happen, and the driver is told so
    LOST_ANSWER = "lost answer"  # it happens, and the driver is told that it did not
    PAUSE_BEFORE = "pause before"  # the driver sleeps with the operation on its way: a late write
    PAUSE_AFTER = "pause after"  # the driver sleeps, thought dead, and goes on beside a newer one


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


def drawn(seed: int) -> Schedule:
    """Draw a schedule."""
    dice = random.Random(seed)
    count = dice.randint(1, MOST_FAULTS)
    found: dict[tuple[int, int], Planned] = {}
    kinds = list(Fault)
    for number in range(count):
        driver = number % DRIVERS  # most faults end their driver: so most need one of their own
        # Half of them early, where a driver takes over; the others where it commits.
        gap = dice.randrange(GAPS if dice.random() < 0.5 else GAPS // 3)
        found[driver, gap] = Planned(driver, gap, dice.choice(kinds).value)
    return Schedule(
        seed=seed, batches=dice.randint(1, 3), faults=tuple(sorted(found.values()))
    )


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
            fewer = Schedule(
                seed=schedule.seed, batches=schedule.batches,
                faults=tuple(one for one in schedule.faults if one != fault),
            )
            # Without the first driver's faults there may be no need for that driver either.
            moved = Schedule(
                seed=schedule.seed, batches=schedule.batches,
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
        smaller = Schedule(seed=schedule.seed, batches=batches, faults=schedule.faults)
        if fails(smaller):
            return smaller
    return schedule
