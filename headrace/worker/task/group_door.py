"""Where groups enter the stage behind a grouping: as objects, or as columns where it takes them."""

from __future__ import annotations

from headrace.worker.batched.batches import Meta, in_millis
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

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take groups as columns; with whole milliseconds, as all groups have."""
        self._run.push_columns(self._transform_id, values, in_millis(meta))
