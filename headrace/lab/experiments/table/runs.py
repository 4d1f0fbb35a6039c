"""Runs one workload on one system, after a small run that warms it up; gives a cell of the table.

A refusal and a failure are results too: they stand in the table with their reason. A system that
would take longer than one has patience for is given fewer events; its cell says how many.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.lab.ending import Ending
from headrace.lab.run import RunReport, run_workload
from headrace.lab.systems.system import Request, System
from headrace.lab.workload import Mode, Workload

#: Events of the run before the measured one, and of those that a slow system is left with.
WARM_EVENTS, SLOW_EVENTS = 20_000, (100_000, 500_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload on one system."""

    system: str
    engine: str = ""  # what really ran
    events: int = 0
    asked: int = 0  # how many events it was to be
    mode: str = ""
    seconds: float | None = None
    rows: int | None = None
    verdict: Ending = Ending.UNJUDGED
    told: str = ""  # the reason, or what was wrong

    @property
    def rate(self) -> float | None:
        """Events per second; None without a right answer: a wrong one voids the figure."""
        if not self.verdict.counts or not self.seconds:
            return None
        return self.events / self.seconds


def settings_of(workload: Workload, events: int) -> Any:
    """Give the default settings with another number of events."""
    names = {field.name for field in dataclasses.fields(workload.settings)}
    return workload.settings(**{"num_events" if "num_events" in names else "events": events})


def measure(
    workload: Workload, system: System, *, events: int, shards: int, mode: Mode,
    patience: float | None, say: Callable[[str], None],
) -> Cell:
    """Fill one cell; `patience` is how many seconds a run may be expected to take."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-workloads-"))
    turns = itertools.count()
    place: dict[str, Any] = {"system": system.name, "asked": events, "mode": mode.value}

    def run(count: int) -> RunReport:
        request = Request(
            workload=workload, settings=settings_of(workload, count), mode=mode,
            folder=folder / str(next(turns)), shards=shards, readers=2 * shards,
        )
        return run_workload(request, system, check=True)

    try:
        report = _climb(run, events, patience)
    except (OptionError, UnsupportedTransformError) as refusal:
        return Cell(**place, verdict=Ending.REFUSED, told=str(refusal))
    except Exception as failure:  # noqa: BLE001 (the cell of the table says so)
        first = (str(failure).strip().splitlines() or [""])[0]
        say(f"  failed: {type(failure).__name__}: {first}")
        return Cell(**place, verdict=Ending.FAILED, told=f"{type(failure).__name__}: {first}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _cell(place, report)


def steps(events: int) -> list[int]:
    """Give the sizes of the runs, the last of which counts.

    >>> steps(1_000_000), steps(50_000), steps(500)
    ([20000, 100000, 500000, 1000000], [20000, 50000], [500, 500])
    """
    small = [count for count in (WARM_EVENTS, *SLOW_EVENTS) if count < events]
    return [*(small or [events]), events]


def _climb(run: Callable[[int], RunReport], events: int, patience: float | None) -> RunReport:
    """Warm up, then run all events at once, or as many as patience allows."""
    first, *others = steps(events)
    report = run(first)
    before, took = 0, 0.0
    while others:
        count, seconds = report.outcome.events, report.outcome.seconds
        # What each further event costs; the start of a run is paid already.
        each = max(seconds - took, 0.0) / (count - before)
        bearable = [
            n for n in others if patience is None or seconds + (n - count) * each <= patience
        ]
        if not bearable:
            break
        before, took = count, seconds
        report = run(bearable[-1])
        others = [n for n in others if n > bearable[-1]]
    return report


def _cell(place: dict[str, Any], report: RunReport) -> Cell:
    outcome = report.outcome
    verdict, told = _judged(report)
    return Cell(
        **place,
        engine=outcome.engine,
        events=outcome.events,
        seconds=outcome.seconds,
        rows=report.row_count,
        verdict=verdict,
        told=told,
    )


def _judged(report: RunReport) -> tuple[Ending, str]:
    verdict = report.verdict
    if verdict is None:
        return Ending.UNJUDGED, report.unjudged
    if verdict.right and report.row_count and not verdict.expected:
        told = "its rows break no rule; which rows there must be depends on the clock"
        return Ending.UNBROKEN, told
    return Ending.RIGHT if verdict.right else Ending.WRONG, " ".join(verdict.lines()[:2])
