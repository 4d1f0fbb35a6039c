"""Picks the way in which a grouping of a bounded input is computed."""

from __future__ import annotations

from headrace.plan.slices import Slices
from headrace.worker.beam_types import WindowedCoder, Windowing
from headrace.worker.exchange.grouping_kind import Grouping
from headrace.worker.grouping.bounded import BoundedGrouper
from headrace.worker.grouping.column_tables import Merging
from headrace.worker.grouping.general import GeneralGrouper
from headrace.worker.grouping.session_groups import SessionGrouper
from headrace.worker.grouping.slices import Combination
from headrace.worker.grouping.tables import GlobalGrouper, IntervalGrouper


def make_grouper(
    windowed_coder: WindowedCoder,
    windowing: Windowing,
    grouping: Grouping,
    memory_bytes: int,
    slices: Slices | None = None,
    combination: Combination | None = None,
    merging: Merging | None = None,
) -> BoundedGrouper:
    """Build the grouper for one channel.

    Args:
        windowed_coder: of the (key, value) pairs that arrive.
        windowing: Beam's windowing strategy.
        grouping: the path to take.
        memory_bytes: what values may take before they go to disk.
        slices: keep one partial per slice, not one per window.
        combination: how the values of slices become those of windows.
        merging: given where values are accumulators that columns can merge.
    """
    match grouping:
        case Grouping.GLOBAL:
            return GlobalGrouper(windowed_coder, windowing, memory_bytes, merging)
        case Grouping.INTERVALS:
            return IntervalGrouper(
                windowed_coder, windowing, memory_bytes, slices, combination or Combination(),
                merging,
            )
        case Grouping.SESSIONS:
            return SessionGrouper(windowed_coder, windowing, memory_bytes)
        case Grouping.GENERAL:
            return GeneralGrouper(windowed_coder, windowing, memory_bytes)
