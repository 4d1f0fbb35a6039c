"""`headrace lab run columns`: what columns bring.

Each pipeline runs in this process, without Spark, with columns and with objects in turns; the
processor time of both is compared, and their answers. `--profile` shows where the time goes,
`--spark` runs them on Spark instead and tells the JVM's time from the workers'.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.io import ReadFromSpark, WriteToSpark
from headrace.lab.experiments.columns.cases import CASES, Case
from headrace.testing import LocalRunner, LocalSession
from headrace.worker.task.shard import ShardRun

#: Rows of an Arrow batch, as Spark would bring them.
BATCH_ROWS = 32_768


class Bed:
    """One case with its rows in memory."""

    def __init__(self, case: Case, rows: int) -> None:
        self._case = case
        table = case.table(rows)
        self._session = LocalSession()
        batches = table.to_batches(max_chunksize=BATCH_ROWS)
        self._frame = self._session.createDataFrame(
            type(table).from_batches(batches), case.words
        )

    def run(self, columns: str) -> tuple[float, Any]:
        """Run the pipeline once; give the seconds of the processor, and the answer."""
        case, found = self._case, []
        flags = PipelineOptions(["--shards=2", f"--columns={columns}"])
        read = ReadFromSpark(self._frame, timestamp="at" if case.timed else None)
        start = time.process_time()
        with beam.Pipeline(LocalRunner(self._session), flags) as pipeline:
            write = WriteToSpark(function=lambda made: found.append(made), schema=case.schema)
            case.steps(pipeline | read) | write
        seconds = time.process_time() - start
        return seconds, found[0].toArrow()


def compared(name: str, rows: int, rounds: int) -> str:
    """Measure one case; give a line."""
    bed, small = Bed(CASES[name], rows), Bed(CASES[name], 1_000)
    seconds: dict[str, list[float]] = {"on": [], "off": []}
    answers: dict[str, Any] = {}
    fixed = {columns: min(small.run(columns)[0] for _ in range(3)) for columns in seconds}
    for _ in range(rounds):
        for columns, found in seconds.items():
            took, answers[columns] = bed.run(columns)
            found.append(took)
    order = [(column, "ascending") for column in answers["on"].column_names]
    same = answers["on"].sort_by(order).equals(answers["off"].sort_by(order))
    on, off = (min(seconds[c]) - fixed[c] for c in ("on", "off"))
    return (
        f"{name:10} columns {rows / on / 1e6:6.2f} M events/s, objects {rows / off / 1e6:6.2f}, "
        f"{off / on:5.1f} times; the same {answers['on'].num_rows:,} rows: {same}; "
        f"without the fixed {fixed['on']:.2f} s and {fixed['off']:.2f} s of a run"
    )


def profile(name: str, rows: int, columns: str) -> None:
    """Show where a task's time goes."""
    bed, profiler = Bed(CASES[name], rows), cProfile.Profile()
    run_epoch = ShardRun.run_epoch

    def profiled(self: ShardRun, *args: Any) -> None:
        profiler.runcall(run_epoch, self, *args)

    bed.run(columns)
    with patch.object(ShardRun, "run_epoch", profiled):
        bed.run(columns)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="headrace lab run columns", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--profile", choices=["on", "off"])
    parser.add_argument("--spark", action="store_true")
    asked = parser.parse_args(arguments)
    for name in asked.case or CASES:
        if asked.spark:
            from headrace.lab.experiments.columns.on_spark import on_spark

            print(*on_spark(name, asked.rows), sep="\n", flush=True)
        elif asked.profile:
            profile(name, asked.rows, asked.profile)
        else:
            print(compared(name, asked.rows, asked.rounds), flush=True)
    return 0
