"""Every workload in order: its rows on several shards are those of one shard, one by one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.catalog import CATALOG
from headrace.lab.workload import Row, Workload
from headrace.testing import Collected, LocalRunner
from tests.lab.local_runs import oracle_rows

EVENTS = 2_000
#: Some of every suite in any case; HEADRACE_SLOW=1 takes all.
QUICK = {
    "nexmark q1", "nexmark q5", "nexmark q9", "nexmark q11", "windowed aggregation",
    "kernels network", "kernels twitter_cep", "kernels finance", "kernels twitter_nlp",
    "kernels pagerank", "scaling keyed", "hibench wordcount",
}
#: These roll dice or ask the clock: on one shard too, no two runs give the same.
RANDOM = {
    "nexmark q15", "hibench identity", "windowed aggregation-by-arrival",
    "windowed join-by-arrival",
}
ALL = [
    workload
    for suite in CATALOG.suites
    for workload in CATALOG.of_suite(suite)
    if workload.full_name not in RANDOM
]
CHOSEN = ALL if "HEADRACE_SLOW" in os.environ else [w for w in ALL if w.full_name in QUICK]


def rows_of(workload: Workload, settings: Any, shards: int, *more: str) -> list[Row]:
    made = workload.generator(settings)
    elements, micros = made.elements(0, made.events)
    stamped = [
        TimestampedValue(element, Timestamp(micros=time))
        for element, time in zip(elements, micros, strict=True)
    ]
    into = Collected()
    columns = ", ".join(f"{column.name} {column.kind.value}" for column in workload.columns)
    options = PipelineOptions([f"--shards={shards}", *more])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        _ = (
            p
            | beam.Create(stamped)
            | "Query" >> workload.build(settings)
            | "Write" >> into.sink(columns)
        )
    return [row for rows in into.epochs.values() for row in rows]


def small(workload: Workload) -> Any:
    settings = workload.settings()
    return replace(settings, **{"num_events" if workload.suite == "nexmark" else "events": EVENTS})


@pytest.mark.parametrize("workload", CHOSEN, ids=lambda workload: workload.full_name)
def test_rows_of_several_shards_are_those_of_one_and_right(
    workload: Workload, tmp_path: Path
) -> None:
    settings = small(workload)
    alone = rows_of(workload, settings, 1, "--ordered")
    assert workload.rule(alone) == workload.rule(oracle_rows(workload, settings, tmp_path))
    for shards in (2, 3, 7) if CHOSEN is ALL else (3,):
        assert rows_of(workload, settings, shards, "--ordered") == alone


def test_without_order_the_rows_of_several_shards_come_otherwise() -> None:
    """Else the test above would compare what cannot differ."""
    workload = next(w for w in ALL if w.full_name == "nexmark q1")
    settings = small(workload)
    alone, together = rows_of(workload, settings, 1), rows_of(workload, settings, 3)
    assert alone != together
    assert sorted(alone) == sorted(together)


def test_what_is_left_out_and_what_is_quick_are_workloads() -> None:
    names = {w.full_name for suite in CATALOG.suites for w in CATALOG.of_suite(suite)}
    assert names >= QUICK | RANDOM
    assert not QUICK & RANDOM
