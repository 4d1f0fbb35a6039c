"""How does the sustainable rate grow with the cores?

The search at every number of cores; the speed-up is against the first. From the fewest and the
most a law with a serial share is fitted, which says what more cores would give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.experiments.sustainable import Probe, Search, Sustainable, find_rate
from headrace.lab.experiments.trial import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Rates by cores."""

    points: tuple[tuple[int, Sustainable], ...]
    serial_share: float | None  # of the work; None: a single point, or a figure that does not count
    void: str

    def predicted(self, cores: int) -> float | None:
        """Say what rate so many cores would give."""
        if self.serial_share is None:
            return None
        first, found = self.points[0]
        alone = found.rate * (self.serial_share + (1 - self.serial_share) / first)
        return alone / (self.serial_share + (1 - self.serial_share) / cores)


def measure_scaling(
    bench: Bench, search: Search, cores: Sequence[int],
    told: Callable[[int, Probe], None] = lambda _cores, _probe: None,
) -> Scaling:
    """Search the rate at every number of cores."""
    if not cores or sorted(set(cores)) != list(cores) or cores[0] < 1:
        msg = f"cores are told from few to many: {list(cores)}"
        raise OptionError(msg)
    points = []
    for count in cores:
        found = find_rate(
            bench, search, cores=count, told=lambda probe, count=count: told(count, probe)  # type: ignore[misc]
        )
        points.append((count, found))
    void = next((found.void for _, found in points if found.void), "")
    if not void and any(not found.rate for _, found in points):
        void = "no rate was sustained at some number of cores"
    share = None
    if not void and len(points) > 1:
        (few, slow), (many, fast) = points[0], points[-1]
        share = _serial_share(few, slow.rate, many, fast.rate)
    return Scaling(points=tuple(points), serial_share=share, void=void)


def _serial_share(few: int, slow: float, many: int, fast: float) -> float:
    """Solve slow * (s + (1 - s) / few) = fast * (s + (1 - s) / many) for s."""
    share = (fast / many - slow / few) / (slow * (1 - 1 / few) - fast * (1 - 1 / many))
    return min(1.0, max(0.0, share))
