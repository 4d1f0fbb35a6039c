"""Finds out whether a stage's ParDo asks for input in the order of event time, and sees to it."""

from __future__ import annotations

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from headrace.worker.sorting.lateness import SortedLateness
from headrace.worker.task.descriptors import Descriptors
from headrace.worker.task.memory import Memory, SortingSpec
from headrace.worker.task.stage import StageRun

_PAR_DO = common_urns.primitives.PAR_DO.urn


def bind_sorter(
    run: StageRun, descriptors: Descriptors, memory: Memory, memory_bytes: int
) -> None:
    """Give a stage its sorter, if its ParDo asks for input in the order of event time."""
    for proto in descriptors.transforms(run.stage).values():
        if proto.spec.urn != _PAR_DO:
            continue
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        if not payload.requires_time_sorted_input:
            continue
        lateness = descriptors.main_windowing(proto).allowed_lateness.micros
        coder = descriptors.coder(run.stage.reads[0].channel)
        run.sorter = memory.sorter(SortingSpec(run.number, coder, lateness, memory_bytes))
        if not run.bounded:
            run.late = SortedLateness(lateness)
