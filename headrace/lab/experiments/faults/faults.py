"""Decides what is done to a run: drawn from a seed before it starts, so that it can be done again.

A round is a run from its first epoch to its end. It has lives, one for each start of a driver; what
a life suffers is fixed here, but for the moments, which depend on how fast the machine is. Pure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

from headrace.state.crash_points import Point


class Kind(Enum):
    """What is done."""

    MACHINE = "machine killed"  # driver, JVM and workers at once
    DRIVER = "driver killed"  # the driver's Python; the others find out
    JVM = "JVM killed"  # the driver's Python finds out
    WORKER = "worker killed"  # one Python worker; the driver goes on
    DAEMON = "daemon killed"  # from which workers are forked; the driver goes on
    GAP = "ended in a gap"  # at a numbered gap of the commit
    WORKER_STOPPED = "worker stopped"  # for longer than an epoch, then continued
    JVM_STOPPED = "JVM stopped"
    DRIVER_STOPPED = "driver stopped"
    FULL_CHECKPOINT = "checkpoint's disk full"
    FULL_STATE = "stores' disk full"
    FULL_SINK = "sink's disk full"
    SLOW = "slow disk"  # for a whole life
    CLOCK = "clock jump"
    TWO_DRIVERS = "two drivers"  # one hangs, a second takes over, the first comes back


#: After these the driver must be started again.
ENDING = frozenset({Kind.MACHINE, Kind.DRIVER, Kind.JVM, Kind.TWO_DRIVERS})
_KILLS = (Kind.MACHINE, Kind.DRIVER, Kind.JVM)
FULL = (Kind.FULL_CHECKPOINT, Kind.FULL_STATE, Kind.FULL_SINK)
#: Gaps in which a task ends; the driver runs the epoch again.
WORKER_POINTS = (Point.BEFORE_SEAL, Point.AFTER_SEAL)
#: What an unfriendly minute is made of: kind -> weight. The rest is dealt out by the seed's number.
_PASSING = {
    Kind.WORKER: 5, Kind.DAEMON: 1, Kind.WORKER_STOPPED: 4, Kind.JVM_STOPPED: 2,
    Kind.DRIVER_STOPPED: 2,
}
_FINAL = {Kind.MACHINE: 3, Kind.DRIVER: 2, Kind.JVM: 2, Kind.GAP: 6}
#: The longest that a kill waits when the driver is to be hit while it starts.
START_SECONDS = 8.0
_SHARDS = (2, 2, 3, 4)
#: A clock that is set: by seconds up to minutes, forward and back.
_JUMPS = (-600.0, -90.0, -5.0, 5.0, 90.0, 600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something done from outside."""

    kind: Kind
    epochs: int | None  # committed since the last fault of this life; None: while the driver starts
    delay: float  # of an epoch's time; of START_SECONDS while the driver starts
    lasting: float = 0.0  # in epochs: until it is continued, until there is room again


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A crash at a numbered gap of the commit."""

    point: Point
    tries: int  # of the life, counted from 1, before which it does not come
    partition: str = ""  # of a task; empty: the first that comes there


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One start of the driver and what it suffers."""

    shards: int
    wipe: bool = False  # the stores of the last life are gone
    slow_seconds: float = 0.0
    jumps: tuple[tuple[float, float], ...] = ()  # (seconds after the start, seconds by which)
    gaps: tuple[Gap, ...] = ()
    faults: tuple[Fault, ...] = ()  # in order; at most the last is an ending one

    @property
    def planned(self) -> int:
        """How many faults these are."""
        return len(self.faults) + len(self.gaps) + len(self.jumps) + bool(self.slow_seconds)


#: The last life of a round: nothing happens any more.
PEACE = Life(shards=2)


