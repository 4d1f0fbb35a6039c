"""Runs one workload in one condition and gives the cell of the table; a failure is a cell too."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from headrace.lab.ending import Ending
from headrace.lab.experiments.faults.phases import status
from headrace.lab.experiments.verify.choices import disordered, request_of, tries
from headrace.lab.experiments.verify.conditions import Cell, Condition, find
from headrace.lab.experiments.verify.kill import TooShortError, run_until_killed
from headrace.lab.run import RunReport, run_workload
from headrace.lab.systems.system import Request, System, checkpoint_of
from headrace.lab.workload import Workload
from headrace.state.crash_points import Point


def verify(
    workload: Workload, condition: Condition, *, events: int, system: System,
    crash: Point = Point.AFTER_SINKS,
) -> Cell:
    """Fill one cell.

    Args:
        workload: what is run.
        condition: how.
        events: how many; more if that makes too few epochs, see `tries`.
        system: headrace; it also goes on with the run whose driver was killed.
        crash: where that driver is killed.
    """
    if condition.mode not in workload.modes:
        return Cell(
            workload=workload.full_name, condition=condition, events=0,
            ending=Ending.NOT_THERE, told="the workload has no such mode",
        )
    for count in tries(events):
        cell = _verify(workload, condition, count, system, crash)
        if cell.ending is not Ending.TOO_SHORT:
            break
    return cell


def _verify(
    workload: Workload, condition: Condition, events: int, system: System, crash: Point
) -> Cell:
    folder = Path(tempfile.mkdtemp(prefix="headrace-verify-"))
    started, rows, epochs = time.perf_counter(), 0, None
    told = f"killed {crash.value.replace('_', ' ')}" if condition is Condition.KILLED else ""
    try:
        request = request_of(workload, condition, events, folder / "run")
        report = _run(request, condition, events, system, crash)
        if request.streaming:
            epochs = status(checkpoint_of(request)).epoch + 1
        given = report.row_count or 0
        rows = report.verdict.rows if report.verdict and report.verdict.rows else given
        ending, why = find(report.verdict, condition, epochs, given)
    except TooShortError as short:
        ending, why = Ending.TOO_SHORT, str(short)
    except Exception as failure:  # noqa: BLE001 (the cell of the table says so)
        first = (str(failure).strip().splitlines() or [""])[0]
        ending, why = Ending.FAILED, f"{type(failure).__name__}: {first}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Cell(
        workload=workload.full_name, condition=condition, events=events, ending=ending,
        told="; ".join(filter(None, (told, why))), rows=rows, epochs=epochs,
        seconds=time.perf_counter() - started,
    )


def _run(
    request: Request, condition: Condition, events: int, system: System, crash: Point
) -> RunReport:
    if not disordered(request.generator):
        msg = "the events come in order: nothing would be shown"
        raise RuntimeError(msg)
    if condition is not Condition.KILLED:
        return run_workload(request, system)
    run_until_killed(request, events, crash)
    report = run_workload(request, system)
    if not report.outcome.resumed:
        msg = "the second start did not go on with what the first one left"
        raise RuntimeError(msg)
    return report
