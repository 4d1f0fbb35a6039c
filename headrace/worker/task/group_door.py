"""Where groups enter the stage behind a grouping: as objects, or as columns where it takes them."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.worker.batched.batches import Meta, in_millis
from headrace.worker.batched.column_batches import columns_in_millis
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.beam_types import Value
from headrace.worker.columns.values import ColumnValues
from headrace.worker.task.stage import StageRun


class GroupDoor:
    """What a grouping hands its groups to.

    Args:
        run: the stage.
        transform_id: where they enter it.
    """

    def __init__(self, run: StageRun, transform_id: str) -> None:
        self._run = run
        self._transform_id = transform_id
        self.takes_columns = run.takes_columns(transform_id)

    def __call__(self, groups: list[Value], meta: Meta) -> None:
        """Take groups that share time, window and pane."""
        self._run.push_groups(self._transform_id, groups, meta)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """Whether groups may come as pairs of columns, of which these are some of each shape."""
        return self._run.takes_pairs() and self._run.bundles.takes_groups(self._transform_id, parts)

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Take the groups of a window, where `takes_groups` says so."""
        self._run.bundles.run_groups(self._transform_id, groups, in_millis(meta))

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take groups as columns; with whole milliseconds, as all groups have."""
        self._run.push_columns(self._transform_id, values, columns_in_millis(meta))