def plan_round(seed: int, count: int) -> tuple[Life, ...]:
    """Draw the lives of a round that has at least so many faults.

    What is rare is dealt out by the seed's number, so that a few seeds in a row have all of it: the
    gap of the first crash, the disk that gets full, whether two drivers meet.
    """
    drawn = random.Random(f"headrace-chaos-{seed}")
    first = list(Point)[seed % len(Point)]
    rare = Kind.TWO_DRIVERS if seed % 2 == 0 else FULL[seed // 2 % len(FULL)]
    lives = [_life(drawn, Kind.GAP, first), _life(drawn, rare)]
    while sum(life.planned for life in lives) < count:
        lives.append(_life(drawn, drawn.choices(list(_FINAL), weights=list(_FINAL.values()))[0]))
    drawn.shuffle(lives)
    # This gap is met when all has been read, and after that there is nothing to disturb.
    lives.sort(key=lambda life: any(gap.point is Point.AFTER_RETURN for gap in life.gaps))
    return tuple(lives)


def _life(drawn: random.Random, final: Kind, point: Point | None = None) -> Life:
    life = Life(
        shards=drawn.choice(_SHARDS),
        wipe=drawn.random() < 0.2,
        slow_seconds=drawn.choice((0.05, 0.2, 0.4)) if drawn.random() < 0.15 else 0.0,
        jumps=_jumps(drawn) if drawn.random() < 0.2 else (),
    )
    if final in _KILLS and drawn.random() < 0.15:
        early = Fault(kind=final, epochs=None, delay=drawn.random())
        return replace(life, faults=(early,), jumps=(), slow_seconds=0.0)
    passing = tuple(_passing(drawn) for _ in range(drawn.choice((0, 1, 2, 2, 3, 4))))
    if final is Kind.GAP:
        return _ending_in_gap(drawn, replace(life, faults=passing), point)
    return replace(life, faults=(*passing, *_ending(drawn, final)))


def _ending(drawn: random.Random, final: Kind) -> tuple[Fault, ...]:
    epochs, delay = drawn.randrange(2), drawn.uniform(0, 1.5)
    if final is Kind.TWO_DRIVERS:
        return (Fault(kind=final, epochs=epochs, delay=delay, lasting=drawn.randrange(4)),)
    ending = Fault(kind=drawn.choice(_KILLS), epochs=epochs, delay=delay)
    if final in FULL:  # a driver may outlive it
        full = Fault(kind=final, epochs=1, delay=delay, lasting=drawn.uniform(1.0, 4.0))
        return (full, ending)
    return (replace(ending, kind=final),)


def _ending_in_gap(drawn: random.Random, life: Life, point: Point | None) -> Life:
    point = point or drawn.choice([p for p in Point if p is not Point.AFTER_RETURN])
    tries = drawn.randrange(1, 4) + len(life.faults)
    if point not in WORKER_POINTS:
        return replace(life, gaps=(Gap(point=point, tries=tries),))
    # The driver outlives these, so there are two, and then something that ends it. They are three
    # tries apart: an epoch is tried so often, and one worker may be killed from outside.
    gaps = (
        Gap(point=point, tries=tries, partition=drawn.choice(("", "", "1-0", "2-1"))),
        Gap(point=WORKER_POINTS[point is WORKER_POINTS[0]], tries=tries + 3),
    )
    ending = Fault(kind=drawn.choice(_KILLS), epochs=4, delay=drawn.uniform(0, 1.5))
    return replace(life, gaps=gaps, faults=(*life.faults, ending))


def _passing(drawn: random.Random) -> Fault:
    kind = drawn.choices(list(_PASSING), weights=list(_PASSING.values()))[0]
    # An epoch is tried three times: workers of one epoch are not killed again and again.
    return Fault(
        kind=kind, epochs=drawn.choice((1, 1, 2)), delay=drawn.uniform(0, 1.2),
        lasting=drawn.uniform(1.1, 2.5),
    )


def _jumps(drawn: random.Random) -> tuple[tuple[float, float], ...]:
    moments = sorted(drawn.uniform(5.0, 25.0) for _ in range(drawn.randrange(1, 4)))
    return tuple((at, drawn.choice(_JUMPS)) for at in moments)


def crash_text(gaps: tuple[Gap, ...], *, incarnation: int, epoch: int) -> str:
    """Give the crashes of a life as `HEADRACE_CRASH` takes them.

    Args:
        gaps: where it crashes.
        incarnation: the number that the driver will claim.
        epoch: the next to be committed.
    """
    parts = []
    for gap in gaps:
        point, attempt = gap.point.value, f"{incarnation}.{gap.tries}"
        match gap.point:
            case Point.WORKER_LOST:  # somebody has to kill the worker
                parts += [f"before_seal:{attempt}", f"{point}:*"]
            case Point.AFTER_RETURN:  # at the end of what there is to read
                parts.append(f"{point}:*")
            case Point.BETWEEN_SINKS:  # knows epochs alone, and a start may give one away
                parts += [f"{point}:{epoch + gap.tries - 1}", f"{point}:{epoch + gap.tries}"]
            case _:
                parts.append(f"{point}:{attempt}" + (f":{gap.partition}" if gap.partition else ""))
    return ",".join(parts)
