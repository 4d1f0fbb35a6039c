"""The raw samples of a run as two tables: every result's times, every queue over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data_engine.schedule import F64, I64
from headrace.lab.record.stages import STAGES
from headrace.lab.record.trial import Trial

_NAMES = (
    pa.field("system", pa.string()), pa.field("question", pa.string()),
    pa.field("experiment", pa.string()), pa.field("repeat", pa.int32()),
)
RESULTS = pa.schema([
    *_NAMES, pa.field("due", pa.float64()), pa.field("left", pa.float64()),
    *(pa.field(f"stage_{name}", pa.float64()) for name in STAGES),
])
QUEUES = pa.schema([
    *_NAMES, pa.field("seconds", pa.float64()), pa.field("length", pa.int64()),
    pa.field("rate", pa.float64()),  # that the load has at that time; NaN: after it
])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A trial whose samples are kept."""

    system: str
    question: str
    experiment: str
    repeat: int
    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSamples:
    """The samples of one trial, as they are read back."""

    system: str
    question: str
    experiment: str
    repeat: int
    due: F64
    left: F64
    stages: dict[str, F64]
    queue_seconds: F64
    queue_lengths: I64
    queue_rates: F64  # events per second sent then; empty: the run is older than this column


def results_table(kept: Iterable[Kept]) -> pa.Table:
    """Lay the results of trials below each other."""
    batches = []
    for each in kept:
        trial, count = each.trial, len(each.trial.due)
        columns = [*_names(each, count), pa.array(trial.due), pa.array(trial.left)]
        for name in STAGES:
            values = trial.stages.get(name)
            columns.append(
                pa.nulls(count, pa.float64()) if values is None else pa.array(values, pa.float64())
            )
        batches.append(pa.RecordBatch.from_arrays(columns, schema=RESULTS))
    return pa.Table.from_batches(batches, schema=RESULTS)


def queues_table(kept: Iterable[Kept]) -> pa.Table:
    """Lay the queues of trials below each other."""
    batches = [
        pa.RecordBatch.from_arrays(
            [
                *_names(each, len(each.trial.queue_seconds)),
                pa.array(each.trial.queue_seconds), pa.array(each.trial.queue_lengths),
                pa.array(each.trial.load.schedule.rates_at(each.trial.queue_seconds)),
            ],
            schema=QUEUES,
        )
        for each in kept
    ]
    return pa.Table.from_batches(batches, schema=QUEUES)


def _names(each: Kept, count: int) -> list[pa.Array]:
    return [
        pa.array([each.system] * count, pa.string()),
        pa.array([each.question] * count, pa.string()),
        pa.array([each.experiment] * count, pa.string()),
        pa.array(np.full(count, each.repeat, np.int32)),
    ]


def series_of(results: pa.Table, queues: pa.Table) -> list[TrialSamples]:
    """Read trials back, in the order in which they were kept."""
    found: dict[tuple[str, str, str, int], dict[str, npt.NDArray[Any]]] = {}
    for table in (results, queues):
        for key, rows in _trials(table):
            columns = {name: rows[name].to_numpy() for name in table.column_names}
            found.setdefault(key, {}).update(columns)
    none = np.zeros(0)
    return [
        TrialSamples(
            system=system, question=question, experiment=experiment, repeat=repeat,
            due=columns.get("due", none), left=columns.get("left", none),
            stages={
                name: values
                for name in STAGES
                if len(values := columns.get(f"stage_{name}", none))
                and not np.isnan(values).all()
            },
            queue_seconds=columns.get("seconds", none),
            queue_lengths=columns.get("length", none).astype(np.int64),
            queue_rates=columns.get("rate", none),
        )
        for (system, question, experiment, repeat), columns in found.items()
    ]


def _trials(table: pa.Table) -> Iterator[tuple[tuple[str, str, str, int], pa.Table]]:
    """Cut a table where the names of trials change: a trial's rows stand together."""
    if not len(table):
        return
    # Runs were of one question before they had a column for it.
    names = [field.name for field in _NAMES if field.name in table.column_names]
    ends: set[int] = set()
    for name in names:
        runs = pc.run_end_encode(table[name].combine_chunks())
        ends.update(runs.run_ends.to_pylist())
    start = 0
    for end in sorted(ends):
        rows = table.slice(start, end - start)
        told = {name: rows[name][0].as_py() for name in names}
        key = told["system"], told.get("question", ""), told["experiment"], told["repeat"]
        yield key, rows
        start = end
