"""The right answers to the lab's questions, by arithmetic on whole columns.

Share nothing with the pipelines but the events. A run that was cut off is held against the events
that it was sent, and in windows only against those that were over by then: nobody can be asked for
the others. The last column of every row is the number of its newest input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.lab.data_engine.schedule import I64
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.workload import Row

#: Columns of events, in the order of their numbers, and the settings -> rows.
Answer = Callable[[I64, I64, I64, ProbeSettings], list[Row]]
#: Keys below this are sorted in linear time.
_SHORT = 2**16


def filtered(_micros: I64, keys: I64, numbers: I64, settings: ProbeSettings) -> list[Row]:
    """Keep the events whose score can be divided."""
    scores = numbers * 31 + keys
    kept = scores % settings.one_in == 0
    return _rows(scores[kept], keys[kept], numbers[kept])


def counted(micros: I64, keys: I64, numbers: I64, settings: ProbeSettings) -> list[Row]:
    """Count by window and key."""
    return _by_window(micros // (settings.window_ms * 1_000), keys, numbers, settings)


def slid(micros: I64, keys: I64, numbers: I64, settings: ProbeSettings) -> list[Row]:
    """Count by sliding window and key: an event counts in the windows that began last."""
    newest = micros // (settings.window_ms * 1_000)
    found: list[Row] = []
    starts = np.unique(newest)
    later = np.r_[np.searchsorted(newest, starts), len(newest)]
    for first in np.unique(starts[:, None] - np.arange(settings.panes)):
        low = int(np.searchsorted(starts, first))
        high = int(np.searchsorted(starts, first + settings.panes))
        some = slice(int(later[low]), int(later[high]))
        found += _by_window(
            np.full(some.stop - some.start, first), keys[some], numbers[some], settings
        )
    return found


def added_up(_micros: I64, keys: I64, numbers: I64, settings: ProbeSettings) -> list[Row]:
    """Give the running totals of each key at every Nth of its events."""
    if not len(keys):
        return []
    short = keys.astype(np.uint16) if settings.keys <= _SHORT else keys
    order = np.argsort(short, kind="stable")
    keys, numbers = keys[order], numbers[order]
    new = np.flatnonzero(np.r_[True, np.diff(keys) != 0])
    sizes = np.diff(np.r_[new, len(keys)])
    before = np.repeat(new, sizes)
    counts = np.arange(len(keys)) - before + 1
    sums = np.cumsum(numbers)
    totals = sums - (sums - numbers)[before]
    told = counts % settings.every == 0
    return _rows(keys[told], counts[told], totals[told], numbers[told])


def _by_window(windows: I64, keys: I64, numbers: I64, settings: ProbeSettings) -> list[Row]:
    """Count by window and key; windows are whole numbers of `window_ms`."""
    if not len(numbers):
        return []
    first = int(windows.min())
    places = (windows - first) * settings.keys + keys
    counts = np.bincount(places)
    lasts = np.zeros(len(counts), dtype=np.int64)
    np.maximum.at(lasts, places, numbers)
    there = np.flatnonzero(counts)
    starts = (there // settings.keys + first) * settings.window_ms
    return _rows(starts, there % settings.keys, counts[there], lasts[there])


def _rows(*columns: I64) -> list[Row]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


# --- what a run that was cut off can be asked for


def past(_settings: ProbeSettings, rows: list[Row], last_number: int) -> list[Row]:
    """Keep the rows whose newest input is not past the event of this number."""
    return [row for row in rows if row[-1] <= last_number]


def closed(settings: ProbeSettings, rows: list[Row], last_number: int) -> list[Row]:
    """Keep the rows of windows that the event of this number has closed."""
    return _over(settings, rows, last_number, settings.window_ms)


def slid_past(settings: ProbeSettings, rows: list[Row], last_number: int) -> list[Row]:
    """Keep the rows of sliding windows that the event of this number has closed."""
    return _over(settings, rows, last_number, settings.window_ms * settings.panes)


def _over(settings: ProbeSettings, rows: list[Row], last_number: int, size: int) -> list[Row]:
    mark = int(ProbeGenerator(settings).micros(np.array([last_number]))[0]) // 1_000
    return [row for row in rows if row[0] + size <= mark]


# --- from what events


def right_rows(answer: Answer, settings: ProbeSettings, numbers: I64) -> list[Row]:
    """Answer for the events of these numbers, which go up."""
    made = ProbeGenerator(settings)
    return answer(made.micros(numbers), made.keys(numbers), numbers, settings)


def from_log(answer: Answer, log: str, settings: Any) -> list[Row]:
    """Answer for the events of a log in Parquet."""
    table = ds.dataset(log.rpartition("/")[0] if "*" in log else log).to_table(
        columns=["nanos", "key", "number"]
    )
    table = table.sort_by("number")
    micros = pc.divide(table["nanos"], 1_000).to_numpy()
    return answer(micros, table["key"].to_numpy(), table["number"].to_numpy(), settings)


filter_from_log = partial(from_log, filtered)
count_from_log = partial(from_log, counted)
sliding_from_log = partial(from_log, slid)
state_from_log = partial(from_log, added_up)
