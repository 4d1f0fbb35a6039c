"""Decides when and how a run is killed: drawn from a seed before it starts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What is killed."""

    MACHINE = "machine"  # driver, JVM and workers at once
    DRIVER = "driver"  # the driver's Python; the others find out
    WORKER = "worker"  # one Python worker; the driver goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill, and what the next start is like if there must be one."""

    kind: Kind
    epoch: int | None  # not before this epoch counts; None: while the driver starts
    delay: float  # and so many seconds later
    wipe: bool  # the machine comes back without its stores
    shards: int  # of the next start


#: The longest that a kill waits when the driver is to be hit while it starts.
START_SECONDS = 8.0
_SHARDS = (2, 2, 3, 4)


def plan(count: int, epochs: int, epoch_seconds: float, seed: int) -> list[Kill]:
    """Draw so many kills for a run of so many epochs, in the order of the epochs."""
    drawn = random.Random(seed)
    kills = []
    for epoch in sorted(drawn.randrange(max(1, epochs - 2)) for _ in range(count)):
        kind = drawn.choices(list(Kind), weights=(6, 2, 4))[0]
        early = kind is not Kind.WORKER and drawn.random() < 0.15
        kills.append(
            Kill(
                kind=kind,
                epoch=None if early else epoch,
                delay=drawn.uniform(0, START_SECONDS if early else 1.5 * epoch_seconds),
                wipe=drawn.random() < 0.3,
                shards=drawn.choice(_SHARDS),
            )
        )
    return kills
