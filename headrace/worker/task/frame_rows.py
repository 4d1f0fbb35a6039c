"""Pushes the rows of a DataFrame into a stage: as columns if it can use them, else as objects."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from headrace.worker.batched.batches import BATCH_VALUES, numbered
from headrace.worker.batched.column_batches import COLUMN_ROWS
from headrace.worker.columns.values import ColumnValues
from headrace.worker.ends.row_reader import RowReader
from headrace.worker.task.stage import StageRun


def push_frame(
    batches: Iterable[pa.RecordBatch],
    reader: RowReader,
    run: StageRun,
    transform_id: str,
    *,
    first_number: int,
    max_bundle_elements: int,
) -> None:
    """Push all rows.

    Args:
        batches: of the DataFrame, one partition of it.
        reader: knows what a row is.
        run: the stage that takes them.
        transform_id: where in the stage.
        first_number: the order number of the first row, if the stage has order numbers.
        max_bundle_elements: a bundle is cut between two pushes; 0: not at all.
    """
    if run.takes_columns(transform_id) and reader.gives_columns:
        most = min(COLUMN_ROWS, max_bundle_elements or COLUMN_ROWS)
        for batch in batches:
            for values, meta in reader.columns(batch, most):
                if isinstance(values, ColumnValues):
                    run.push_columns(transform_id, values, meta)
                else:
                    run.push(transform_id, values, meta)
        return
    most = min(BATCH_VALUES, max_bundle_elements or BATCH_VALUES)
    number = first_number
    for batch in batches:
        for rows, meta in reader.timed(batch, most):
            if run.order is not None:
                meta = numbered(rows, meta, range(number, number + len(rows)))
                number += len(rows)
            run.push(transform_id, rows, meta)
