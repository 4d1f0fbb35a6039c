"""The application kernels on Spark alone: as a table, and as a stream where order matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lab.workload import Workload
from headrace.lab.workloads import kernels
from headrace.lab.workloads.kernels import finance, network, twitter_cep
from tests.lab.local_runs import native_rows, oracle_rows, streamed_rows
from tests.places import SLOW

SMALL: dict[str, dict[str, Any]] = {
    "network": {"servers": 4, "suspects": 5, "server_threshold": 3, "user_threshold": 12},
    "pagerank": {"vertices": 50, "window_ms": 2_000, "tolerance": 1e-3},
    "twitter_nlp": {},
    "twitter_cep": {"authors": 40, "partitions": 2, "slice_ms": 500},
    "finance": {"symbols": 20, "partitions": 2, "slice_ms": 500},
}
EVERY = pytest.mark.parametrize("workload", kernels.WORKLOADS, ids=lambda workload: workload.name)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class OnRocksDb:
    """Gives sessions with the state store that transformWithState asks for."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def newSession(self) -> Any:
        session = self._spark.newSession()
        session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        return session


@pytest.mark.spark
@EVERY
def test_spark_gives_the_oracles_answer(workload: Workload, tmp_path: Path, spark: Any) -> None:
    settings = workload.settings(events=2_000, rate=500, out_of_order=30, **SMALL[workload.name])
    expected = sorted(oracle_rows(workload, settings, tmp_path))
    assert sorted(native_rows(workload, settings, tmp_path, spark)) == expected
    assert expected


@pytest.mark.spark
@pytest.mark.parametrize(
    "workload",
    [twitter_cep.WORKLOAD, *([network.WORKLOAD, finance.WORKLOAD] if SLOW else [])],
    ids=lambda workload: workload.name,
)
def test_sparks_stream_gives_the_oracles_answer_once_it_is_closed(
    workload: Workload, tmp_path: Path, spark: Any
) -> None:
    settings = workload.settings(events=2_000, rate=500, out_of_order=30, **SMALL[workload.name])
    expected = sorted(oracle_rows(workload, settings, tmp_path))
    made = workload.generator(settings)
    # An hour later by event time: nothing that these events open is closed in its turn.
    later = pa.Table.from_batches([made.batch(1_800_000, 4)], made.schema)
    pq.write_table(later, tmp_path / "c.parquet")
    rows, batches = streamed_rows(workload, settings, tmp_path, OnRocksDb(spark))
    assert sorted(rows) == expected
    assert batches == 3
