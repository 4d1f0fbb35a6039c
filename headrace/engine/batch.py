"""Runs a bounded pipeline: one epoch, one Spark action.

Takes a plan and a place, gives the findings of the tasks, and hands the sinks their DataFrames.
Timers and residuals are worked off inside the tasks, so one epoch is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.engine.failures import translate
from headrace.engine.launch import launch
from headrace.engine.outputs import Outputs
from headrace.engine.reports import gather as gather_reports
from headrace.engine.session import Place
from headrace.io.frames import Frames
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.worker.entry import REPORT_CHANNEL


@dataclass(kw_only=True)
class Outcome:
    """What a finished run leaves behind."""

    monitoring_infos: dict[str, list[Any]] = field(default_factory=dict)  # by stage name


def run_batch(
    plan: Plan, place: Place, settings: Settings, group: str, title: str, frames: Frames
) -> Outcome:
    """Run the plan to its end, then write; raise what the user's code raised."""
    context = place.parent.sparkContext
    context.setJobGroup(group, title, interruptOnCancel=False)
    outputs = Outputs(plan, frames, place.parent)
    try:
        outcome = _run(plan, place, settings, frames, outputs)
        outputs.deliver()
    finally:
        outputs.close()
    return outcome


def _run(
    plan: Plan, place: Place, settings: Settings, frames: Frames, outputs: Outputs
) -> Outcome:
    try:
        launched = launch(plan, place.session, settings, frames.sources, outputs.schemas)
        frame = outputs.keep(launched)
        rows = frame.where(f"channel = {REPORT_CHANNEL}").select("seq", "payload").collect()
    except Exception as error:
        found = translate(error)
        if found is error:
            raise
        raise found from found.__cause__
    return gather(plan, [(row[0], bytes(row[1])) for row in rows])


def gather(plan: Plan, reports: list[tuple[int, bytes]]) -> Outcome:
    """Merge the reports of all tasks; say on the driver what user code said on the workers."""
    _, infos = gather_reports(reports, [stage.name for stage in plan.stages()], {})
    return Outcome(monitoring_infos=infos)
