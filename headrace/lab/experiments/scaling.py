"""How does the sustainable rate grow with the cores, and was that foreseen?

A model is made of the rate on the fewest cores and of the processor time that an event took there,
part by part. The driver's own share is serial: it plans and commits while nobody else works. All
else is shared by the cores. No part of the machine can do more than it has cores, and the data
engines need their share too. What the model says of more cores is said before they are measured,
and held against what is measured then. Where it was off, it says nothing of cores that are not
there.

    seconds of an event on n cores = serial + parallel / n, or all of it / cores of the machine

The speed-up over shards is measured alone: nothing is predicted of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.experiments.sustainable import Sustainable
from headrace.lab.record.trial import SeriesBench

#: The parts of a system whose processor time more cores do not shorten.
SERIAL = ("driver",)
#: A prediction that differs from what was measured by more than this, beside what the precision of
#: the searches leaves open, was off.
OFF = 0.1
_NO_RATE = "no rate was sustained"

#: Searches the rate of a bench, from a rate on if one is given.
Searched = Callable[[SeriesBench, float | None], Sustainable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What an event takes, in seconds."""

    cores: int  # on which it was seen
    serial: float
    parallel: float  # of one core
    machine: float  # of all cores of the machine, data engines included; 0: they are no bound

    def rate(self, cores: int) -> float:
        """Say how many events a second so many cores sustain."""
        return 1 / max(self.serial + self.parallel / cores, self.machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A number of cores or of shards."""

    count: int
    found: Sustainable
    predicted: float | None = None  # before it was measured; None: it was not

    @property
    def void(self) -> str:
        """Why there is no rate; empty if there is one."""
        return self.found.void or ("" if self.found.rate else _NO_RATE)

    @property
    def error(self) -> float | None:
        """By which share the prediction was too high; None: nothing can be compared."""
        if self.predicted is None or self.void:
            return None
        return self.predicted / self.found.rate - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Rates by cores or by shards."""

    points: tuple[Point, ...]
    model: Model | None = None
    parts: Mapping[str, float]  # processor seconds of an event, on the fewest
    unsure: str  # why nothing is said of more; empty if the predictions held

    def predicted(self, cores: int) -> float | None:
        """Say what so many cores would sustain; None if the model is off or was not checked."""
        return None if self.model is None or self.unsure else self.model.rate(cores)

    def speed_up(self, point: Point) -> float | None:
        """Say how many times the rate of the fewest a point has; None: one of them has none."""
        first = self.points[0]
        return None if first.void or point.void else point.found.rate / first.found.rate


def measure_scaling(
    bench_on: Callable[[int], SeriesBench], searched: Searched, counts: Sequence[int], *,
    precision: float, predicts: bool = True,
) -> Scaling:
    """Search the rate at every number of cores, or of shards.

    Args:
        bench_on: gives the bench of a system on so many.
        searched: searches a rate.
        counts: from few to many.
        precision: of the searches.
        predicts: make a model on the fewest, and check it on the others.
    """
    if not counts or sorted(set(counts)) != list(counts) or counts[0] < 1:
        msg = f"cores and shards are told from few to many: {list(counts)}"
        raise OptionError(msg)
    first = Point(count=counts[0], found=searched(bench_on(counts[0]), None))
    model, why = model_of(first) if predicts else (None, "")
    points = [first]
    for count in counts[1:]:
        predicted = None if model is None else model.rate(count)
        found = searched(bench_on(count), points[-1].found.rate or None)
        points.append(Point(count=count, found=found, predicted=predicted))
    return Scaling(
        points=tuple(points), model=model, parts=_parts(first.found),
        unsure=why or _unsure(points, precision),
    )


def model_of(point: Point) -> tuple[Model | None, str]:
    """Make the model of what was seen on some cores; None and the reason where it cannot be."""
    if point.void:
        return None, point.void
    parts, trial = _parts(point.found), point.found.confirmation
    if not parts or trial is None:
        return None, "nobody can tell the processor time of its parts"
    whole = 1 / point.found.rate
    serial = min(whole, sum(parts.get(part, 0.0) for part in SERIAL))
    machine, engine = 0.0, trial.cost.engine_cpu_seconds
    if trial.cost.machine_cores and engine is not None:
        machine = (sum(parts.values()) + engine / trial.made) / trial.cost.machine_cores
    return Model(
        cores=point.count, serial=serial, parallel=(whole - serial) * point.count, machine=machine
    ), ""


def _parts(found: Sustainable) -> Mapping[str, float]:
    trial = found.confirmation
    if trial is None or not trial.made:
        return {}
    return {part: seconds / trial.made for part, seconds in trial.cost.cpu_parts.items()}


def _unsure(points: Sequence[Point], precision: float) -> str:
    """Say why the model is not believed; empty if all that it said has come true."""
    checked = [point for point in points if point.error is not None]
    if not checked:
        return "the model was not checked on more cores"
    open_to = (1 + OFF) * (1 + precision)
    for point in checked:
        assert point.error is not None
        if not 1 / open_to <= 1 + point.error <= open_to:
            return f"the model was off by {point.error:+.0%} on {point.count} cores"
    return ""
