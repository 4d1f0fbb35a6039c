"""Workloads asked of the columns of their log: the oracle's answer, by headrace and by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.errors import OptionError
from headrace.lab.catalog import CATALOG
from headrace.lab.endpoints.event_log import files_at_once, write_log
from headrace.lab.endpoints.names import Source, SourceKind, read_source
from headrace.lab.experiments.columns_spark.command import WORKLOADS
from headrace.lab.experiments.table.runs import settings_of
from headrace.lab.run import run_workload
from headrace.lab.systems.choose import choose
from headrace.lab.systems.system import Request, Tuning
from headrace.lab.workload import Mode
from tests.places import SLOW

EVENTS = 20_000
NAMES = ["nexmark:q5", "yahoo:campaigns", "hibench:fixwindow"]


def request(name: str, folder: Path, mode: Mode, *flags: str, path: str = "") -> Request:
    workload = CATALOG.workload(*name.split(":"))
    return Request(
        workload=workload, settings=settings_of(workload, EVENTS), mode=mode, folder=folder,
        source=Source(SourceKind.LOG, path), shards=2, flags=flags, tuning=Tuning(per_batch=8_000),
    )


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", WORKLOADS if SLOW else ["nexmark:q5", "nexmark:q7"])
def test_columns_and_objects_agree_and_the_oracle_with_them(
    spark: Any, tmp_path: Path, name: str
) -> None:
    report = run_workload(
        request(name, tmp_path, Mode.BATCH, "--verify_columns"), choose("headrace", spark)
    )
    assert report.verdict is not None
    assert report.verdict.right and report.verdict.expected


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize("system", ["headrace", "spark"] if SLOW else ["headrace"])
@pytest.mark.parametrize("name", NAMES if SLOW else NAMES[1:2])
def test_a_stream_of_several_batches_is_answered(
    spark: Any, tmp_path: Path, name: str, system: str
) -> None:
    asked = request(name, tmp_path / "run", Mode.STREAMING, path=str(tmp_path / "log"))
    write_log(asked.generator, tmp_path / "log", per_file=4_000)
    report = run_workload(asked, choose(system, spark))
    assert report.verdict is not None
    assert report.verdict.right and report.verdict.expected
    assert len(list((tmp_path / "log" / "events").iterdir())) == 5


def test_a_log_that_is_there_is_not_written_again_in_other_files(tmp_path: Path) -> None:
    made = request("hibench:fixwindow", tmp_path, Mode.BATCH).generator
    pattern = write_log(made, tmp_path, per_file=3_000)
    assert write_log(made, tmp_path) == pattern
    files = sorted((tmp_path / "events").iterdir())
    assert sum(pq.read_metadata(file).num_rows for file in files) == EVENTS
    assert [files_at_once(tmp_path, n) for n in (1, 5_999, 6_000, 10**9)] == [1, 1, 2, 333_333]


def test_what_is_asked_of_events_alone_is_refused(tmp_path: Path) -> None:
    from headrace.lab.systems.headrace_system import _build

    with pytest.raises(OptionError, match="nexmark q4 is asked of events, not of the columns"):
        _build(request("nexmark:q4", tmp_path, Mode.BATCH))


def test_a_log_may_be_named() -> None:
    assert read_source("log:somewhere") == Source(SourceKind.LOG, "somewhere")
    assert read_source("log") == Source(SourceKind.LOG)
