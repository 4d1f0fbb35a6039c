"""Holds the rows of a live run against the workload's own oracle, and gives each row its date.

The oracle answers for exactly the events that were delivered, dated as they were. Every row that
came must be one of its rows, and every one of its rows must have come, but for those whose date is
in the tail of the events: a system may wait for something newer before it lets them out. Equal rows
are told apart by their order: the first to come is the one of the earliest date. Rows are compared
by 64 bits of a hash of all their columns, so that millions of them can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lab.data_engine.schedule import F64, I64
from headrace.lab.live.facts import BASE_MS, Facts
from headrace.lab.live.sent import SentEvents
from headrace.lab.live.worth import Judged
from headrace.lab.oracle.dated import DATED
from headrace.lab.oracle.duck import as_columns
from headrace.lab.verdict import SHOWN
from headrace.lab.workload import Column, Kind, Row, Workload, all_rows, find

#: Events of a file of the log that the oracle reads.
_PER_FILE = 500_000
_TYPES = {Kind.LONG: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string()}
_DATE = "date_ms"
#: Rows of both sides that are compared at once: to pair them takes some sixty bytes for each.
AT_ONCE = 1 << 25

U64 = npt.NDArray[np.uint64]


def judged(
    workload: Workload, facts: Facts, settings: Any, sent: SentEvents, events: int,
    came: Sequence[tuple[float, pa.Table]], folder: Path,
) -> Judged:
    """Judge the rows of a run.

    Args:
        workload: that was asked.
        facts: of it.
        settings: with which it was asked.
        sent: its events.
        events: how many of them were delivered.
        came: rows by the time at which they left, in seconds since 1970.
        folder: for the log; whoever gives it removes it.
    """
    log = write_sent(sent, events, folder)
    right, right_dates = _right(workload, facts, settings, log)
    rows, left = _gathered(workload.columns, came)
    last = int(sent.micros(np.array([max(0, events - 1)]))[0]) / 1_000
    own = _dates(rows, facts, settings) if facts.date else np.zeros(0)
    if facts.undated:
        right_dates = np.full(right.num_rows, last)
    had_to = right_dates <= last - facts.tail_seconds * 1_000
    found = _compare(workload, facts, right, right_dates, had_to, rows, left)
    dates = own if facts.date else found.dates
    is_dated = np.zeros(len(left), dtype=bool) if facts.undated else dates <= last
    dates = dates if len(dates) == len(left) else np.zeros(len(left))
    return Judged(
        due=(dates[is_dated] - BASE_MS) / 1_000, left=left[is_dated],
        expected=(right_dates[had_to] - BASE_MS) / 1_000,
        missing=(found.missing - BASE_MS) / 1_000, surplus=found.surplus,
        missing_rows=found.missing_rows, surplus_rows=found.surplus_rows,
    )


def write_sent(sent: SentEvents, events: int, folder: Path) -> str:
    """Write the events that were delivered; give the pattern of the files' names."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, max(1, events), _PER_FILE)):
        count = min(_PER_FILE, events - start)
        table = pa.Table.from_batches([sent.batch(start, count)] if count else [], sent.schema)
        pq.write_table(table, folder / f"{number:06d}.parquet", use_dictionary=False)
    return str(folder / "*.parquet")


def _right(
    workload: Workload, facts: Facts, settings: Any, log: str
) -> tuple[pa.Table, F64]:
    """Give the rows of the oracle, and their dates."""
    if not facts.date and not facts.undated:
        answer = DATED[f"{workload.suite}:{workload.name}"]
        found = table_of((*workload.columns, Column(_DATE, Kind.LONG)), answer(log, settings))
        return found.drop_columns([_DATE]), found[_DATE].to_numpy().astype(np.float64)
    answer = find(workload.oracle)
    if facts.is_large:
        with as_columns():
            found = _cast(workload.columns, answer(log, settings))
    else:
        found = table_of(workload.columns, answer(log, settings))
    return found, _dates(found, facts, settings) if facts.date else np.zeros(found.num_rows)


