"""Measures a case: warms up, repeats, checks every answer, and judges against the bar.

Takes a case and the runners, gives a `Compared` with all samples in it. A runner that gave one
wrong answer has no rate: a fast wrong answer is not a result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.lab.ending import Ending, of_bars
from headrace.lab.experiments.micro.cases import Answer, Case
from headrace.lab.experiments.micro.runners import Runner
from headrace.lab.results.summary import Better, Figure

#: Elements of the small run before each measured one, a twentieth of it within these bounds. Before
#: each: Spark lets workers go that were idle for a minute, and the other system may take longer.
WARM_UP_LEAST, WARM_UP_MOST = 1_000, 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured run."""

    system: str
    elements: int
    seconds: float
    cpu_seconds: float | None
    peak_worker_bytes: int | None
    answer: Answer
    expected: Answer

    @property
    def right(self) -> bool:
        """Whether the answer is the expected one."""
        return self.answer == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one system did on one case."""

    elements: int
    median: float  # elements per second
    low: float
    high: float
    cpu_seconds_per_million: float | None  # median


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a case went, on headrace and on the reference."""

    case: Case
    samples: tuple[Sample, ...]
    ours: Rate | None  # None: wrong, or not run
    reference: Rate | None
    peak_worker_bytes: int | None
    verdict: Ending

    @property
    def ratio(self) -> float | None:
        """Our median rate over the reference's."""
        if self.ours is None or self.reference is None:
            return None
        return self.ours.median / self.reference.median

    def figures(self) -> list[Figure]:
        """Give rates and processor time in the lab's one form."""
        found = []
        for system in dict.fromkeys(sample.system for sample in self.samples):
            own = [s for s in self.samples if s.system == system]
            void = "" if all(s.right for s in own) else "a wrong answer"
            rates = [s.elements / s.seconds for s in own]
            cpu = [s.cpu_seconds / s.elements * 1e6 for s in own if s.cpu_seconds is not None]
            for name, unit, better, samples in (
                (f"{self.case.name} rate", "elements/s", Better.HIGHER, rates),
                (f"{self.case.name} cpu", "s per million elements", Better.LOWER, cpu),
            ):
                found.append(
                    Figure.of_samples(system, "micro", name, unit, better, samples, void)
                )
        return found

    def complaints(self) -> list[str]:
        """Say which answers were wrong, and how."""
        return [
            f"{self.case.name} on {s.system}, {s.elements} elements: "
            f"counted {s.answer}, right is {s.expected}"
            for s in self.samples
            if not s.right
        ]


def sizes(case: Case, elements: int) -> tuple[int, int | None]:
    """How many elements headrace and the reference get."""
    share = case.reference_share
    return round(elements * case.share), None if share is None else round(elements * share)


def measure(
    case: Case,
    ours: Runner,
    reference: Runner | None,
    *,
    elements: int,
    repeats: int,
    reference_repeats: int,
    say: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Measure one case. The two systems take turns, so that a slow hour hurts both."""
    our_size, reference_size = sizes(case, elements)
    turns: list[tuple[Runner, int, int]] = [(ours, our_size, min(repeats, case.most_repeats))]
    if reference is not None and reference_size is not None:
        turns.append((reference, reference_size, min(reference_repeats, case.most_repeats)))
    samples: list[Sample] = []
    for turn in range(max(count for _, _, count in turns)):
        for system, size, count in turns:
            if turn < count:
                sample(case, system, min(max(size // 20, WARM_UP_LEAST), WARM_UP_MOST))
                taken = sample(case, system, size)
                samples.append(taken)
                say(
                    f"{case.name}: {system.name} {size} elements in {taken.seconds:.2f} s"
                    + ("" if taken.right else ", WRONG")
                )
    return judge(case, samples, ours.name)


def sample(case: Case, system: Runner, elements: int) -> Sample:
    """Run a case once."""
    run = system.run(case, elements)
    return Sample(
        system=system.name, elements=elements, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
        peak_worker_bytes=run.peak_worker_bytes, answer=run.answer,
        expected=case.expected(elements),
    )


def judge(case: Case, samples: Sequence[Sample], ours: str) -> Compared:
    """Turn samples into figures; wrong answers void them."""
    mine = rate_of([s for s in samples if s.system == ours])
    theirs = rate_of([s for s in samples if s.system != ours])
    peaks = [s.peak_worker_bytes for s in samples if s.peak_worker_bytes is not None]
    peak = max(peaks, default=None)
    found = Compared(
        case=case, samples=tuple(samples), ours=mine, reference=theirs, peak_worker_bytes=peak,
        verdict=Ending.UNJUDGED,
    )
    return replace(found, verdict=_verdict(found))


def _verdict(found: Compared) -> Ending:
    case, cleared = found.case, []
    if case.bar is not None and found.ratio is not None:
        cleared.append(found.ratio >= case.bar)
    if case.worker_limit_bytes is not None and found.peak_worker_bytes is not None:
        cleared.append(found.peak_worker_bytes < case.worker_limit_bytes)
    return of_bars(cleared, wrong=not all(s.right for s in found.samples))


def rate_of(samples: Sequence[Sample]) -> Rate | None:
    """Summarise one system's samples; None without samples or with a wrong one among them."""
    if not samples or not all(s.right for s in samples):
        return None
    rates = [s.elements / s.seconds for s in samples]
    cpu = [s.cpu_seconds / s.elements * 1e6 for s in samples if s.cpu_seconds is not None]
    return Rate(
        elements=samples[0].elements, median=statistics.median(rates), low=min(rates),
        high=max(rates), cpu_seconds_per_million=statistics.median(cpu) if cpu else None,
    )
