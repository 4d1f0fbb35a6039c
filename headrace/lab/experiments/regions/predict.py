"""Asks the model what was published of ordered regions, and what lies beyond this machine.

Takes costs, gives tables as plain data. Measures nothing and prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.lab.experiments.regions.costs import Costs
from headrace.lab.experiments.regions.mergers import Strategy
from headrace.lab.experiments.regions.model import Region, simulate, speedup

CHANNELS = (1, 2, 4, 8, 16, 32, 100)
#: Cores that the published scalability experiments had, and those of the large-scale ones.
CORES, LARGE_CORES = 32, 104
#: What a core of theirs did while two processes shared it, over one alone: fitted to the one point
#: with 64 processes on 32 cores, where one process at a time could give 16 times at most.
BOOST = 1.48
EPOCHS = (1, 2, 4, 8, 16, 32)
SELECTIVITIES = (1.0, 1 / 4, 1 / 16, 1 / 256)
#: Seconds of work for a tuple at which the splitter, not the work, bounds 32 channels of theirs.
LITTLE_WORK = 1e-5
#: Seconds of work for a tuple, from next to nothing to the most that was published.
WORKS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Something published: how many times as fast at so many channels."""

    shape: str
    channels: int
    speedup: float


STATELESS, NUMBERED, STATEFUL, SEVERAL, SHUFFLE = (
    "stateless, round robin", "by key, sequence numbers", "by key, numbers and pulses",
    "by key, sub-index, 2 results each", "shuffle of two regions by key",
)  # fmt: skip
PUBLISHED_POINTS = (
    Point(shape=STATELESS, channels=32, speedup=32.0),
    Point(shape=STATEFUL, channels=32, speedup=31.3),
    Point(shape=STATEFUL, channels=100, speedup=93.0),
    Point(shape=SHUFFLE, channels=16, speedup=15.3),
    Point(shape=SHUFFLE, channels=32, speedup=22.6),
    Point(shape=SHUFFLE, channels=50, speedup=42.0),
)
#: What numbers, and numbers with pulses, cost at most on top of round robin.
PUBLISHED_OVERHEADS = {Strategy.NUMBERS: 0.12, Strategy.PULSES: 0.21}


def _shuffled(channels: int, tuples: int) -> Region:
    return Region(
        channels=channels, tuples=tuples, strategy=Strategy.PULSES, keyed=True, shuffle=True,
        cores=CORES if channels <= CORES else LARGE_CORES, boost=BOOST,
    )


#: By shape: the region with so many channels and tuples, on machines as those of the publication.
SHAPES: dict[str, Callable[[int, int], Region]] = {
    STATELESS: lambda n, t: Region(channels=n, tuples=t, strategy=Strategy.ROUND_ROBIN),
    NUMBERED: lambda n, t: Region(channels=n, tuples=t, strategy=Strategy.NUMBERS, keyed=True),
    STATEFUL: lambda n, t: Region(channels=n, tuples=t, strategy=Strategy.PULSES, keyed=True),
    SEVERAL: lambda n, t: Region(
        channels=n, tuples=t, strategy=Strategy.SUB_INDEX, keyed=True, selectivity=2.0
    ),
    SHUFFLE: _shuffled,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How one shape scales."""

    shape: str
    channels: tuple[int, ...]
    speedups: tuple[float, ...]


def curves(
    costs: Costs, channels: Sequence[int] = CHANNELS, per_channel: int = 1_000
) -> list[Curve]:
    """Predict every shape; a shuffle also where something was published of it."""
    made = []
    for shape, region in SHAPES.items():
        asked = {p.channels for p in PUBLISHED_POINTS if p.shape == shape}
        most = max(channels)
        wanted = sorted({*channels, *(n for n in asked if n <= most)})
        if shape == SHUFFLE:  # 100 channels would be 200 processes and 10,000 ways between them
            wanted = [n for n in wanted if n <= 50]
        found = [speedup(region(n, n * per_channel), costs) for n in wanted]
        made.append(Curve(shape=shape, channels=tuple(wanted), speedups=tuple(found)))
    return made


def beside_published(found: Sequence[Curve]) -> list[tuple[Point, float]]:
    """Give each published point with what the model says; points beyond the curves are left out."""
    known = {
        (curve.shape, n): value
        for curve in found
        for n, value in zip(curve.channels, curve.speedups, strict=True)
    }
    return [
        (point, known[point.shape, point.channels])
        for point in PUBLISHED_POINTS
        if (point.shape, point.channels) in known
    ]


def overheads(costs: Costs, channels: int = 8, per_channel: int = 400) -> dict[Strategy, float]:
    """Give what numbers and pulses cost at most on top of round robin, over all works."""
    worst: dict[Strategy, float] = {}
    for work in WORKS:
        at = replace(costs, work=work)
        rates = {
            strategy: simulate(
                Region(channels=channels, tuples=channels * per_channel, strategy=strategy), at
            ).rate
            for strategy in (Strategy.ROUND_ROBIN, *PUBLISHED_OVERHEADS)
        }
        for strategy in PUBLISHED_OVERHEADS:
            cost = rates[Strategy.ROUND_ROBIN] / rates[strategy] - 1
            worst[strategy] = max(worst.get(strategy, 0.0), cost)
    return worst


def by_epoch(costs: Costs, channels: int = 32, per_channel: int = 400) -> dict[int, float]:
    """Give the speed-up of a region by key with little work, for several lengths of an epoch."""
    shape = SHAPES[STATEFUL](channels, channels * per_channel)
    little = replace(costs, work=LITTLE_WORK)
    return {epoch: speedup(replace(shape, epoch=epoch), little) for epoch in EPOCHS}


def by_selectivity(
    costs: Costs, channels: int = 32, per_channel: int = 1_000
) -> dict[float, float]:
    """Give the speed-up of a region by key where a share of the tuples means a little work."""
    shape = SHAPES[STATEFUL](channels, channels * per_channel)
    little = replace(costs, work=LITTLE_WORK)
    return {
        share: speedup(replace(shape, selectivity=share, only_results=True), little)
        for share in SELECTIVITIES
    }
