"""The right answer to the lab's question, by arithmetic on whole columns.

Shares nothing with the pipelines but the events. A run that was cut off is held against the events
that it was sent, and only in windows that were over by then: nobody can be asked for the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.lab.data_engine.schedule import I64
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.workload import Row


def right_rows(settings: ProbeSettings, numbers: I64) -> list[Row]:
    """Count the events that were sent."""
    generator = ProbeGenerator(settings)
    return _counted(generator.micros(numbers), generator.keys(numbers), numbers, settings)


def closed(settings: ProbeSettings, rows: list[Row], last_number: int) -> list[Row]:
    """Keep the rows of windows that the event of this number has closed."""
    mark = int(ProbeGenerator(settings).micros(np.array([last_number]))[0]) // 1_000
    return [row for row in rows if row[0] + settings.window_ms <= mark]


def from_log(log: str, settings: ProbeSettings) -> list[Row]:
    """Count the events of a log in Parquet."""
    table = ds.dataset(log.rpartition("/")[0] if "*" in log else log).to_table(
        columns=["nanos", "key", "number"]
    )
    micros = pc.divide(table["nanos"], 1_000).to_numpy()
    return _counted(micros, table["key"].to_numpy(), table["number"].to_numpy(), settings)


def _counted(micros: I64, keys: I64, numbers: I64, settings: Any) -> list[Row]:
    size = settings.window_ms * 1_000
    if not len(numbers):
        return []
    windows = micros // size
    order = np.lexsort((numbers, keys, windows))
    windows, keys, numbers = windows[order], keys[order], numbers[order]
    new = np.flatnonzero(np.r_[True, (np.diff(windows) != 0) | (np.diff(keys) != 0)])
    counts = np.diff(np.r_[new, len(numbers)])
    lasts = numbers[new + counts - 1]
    starts = windows[new] * settings.window_ms
    columns = (starts.tolist(), keys[new].tolist(), counts.tolist(), lasts.tolist())
    return list(zip(*columns, strict=True))
