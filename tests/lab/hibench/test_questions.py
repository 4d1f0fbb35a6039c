"""The HiBench pipelines, their oracles and native versions."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lab.oracle import hibench as oracle
from headrace.lab.workload import Workload
from headrace.lab.workloads import hibench
from headrace.lab.workloads.hibench.settings import Settings
from headrace.lab.workloads.hibench.wordcount import times_and_counts
from tests.lab.local_runs import (
    generated_rows,
    native_rows,
    oracle_rows,
    rows_on_beam,
    streamed_rows,
)

IDENTITY, REPARTITION, WORDCOUNT, FIXWINDOW = hibench.WORKLOADS
# (ip, ms): two windows of ten seconds
RECORDS = [("1.1.1.1", 1_000), ("2.2.2.2", 999), ("1.1.1.1", 500), ("1.1.1.1", 10_000)]
WINDOWS = [("1.1.1.1", 0, 500, 2), ("2.2.2.2", 0, 999, 1), ("1.1.1.1", 10_000, 10_000, 1)]


def line(ip: str, ms: int) -> str:
    """The line of a record."""
    return f"{ms},{ip},session,2015-07-15,0.5,agent/1.0,CHE,CHE-D,word,7"


def run(workload: Workload, records: list[tuple[str, int]] = RECORDS) -> list[tuple[Any, ...]]:
    """Run the pipeline over records."""
    lines = [line(*record) for record in records]
    return rows_on_beam(workload, Settings(), lines, [ms * 1_000 for _, ms in records])


@pytest.fixture
def log(tmp_path: Path) -> str:
    """The log of RECORDS."""
    ips, times = zip(*RECORDS, strict=True)
    columns = {
        "number": range(len(RECORDS)),
        "timestamp": pa.array(times, pa.int64()),
        "ip": ips,
        "line": [line(*record) for record in RECORDS],
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    return str(tmp_path / "*.parquet")


def test_identity_gives_event_time_and_the_clock() -> None:
    before = time.time_ns() // 1_000_000
    rows = run(IDENTITY)
    assert sorted(row[0] for row in rows) == [500, 999, 1_000, 10_000]
    assert all(before <= row[1] <= time.time_ns() // 1_000_000 for row in rows)


def test_repartition_keeps_every_line() -> None:
    assert Counter(run(REPARTITION)) == Counter((line(*record),) for record in RECORDS)


def test_wordcount_counts_each_address_from_one_on() -> None:
    rows = run(WORDCOUNT)
    assert sorted((ip, ms) for ip, ms, _ in rows) == sorted(RECORDS)
    assert sorted(count for ip, _, count in rows if ip == "1.1.1.1") == [1, 2, 3]
    assert [row for row in rows if row[0] == "2.2.2.2"] == [("2.2.2.2", 999, 1)]


def test_fixwindow_gives_the_first_time_and_the_count_of_each_window() -> None:
    assert Counter(run(FIXWINDOW)) == Counter(WINDOWS)


def test_the_oracle_answers_hand_made_records(log: str) -> None:
    assert sorted(oracle.identity(log, Settings())) == [(500, 0), (999, 0), (1_000, 0), (10_000, 0)]
    assert Counter(oracle.repartition(log, Settings())) == Counter(
        (line(*record),) for record in RECORDS
    )
    assert sorted(oracle.wordcount(log, Settings())) == [
        ("1.1.1.1", 500, 2),
        ("1.1.1.1", 1_000, 1),
        ("1.1.1.1", 10_000, 3),
        ("2.2.2.2", 999, 1),
    ]
    assert Counter(oracle.fixwindow(log, Settings())) == Counter(WINDOWS)


def test_the_rule_of_wordcount_allows_another_order_of_arrival_and_nothing_else() -> None:
    right = [("a", 10, 1), ("a", 20, 2), ("b", 5, 1)]
    other_order = [("a", 20, 1), ("a", 10, 2), ("b", 5, 1)]
    assert times_and_counts(other_order) == times_and_counts(right)
    wrong = [
        [("a", 10, 1), ("a", 20, 1), ("b", 5, 1)],  # a count twice
        [("a", 10, 1), ("a", 20, 3), ("b", 5, 1)],  # a gap
        [("a", 10, 1), ("a", 10, 2), ("b", 5, 1)],  # a record twice, one lost
        [("a", 10, 1), ("b", 20, 2), ("b", 5, 1)],  # the wrong address
        [("a", 10, 1), ("b", 5, 1)],  # one lost
        [*right, ("b", 5, 1)],  # one too many
    ]
    assert all(times_and_counts(rows) != times_and_counts(right) for rows in wrong)


@pytest.mark.parametrize("group", [1, 64])
@pytest.mark.parametrize("workload", hibench.WORKLOADS, ids=lambda workload: workload.name)
def test_generated_records_give_the_oracles_answer(
    workload: Workload, group: int, tmp_path: Path
) -> None:
    settings = Settings(events=5_000, rate=200, seed=11, out_of_order=group)
    expected = workload.rule(oracle_rows(workload, settings, tmp_path))
    assert workload.rule(generated_rows(workload, settings)) == expected
    assert expected.total() >= 300  # 100 addresses, three windows


@pytest.mark.spark
def test_spark_gives_the_oracles_answers(tmp_path: Path, spark: Any) -> None:
    settings = Settings(events=2_000, rate=100, out_of_order=20)
    for workload in hibench.WORKLOADS:
        expected = workload.rule(oracle_rows(workload, settings, tmp_path))
        assert workload.rule(native_rows(workload, settings, tmp_path, spark)) == expected


@pytest.mark.spark
def test_sparks_rolling_count_goes_on_from_batch_to_batch(tmp_path: Path, spark: Any) -> None:
    settings = Settings(events=600, ips=5)
    expected = WORDCOUNT.rule(oracle_rows(WORDCOUNT, settings, tmp_path))
    rows, batches = streamed_rows(WORDCOUNT, settings, tmp_path, spark)
    assert WORDCOUNT.rule(rows) == expected
    assert batches == 2
