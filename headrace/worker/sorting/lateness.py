"""Drops elements that come too late for their place in the order of event time.

As in Beam's Java runners: a ParDo with time-sorted input gets no element whose time and allowed
lateness lie before the watermark, though its window may be open. Later ones may have been given
already.
"""

from __future__ import annotations

from headrace.plan.clocks import MIN_TIME
from headrace.worker.batched.batches import Columns, Meta, pick
from headrace.worker.beam_types import Value
from headrace.worker.grouping.lateness import Lateness


class SortedLateness(Lateness):
    """Knows which windows are over, and which moments."""

    def in_time(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta] | None:
        """Give the elements that still have a place; None: none is left."""
        found = super().in_time(values, meta)
        if found is None or self._watermark == MIN_TIME:
            return found
        values, meta = found
        bound = self._watermark - self._allowed
        if type(meta) is not Columns:
            if meta.timestamp_micros >= bound:
                return found
            self.dropped += len(values) * len(meta.windows)
            return None
        times = meta.times
        if min(times) >= bound:
            return found
        kept = [i for i, time in enumerate(times) if time >= bound]
        windows = [windows for time, windows in zip(times, meta.windows, strict=True)
                   if time < bound]  # fmt: skip
        self.dropped += sum(map(len, windows))
        return ([values[i] for i in kept], pick(meta, kept)) if kept else None
