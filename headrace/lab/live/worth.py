"""What the rows of a live run are worth: data, which whoever makes trials of it can have."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lab.data_engine.schedule import F64
from headrace.lab.workload import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the rows of a run are worth. Times are seconds of the schedule, but for `left`."""

    due: F64  # of each right row that came: its date
    left: F64  # when it left, in seconds since 1970
    expected: F64  # the dates of the rows that had to come
    missing: F64  # of those that did not
    surplus: F64  # when rows left that had not to come, in seconds since 1970
    missing_rows: tuple[Row, ...]  # the first of them
    surplus_rows: tuple[Row, ...]