def table_of(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Make columns of rows."""
    by_column = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.table({
        column.name: pa.array(values, _TYPES[column.kind])
        for column, values in zip(columns, by_column, strict=True)
    })


def _cast(columns: Sequence[Column], table: pa.Table) -> pa.Table:
    return pa.table({
        column.name: values.cast(_TYPES[column.kind])
        for column, values in zip(columns, table.columns, strict=True)
    })


def _gathered(
    columns: Sequence[Column], came: Sequence[tuple[float, pa.Table]]
) -> tuple[pa.Table, F64]:
    tables = [_cast(columns, table) for _, table in came]
    counts = [table.num_rows for table in tables]
    left = np.repeat(np.array([at for at, _ in came], dtype=np.float64), counts)
    return pa.concat_tables([table_of(columns, ()), *tables]), left


def _dates(rows: pa.Table, facts: Facts, settings: Any) -> F64:
    told = {name: getattr(settings, name) for name in _named(facts.date)}
    return _asked(rows, f"({facts.date.format(**told)})::DOUBLE").astype(np.float64)


def _named(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


def _asked(rows: pa.Table, expression: str) -> npt.NDArray[Any]:
    """Give the value of an expression for each row, in their order."""
    with duckdb.connect() as connection:
        connection.register("answer", rows)
        found = connection.execute(f"SELECT {expression} AS value FROM answer").fetchnumpy()
    return np.asarray(found["value"])


# --- the comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    dates: F64  # of each row that came, in milliseconds; infinite: it is not right
    missing: F64
    surplus: F64
    missing_rows: tuple[Row, ...]
    surplus_rows: tuple[Row, ...]


def _compare(
    workload: Workload, facts: Facts, right: pa.Table, right_dates: F64,
    had_to: npt.NDArray[np.bool_], rows: pa.Table, left: F64,
) -> _Compared:
    names = tuple(column.name for column in workload.columns)
    if workload.rule is not all_rows and not facts.compared:
        # What a rule makes of rows has no time of its own: what is wrong is told as of the end.
        rows = table_of(workload.columns, _ruled(workload, rows))
        left = np.full(rows.num_rows, left.max(initial=0.0))
    several = [
        _compare_columns(which, right, right_dates, had_to, rows, left)
        for which in facts.compared or (names,)
    ]
    return _Compared(
        dates=several[0].dates,
        missing=np.concatenate([each.missing for each in several]),
        surplus=np.concatenate([each.surplus for each in several]),
        missing_rows=tuple(row for each in several for row in each.missing_rows)[:SHOWN],
        surplus_rows=tuple(row for each in several for row in each.surplus_rows)[:SHOWN],
    )


def _ruled(workload: Workload, rows: pa.Table) -> Iterable[Row]:
    plain = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return workload.rule(plain).elements()


def _compare_columns(
    names: Sequence[str], right: pa.Table, right_dates: F64, had_to: npt.NDArray[np.bool_],
    rows: pa.Table, left: F64,
) -> _Compared:
    """Compare by some columns: the nth of equal rows with the nth."""
    hashed = f"hash({', '.join(chr(34) + name + chr(34) for name in names)})"
    theirs, ours = (_asked(table, hashed).astype(np.uint64) for table in (right, rows))
    is_missing, is_surplus = np.zeros(len(theirs), np.bool_), np.zeros(len(ours), np.bool_)
    dates = np.full(len(ours), np.inf)
    parts = np.uint64((len(theirs) + len(ours)) // AT_ONCE + 1)
    for part in range(int(parts)):  # equal rows have equal hashes, so they are in one part
        their_rows, our_rows = (np.flatnonzero(of % parts == part) for of in (theirs, ours))
        lacks, is_more, dated = _paired(
            theirs[their_rows], ours[our_rows], right_dates[their_rows], left[our_rows]
        )
        is_missing[their_rows] = lacks & had_to[their_rows]
        is_surplus[our_rows] = is_more
        dates[our_rows] = dated
    return _Compared(
        dates=dates, missing=right_dates[is_missing], surplus=left[is_surplus],
        missing_rows=shown(right.select(names), np.flatnonzero(is_missing)),
        surplus_rows=shown(rows.select(names), np.flatnonzero(is_surplus)),
    )


def _paired(
    theirs: U64, ours: U64, right_dates: F64, left: F64
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], F64]:
    """Give which right rows lack one of ours, which of ours are too many, and the others' dates."""
    keys, places = np.unique(np.concatenate([theirs, ours]), return_inverse=True)
    their_places, our_places = places[: len(theirs)], places[len(theirs) :]
    our_turns, our_order = _turns(our_places, left)
    their_turns, their_order = _turns(their_places, right_dates)
    have = np.bincount(our_places, minlength=len(keys))
    most = np.bincount(their_places, minlength=len(keys))
    lacks, is_more = their_turns >= have[their_places], our_turns >= most[our_places]
    dates = np.full(len(ours), np.inf)
    # In the order of place and turn both sides have the same rows, but for those left over.
    dates[our_order[~is_more[our_order]]] = right_dates[their_order[~lacks[their_order]]]
    return lacks, is_more, dates


def _turns(places: I64, times: F64) -> tuple[I64, I64]:
    """Give, of each row, how many equal ones are before it in time, and the order of both."""
    order = np.lexsort((times, places))
    ordered = places[order]
    new = np.flatnonzero(np.r_[True, np.diff(ordered) != 0]) if len(ordered) else ordered
    sizes = np.diff(np.r_[new, len(ordered)])
    turns = np.empty(len(ordered), dtype=np.int64)
    turns[order] = np.arange(len(ordered)) - np.repeat(new, sizes)
    return turns, order


def shown(rows: pa.Table, places: I64) -> tuple[Row, ...]:
    """Give the first of some rows of a table, as they are shown to a person."""
    # Row by row: to take them at once Arrow makes one array of each column, at most 2 GiB of text.
    some = [rows.slice(place, 1).to_pylist()[0] for place in places[:SHOWN].tolist()]
    return tuple(tuple(row[name] for name in rows.column_names) for row in some)
