"""Picks the way in which a grouping is computed, in streaming.

Takes a windowing strategy and what the compiler decided, gives a grouper.
"""

from __future__ import annotations

from headrace.plan.slices import Slices
from headrace.worker.beam_types import WindowedCoder, Windowing
from headrace.worker.exchange.grouping_kind import Grouping, counts_of, grouping_of
from headrace.worker.grouping.column_tables import Merging
from headrace.worker.grouping.counted_sessions import CountedSessions
from headrace.worker.grouping.grouper import Compact, StreamGrouper
from headrace.worker.grouping.panes import WindowTables
from headrace.worker.grouping.sessions import SessionTables
from headrace.worker.grouping.sliced_panes import SlicedTables
from headrace.worker.grouping.slices import Combination
from headrace.worker.grouping.triggers import TriggeredGroups


def make_stream_grouper(
    stage: int,
    windowed_coder: WindowedCoder,
    windowing: Windowing,
    memory_bytes: int,
    compact: Compact | None = None,
    slices: Slices | None = None,
    combination: Combination | None = None,
    merging: Merging | None = None,
) -> StreamGrouper:
    """Build the grouper of one stage.

    Args:
        stage: the stage's number in the plan; names the rows.
        windowed_coder: of the (key, value) pairs that arrive.
        windowing: Beam's windowing strategy.
        memory_bytes: what the elements of an epoch may take before they are packed.
        compact: given where values are accumulators; keeps what waits small.
        slices: keep one partial per slice, not one per window.
        combination: with `slices`, how their values become those of windows.
        merging: given where values are accumulators that columns can merge.
    """
    path = grouping_of(windowing)
    if path is Grouping.SESSIONS:
        sessions = SessionTables if counts_of(windowing) is None else CountedSessions
        return sessions(stage, windowed_coder, windowing, compact)
    if path is Grouping.GENERAL or windowing.allowed_lateness.micros:
        return TriggeredGroups(stage, windowed_coder, windowing, compact)
    fast = (stage, windowed_coder, windowing, memory_bytes, compact)
    if slices is not None:
        return SlicedTables(slices, combination or Combination(), *fast, merging=merging)
    return WindowTables(*fast, merging=merging)
