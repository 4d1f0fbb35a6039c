"""Drops elements of windows that are over, before a stateful ParDo sees them.

Takes batches, gives what of them is still in time. The state of such a window is gone, so that an
element of it would find an empty cell and be answered wrongly. `plan.lateness` has the rule.
"""

from __future__ import annotations

from headrace.plan.clocks import MIN_TIME
from headrace.plan.lateness import is_over
from headrace.worker.batched.batches import Columns, Meta, columns, pick
from headrace.worker.beam_types import Value, Windows


class Lateness:
    """Knows which windows are over."""

    def __init__(self, allowed: int) -> None:
        """Describe a stage.

        Args:
            allowed: microseconds that elements may come after the end of their windows.
        """
        self._allowed = allowed
        self._watermark = MIN_TIME
        self.dropped = 0  # since attach; an element counts once per window

    def attach(self, watermark: int) -> None:
        """Begin an epoch; the input watermark is that of the end of the last one."""
        self._watermark = watermark
        self.dropped = 0

    def in_time(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta] | None:
        """Give the elements, each in those of its windows that are not over; None: none is left."""
        if self._watermark == MIN_TIME:
            return values, meta
        if type(meta) is not Columns:
            left = self._open(meta.windows)
            if left is meta.windows:
                return values, meta
            if not left:
                self.dropped += len(values) * len(meta.windows)
                return None
        found = columns(values, meta)
        # Elements of a batch share the tuples of their windows more often than not.
        known: dict[int, Windows] = {}
        windows = []
        for given in found.windows:
            rest = known.get(id(given))
            if rest is None:
                rest = known[id(given)] = self._open(given)
            windows.append(rest)
        if all(map(_same, windows, found.windows)):
            return values, meta
        self.dropped += sum(map(len, found.windows)) - sum(map(len, windows))
        kept = [i for i, left in enumerate(windows) if left]
        if not kept:
            return None
        return [values[i] for i in kept], pick(found._replace(windows=windows), kept)

    def _open(self, windows: Windows) -> Windows:
        left = [
            window
            for window in windows
            if not is_over(window.max_timestamp().micros, self._watermark, self._allowed)
        ]
        return windows if len(left) == len(windows) else tuple(left)


def _same(a: Windows, b: Windows) -> bool:
    return a is b
