"""Runs one workload on one system, after a small run that warms it up; gives a cell of the table.

A refusal and a failure are results too: they stand in the table with their reason.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.run import Report, run_workload
from headrace.lab.systems.system import Request, System
from headrace.lab.workload import Mode, Workload

#: Events of the run before the measured one.
WARM_EVENTS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload on one system."""

    system: str
    engine: str = ""  # what really ran
    events: int = 0
    seconds: float | None = None
    rows: int | None = None
    verdict: str = ""  # right, WRONG, refused, failed
    told: str = ""  # the reason, or what was wrong

    @property
    def rate(self) -> float | None:
        """Events per second; None without a right answer: a wrong one voids the figure."""
        if self.verdict != "right" or not self.seconds:
            return None
        return self.events / self.seconds


def settings_of(workload: Workload, events: int) -> Any:
    """Give the default settings with another number of events."""
    names = {field.name for field in dataclasses.fields(workload.settings)}
    return workload.settings(**{"num_events" if "num_events" in names else "events": events})


def measure(
    workload: Workload, system: System, *, events: int, shards: int, mode: Mode, warm: bool,
    say: Callable[[str], None],
) -> Cell:
    """Fill one cell."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-workloads-"))
    try:
        if warm:
            _run(workload, system, min(events, WARM_EVENTS), shards, mode, folder / "warm", False)
        report = _run(workload, system, events, shards, mode, folder / "run", True)
    except OptionError as refusal:
        return Cell(system=system.name, verdict="refused", told=str(refusal))
    except Exception as failure:
        first = (str(failure).strip().splitlines() or [""])[0]
        say(f"  failed: {type(failure).__name__}: {first}")
        return Cell(
            system=system.name, verdict="failed", told=f"{type(failure).__name__}: {first}"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _cell(system.name, report)


def _run(
    workload: Workload, system: System, events: int, shards: int, mode: Mode, folder: Path,
    check: bool,
) -> Report:
    request = Request(
        workload=workload, settings=settings_of(workload, events), mode=mode, folder=folder,
        shards=shards, readers=2 * shards,
    )
    return run_workload(request, system, check=check)


def _cell(name: str, report: Report) -> Cell:
    outcome, verdict = report.outcome, report.verdict
    return Cell(
        system=name,
        engine=outcome.engine,
        events=outcome.events,
        seconds=outcome.seconds,
        rows=report.row_count,
        verdict="unjudged" if verdict is None else "right" if verdict.right else "WRONG",
        told=report.unjudged if verdict is None else " ".join(verdict.lines()[:2]),
    )
