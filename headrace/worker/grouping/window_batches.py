"""Hands merged accumulators on as columns: windows with few keys go together, in one batch.

A call of a step costs the same for ten rows as for ten thousand, and there may be as many windows
as elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import (
    COLUMN_ROWS,
    ColumnNode,
    Started,
    TimeColumns,
    keeps_columns,
)
from headrace.worker.beam_types import Windows
from headrace.worker.columns.values import ColumnValues, concatenate
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.grouping.bounded import Push
from headrace.worker.grouping.column_tables import as_groups

#: Windows with more rows are a batch of their own: to copy them costs more than a call.
FEW_ROWS = COLUMN_ROWS // 8


def push_columns(
    found: Iterable[tuple[Span, ColumnValues]], pane: Callable[[Span], Meta], push: Push
) -> None:
    """Hand on the merged accumulators of windows, as groups of one each.

    Args:
        found: windows with their pairs, in the order in which they are to leave.
        pane: gives time, window and pane of a window's groups.
        push: the next step.
    """
    assert keeps_columns(push)
    together = _Together(push)
    for span, pairs in found:
        together.add(as_groups(pairs), pane(span))
    together.flush()


class _Together:
    """Windows that wait to be one batch."""

    def __init__(self, push: ColumnNode) -> None:
        self._push = push
        self._held: list[tuple[ColumnValues, Meta]] = []
        self._rows = 0
        # One for all batches: what is grouped again tells windows apart by it.
        self._known: dict[int, Windows] = {}

    def add(self, groups: ColumnValues, meta: Meta) -> None:
        """Take the groups of one window, whose meta is that of one value."""
        if len(groups) > FEW_ROWS:
            self.flush()
            for start in range(0, len(groups), COLUMN_ROWS):
                self._push.columns(groups.slice(start, start + COLUMN_ROWS), meta)
            return
        if self._held and not _alike(self._held[0], groups, meta):
            self.flush()
        self._held.append((groups, meta))
        self._rows += len(groups)
        if self._rows >= COLUMN_ROWS:
            self.flush()

    def flush(self) -> None:
        """Hand on what waits."""
        held, self._held, self._rows = self._held, [], 0
        if len(held) == 1:
            self._push.columns(*held[0])
        if len(held) < 2:
            return
        sizes = [len(groups) for groups, _ in held]
        numbers = range(len(self._known), len(self._known) + len(held))
        for number, (_, meta) in zip(numbers, held, strict=True):
            self._known[number] = meta.windows
        times = np.array([meta.timestamp_micros for _, meta in held], np.int64)
        windows = Started(np.repeat(np.array(numbers, np.int64), sizes), self._known)
        self._push.columns(
            concatenate([groups for groups, _ in held]),
            TimeColumns(np.repeat(times, sizes), windows, held[0][1].pane_info),
        )


def _alike(held: tuple[ColumnValues, Meta], groups: ColumnValues, meta: Meta) -> bool:
    """Whether two windows can be in one batch."""
    return bool(held[0].shape == groups.shape and held[1].pane_info == meta.pane_info)
