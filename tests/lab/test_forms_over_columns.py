"""Workloads asked of the columns of their log, in one process: the oracle's answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.catalog import CATALOG
from headrace.lab.experiments.table.runs import settings_of
from headrace.lab.verdict import judge
from headrace.lab.workload import Refusal, Row, Workload, find
from headrace.testing import LocalRunner, LocalSession
from tests.lab.local_runs import write_log

EVENTS = 3_000
#: Of fewer these have no answer.
MORE = dict.fromkeys(("nexmark q2", "nexmark q3", "kernels network"), 24_000)
#: Which rows are right depends on the clock, or on rows that no plain oracle knows.
NOT_HERE = {"nexmark q12"}
WORKLOADS = [
    w for suite in CATALOG.suites for w in CATALOG.of_suite(suite)
    if w.by_columns is not None and w.full_name not in NOT_HERE
]


def selected(table: pa.Table, columns: tuple[str, ...]) -> Iterator[tuple[str, pa.Array, bool]]:
    """Name, values and whether None may stand there, of columns as Spark's `select` takes them."""
    for told in columns:
        path, _, name = told.partition(" AS ")
        first, _, inner = path.partition(".")
        column, nullable = table.column(first).combine_chunks(), table.field(first).nullable
        fields = [f.name for f in column.type] if inner == "*" else [inner]
        for field in fields:
            values = column.flatten()[column.type.get_field_index(field)] if field else column
            yield name or field or first, values, nullable or bool(field)


def frame_of(workload: Workload, settings: Any) -> Any:
    """The columns that a workload asks for, with the event time in seconds."""
    made = workload.generator(settings)
    table = pa.Table.from_batches([made.batch(0, made.events)])
    assert workload.by_columns is not None
    found = list(selected(table, workload.by_columns.columns))
    micros = table.column("time").cast(pa.int64()).to_pylist()
    arrays = [pa.array([m / 1e6 for m in micros])]
    arrays += [a.cast(pa.int32()) if a.type == pa.int8() else a for _, a, _ in found]
    kinds = {pa.int64(): "long", pa.int32(): "int", pa.string(): "string", pa.float64(): "double"}
    words = ["time double not null"]
    words += [
        f"`{name}` {kinds[a.type]}{'' if nullable else ' not null'}"
        for (name, _, nullable), a in zip(found, arrays[1:], strict=True)
    ]
    rows = pa.table(arrays, names=["time", *(name for name, _, _ in found)])
    return LocalSession().createDataFrame(rows, ", ".join(words))


def answer(workload: Workload, settings: Any, columns: str) -> list[Row]:
    frame, found = frame_of(workload, settings), []
    schema = ", ".join(f"`{c.name}` {c.kind.value}" for c in workload.columns)
    by = workload.by_columns
    assert by is not None
    options = PipelineOptions([f"--columns={columns}"])
    with beam.Pipeline(LocalRunner(frame.sparkSession), options) as pipeline:
        rows = pipeline | ReadFromSpark(frame, columns=frame.columns[1:], timestamp="time")
        sink = WriteToSpark(function=lambda made: found.append(made), schema=schema)
        rows | "Query" >> by.build(settings) | sink
    return [tuple(row) for row in found[0].collect()]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.full_name.replace(" ", ":"))
def test_a_workload_over_columns_has_the_answer_of_its_oracle(
    tmp_path: Path, workload: Workload
) -> None:
    settings = settings_of(workload, MORE.get(workload.full_name, EVENTS))
    wanted = find(workload.oracle)(write_log(workload.generator(settings), tmp_path), settings)
    assert wanted
    verdict = judge(answer(workload, settings, "on"), wanted, workload.rule)
    assert verdict.right, verdict.lines()


def test_a_native_version_over_columns_is_there_wherever_one_is_named() -> None:
    for workload in WORKLOADS:
        assert workload.by_columns is not None
        assert isinstance(workload.native, Refusal | str)
        if workload.by_columns.native:
            assert callable(find(workload.by_columns.native))
