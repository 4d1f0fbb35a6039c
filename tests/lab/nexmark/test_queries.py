"""All questions about generated events, against the published counts and against the oracle."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lab.catalog import native_of
from headrace.lab.workload import Refusal, Row, Workload, find
from headrace.lab.workloads.nexmark.generator import generator
from headrace.lab.workloads.nexmark.queries import WORKLOADS
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import answers, generated

IN_ORDER = NexmarkSettings(num_events=5_000)
# Short windows at a low rate, so that there are many.
OUT_OF_ORDER = NexmarkSettings(
    num_events=3_000,
    first_event_rate=500,
    next_event_rate=500,
    out_of_order_group_size=10,
    num_in_flight_auctions=20,
    hot_auction_ratio=1,
    hot_sellers_ratio=3,
    window_size_sec=2,
    window_period_sec=1,
    session_gap_sec=1,
    max_log_events=700,
)
#: Rows for one generator and 5,000 events, from the specification's table of expected results.
COUNTS = {
    "q0": 5_000, "q1": 4_600, "q2": 6, "q3": 4, "q4": 10, "q5": 4, "q6": 41, "q7": 1, "q8": 298,
    "q9": 89, "q10": 1, "q11": 100, "q12": 100, "q7-side-input": 1, "q9-windows": 89,
    "q9-thesis": 89, "q13": 4_600, "q14": 4_600, "q15": 5_000, "q16": 5_000,
}


class Answered:
    """The answers to all questions about one stream, and the stream's log."""

    def __init__(self, settings: NexmarkSettings, log: Path) -> None:
        self.settings = settings
        self.log = str(log)
        pq.write_table(_table(settings), log)
        self._rows = answers(WORKLOADS, generated(settings), settings)

    def rows(self, workload: Workload) -> list[Row]:
        return [row for row, _ in self._rows[workload.name]]


def _table(settings: NexmarkSettings) -> Any:
    made = generator(settings)
    return pa.Table.from_batches([made.batch(0, made.events)])


@pytest.fixture(scope="module", params=[IN_ORDER, OUT_OF_ORDER], ids=["in_order", "out_of_order"])
def answered(request: Any, tmp_path_factory: Any) -> Iterator[Answered]:
    yield Answered(request.param, tmp_path_factory.mktemp("nexmark") / "log.parquet")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_an_answer_is_what_the_oracle_says(answered: Answered, workload: Workload) -> None:
    pytest.importorskip("duckdb", reason="the oracle asks DuckDB")
    expected = workload.rule(find(workload.oracle)(answered.log, answered.settings))
    assert expected, "an empty answer proves nothing"
    assert workload.rule(answered.rows(workload)) == expected


@pytest.mark.parametrize("answered", [IN_ORDER], ids=["in_order"], indirect=True)
def test_there_are_as_many_rows_as_the_specification_expects(answered: Answered) -> None:
    by_name = {workload.name: workload for workload in WORKLOADS}
    found = {
        name: sum(by_name[name].rule(answered.rows(by_name[name])).values()) for name in COUNTS
    }
    assert found == COUNTS


def test_rows_have_the_columns_that_the_workload_names(answered: Answered) -> None:
    types = {"long": int, "double": float, "string": str}
    for workload in WORKLOADS:
        wanted = tuple(types[column.kind.value] for column in workload.columns)
        for row in answered.rows(workload):
            assert tuple(map(type, row)) == wanted, workload.name


def test_names_are_unique_and_all_questions_and_the_thesis_variants_are_there() -> None:
    names = [workload.name for workload in WORKLOADS]
    assert len(set(names)) == len(names)
    assert {f"q{n}" for n in range(17)} <= set(names)
    assert {f"q{n}-thesis" for n in (4, 5, 6, 7, 9, 12)} <= set(names)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_native_version_is_there_or_says_why_not(workload: Workload) -> None:
    found = native_of(workload)
    assert found.reason if isinstance(found, Refusal) else callable(found)


def test_no_pipeline_needs_spark_or_the_oracle() -> None:
    asked = (
        "import sys; import headrace.lab.workloads.nexmark.queries;"
        "print(sorted({'pyspark', 'duckdb', 'headrace.lab.oracle'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
