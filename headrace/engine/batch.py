"""Runs a bounded pipeline: one epoch, one job of its host.

Takes a plan and a host, gives the logs of the tasks, and hands the sinks their DataFrames.
Timers and residuals are worked off inside the tasks, so one epoch is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.clock import WallClock
from headrace.engine.failures import translate
from headrace.engine.host import Host
from headrace.engine.outputs import Outputs
from headrace.engine.recording import Laps, Spent, Watcher, batch_record
from headrace.engine.reports import gather as gather_reports
from headrace.io.frames import Frames
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan


@dataclass(kw_only=True)
class Outcome:
    """What a finished run leaves behind."""

    monitoring_infos: dict[str, list[Any]] = field(default_factory=dict)  # by stage name


def run_batch(
    plan: Plan, host: Host, settings: Settings, title: str, frames: Frames,
    watchers: Sequence[Watcher] = (),
) -> Outcome:
    """Run the plan to its end, then write; raise what the user's code raised.

    Args:
        plan: what is run.
        host: where.
        settings: what its tasks are told.
        title: what its jobs are called.
        frames: the DataFrames and sinks it speaks of.
        watchers: are given the record of the run, as of an epoch.
    """
    began, laps = WallClock().now(), Laps()
    outputs = Outputs(plan, frames, host.session)
    try:
        outcome = _run(plan, host, settings, title, frames, outputs)
        laps.lap("tasks")
        outputs.deliver()
        laps.lap("sinks")
    finally:
        outputs.close()
    if watchers:
        spent = Spent(laps, outputs.seconds, began)
        record = batch_record(plan, spent, outcome.monitoring_infos)
        for watcher in watchers:
            watcher.epoch(record)
    return outcome


def _run(
    plan: Plan, host: Host, settings: Settings, title: str, frames: Frames, outputs: Outputs
) -> Outcome:
    try:
        rows = host.run_batch(plan, settings, frames.sources, outputs.schemas, title)
        outputs.keep(rows)
        return gather(plan, rows.reports())
    except Exception as error:
        found = translate(error)
        if found is error:
            raise
        raise found from found.__cause__


def gather(plan: Plan, reports: list[tuple[int, bytes]]) -> Outcome:
    """Merge the reports of all tasks; say on the driver what user code said on the workers."""
    _, infos = gather_reports(reports, [stage.name for stage in plan.stages()], {})
    return Outcome(monitoring_infos=infos)
