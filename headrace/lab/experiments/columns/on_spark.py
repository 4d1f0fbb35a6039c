"""The same pipelines on Spark, from Parquet files to Parquet files: whose processor time it is.

The JVM reads, packs columns for the workers and writes what they give back; the workers run the
pipeline. Both are told apart by their processes, so other work on the machine hardly counts.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.experiments.columns.cases import CASES
from headrace.lab.meter import Meter, tree, workers
from headrace.runner import SparkRunner, start_session

CORES = 2


def on_spark(name: str, rows: int) -> list[str]:
    """Run a case on Spark with columns and without; give a line for each."""
    case = CASES[name]
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(case.table(rows), f"{folder}/rows.parquet", row_group_size=rows // 4)
        session = start_session(f"local[{CORES}]", "off")
        try:
            frame = session.read.parquet(f"{folder}/rows.parquet").repartition(CORES).cache()
            frame.count()
            _run(session, frame, case, f"{folder}/warm", "on")
            for columns in ("on", "off"):
                before = _seconds()
                start = time.perf_counter()
                with Meter() as meter:
                    _run(session, frame, case, f"{folder}/{columns}", columns)
                wall = time.perf_counter() - start
                java, python = (b - a for a, b in zip(before, _seconds(), strict=True))
                lines.append(
                    f"{name:10} columns {columns:3} {rows / wall / 1e6:5.2f} M events/s by the "
                    f"clock; processor time per million: JVM {java / rows * 1e6:.2f} s, workers "
                    f"{python / rows * 1e6:.2f} s; peak of a worker "
                    f"{(meter.peak_worker_bytes or 0) >> 20} MiB"
                )
        finally:
            session.stop()
    return lines


def _run(session: Any, frame: Any, case: Any, path: str, columns: str) -> None:
    flags = PipelineOptions(["--progress=off", f"--columns={columns}"])
    with beam.Pipeline(SparkRunner(session), flags) as pipeline:
        read = ReadFromSpark(frame, timestamp="at" if case.timed else None)
        write = WriteToSpark(path, schema=case.schema.replace(" not null", ""))
        case.steps(pipeline | read) | write
    assert list(Path(path).rglob("*.parquet"))


def _seconds() -> tuple[float, float]:
    """Give the processor seconds of the JVM, and of the workers, so far."""
    processes = tree(os.getpid())
    below = set(workers(processes))
    java = sum(p.cpu_seconds for p in processes.values() if p.command == "java")
    return java, sum(p.cpu_seconds for pid, p in processes.items() if pid in below)
