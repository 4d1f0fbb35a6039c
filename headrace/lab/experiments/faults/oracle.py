"""The right answer, worked out from the input files in plain Python, and the comparison with it.

Shares no code with the pipeline: no Beam, no Spark, only sorting and adding. Says in which rows an
answer differs; `reading` gives that of a run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import xor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

#: (key, start and end in microseconds, count, sum, exclusive or): the last three of the values,
#: which are all different, so that a lost or doubled one shows.
Row = tuple[str, int, int, int, int, int]
Answer = dict[str, Counter[Row]]

WINDOW = 30_000_000
GAP = 4_000_000
BUCKET = 60_000_000
SAMPLE = 5
BRANCHES = ("totals", "sessions", "flushes", "joined")
COLUMNS = ("key", "start", "end", "count", "total", "mix")


def right_answer(folder: Path) -> Answer:
    """Give what each branch of the pipeline must write for the input in a folder."""
    rates: dict[tuple[int, int], int] = {}
    for at, kind, rate in _rows(folder / "rates", ("at", "kind", "rate")):
        rates[at // WINDOW, kind] = rate
    by_key: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, key, value in _rows(folder / "events", ("at", "key", "value")):
        by_key[key].append((at, value))
    answer: Answer = {branch: Counter() for branch in BRANCHES}
    for key, events in by_key.items():
        events.sort()
        answer["totals"].update(_cut(key, events, WINDOW))
        answer["flushes"].update(_cut(key, events, BUCKET))
        answer["sessions"].update(_sessions(key, events))
        answer["joined"].update(
            _cut(
                key,
                [
                    (at, value * rates[at // WINDOW, value % 8])
                    for at, value in events
                    if value % SAMPLE == 0
                ],
                WINDOW,
            )
        )
    return answer


def differences(found: Answer, wanted: Answer, shown: int = 3) -> list[str]:
    """Say how two answers differ, with some of the rows; nothing if they are the same."""
    lines = []
    for branch in BRANCHES:
        lost, added = wanted[branch] - found[branch], found[branch] - wanted[branch]
        for word, rows in (("missing", lost), ("too many", added)):
            if rows:
                some = ", ".join(map(str, sorted(rows)[:shown]))
                lines.append(f"{branch}: {rows.total()} rows {word}, such as {some}")
    return lines


def _rows(folder: Path, columns: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path, columns=list(columns))
        found = [
            (column.cast("int64") if name == "at" else column).to_pylist()
            for name, column in zip(columns, table.columns, strict=True)
        ]
        yield from zip(*found, strict=True)


def _row(key: str, start: int, end: int, values: list[int]) -> Row:
    return key, start, end, len(values), sum(values), reduce(xor, values, 0)


def _cut(key: str, events: list[tuple[int, int]], length: int) -> list[Row]:
    pieces: dict[int, list[int]] = defaultdict(list)
    for at, value in events:
        pieces[at // length].append(value)
    return [_row(key, n * length, (n + 1) * length, values) for n, values in pieces.items()]


def _sessions(key: str, events: list[tuple[int, int]]) -> list[Row]:
    """Cut where at least a gap lies between two events; a session ends a gap after its last."""
    rows: list[Row] = []
    values: list[int] = []
    first = last = events[0][0]
    for at, value in events:
        if at - last >= GAP:
            rows.append(_row(key, first, last + GAP, values))
            values, first = [], at
        values.append(value)
        last = at
    return [*rows, _row(key, first, last + GAP, values)]
