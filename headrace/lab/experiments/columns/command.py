"""`headrace lab run columns`: what columns bring.

Each pipeline runs in this process, without Spark, with columns and with objects in turns; the
processor time of both is compared, and their answers. `--profile` shows where the time goes,
`--spark` runs them on Spark instead and tells the JVM's time from the workers'.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One case, measured."""

    name: str
    rows: int
    seconds: dict[str, list[float]]  # of the processor, run by run, with columns on and off
    fixed: dict[str, float]  # what a run costs at any size
    answers: int  # rows of the answer
    same: bool  # whether both gave the same

    def per_million(self, columns: str) -> float:
        """Give the seconds of the processor for a million events, of the best run."""
        return (min(self.seconds[columns]) - self.fixed[columns]) / self.rows * 1e6

    def __str__(self) -> str:
        on, off = self.per_million("on"), self.per_million("off")
        return (
            f"{self.name:10} columns {1 / on:6.2f} M events/s, objects {1 / off:6.2f}, "
            f"{off / on:5.1f} times; the same {self.answers:,} rows: {self.same}; "
            f"without the fixed {self.fixed['on']:.2f} s and {self.fixed['off']:.2f} s of a run"
        )

    def record(self) -> dict[str, Any]:
        """Give what is saved of it."""
        return {
            "rows": self.rows,
            "rounds": len(self.seconds["on"]),
            "cpu_s_per_million": {c: round(self.per_million(c), 3) for c in self.seconds},
            "cpu_s": {c: [round(s, 3) for s in found] for c, found in self.seconds.items()},
            "fixed_cpu_s": {c: round(s, 3) for c, s in self.fixed.items()},
            "same_answer": self.same,
        }


def save(path: Path, under: str, found: Sequence[Compared]) -> None:
    """Add what was measured to a file, under a name that says of what."""
    held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    held.setdefault(
        "what",
        "seconds of processor time for a million events in one process, columns on and off in "
        "turns, the best round of each, without what a run costs at any size",
    )
    held.setdefault("how", "headrace lab run columns --save")
    held.setdefault(under, {}).update({each.name: each.record() for each in found})
    path.write_text(json.dumps(held, indent=1) + "\n")


def compared(name: str, rows: int, rounds: int) -> Compared:
    """Measure one case."""
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
    return Compared(
        name=name, rows=rows, seconds=seconds, fixed=fixed, answers=answers["on"].num_rows,
        same=bool(same),
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
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="add what was measured to this file"
    )
    parser.add_argument(
        "--under", default="now", help="the name in that file under which it stands (default: now)"
    )
    asked = parser.parse_args(arguments)
    found: list[Compared] = []
    for name in asked.case or CASES:
        if asked.spark:
            from headrace.lab.experiments.columns.on_spark import on_spark

            print(*on_spark(name, asked.rows), sep="\n", flush=True)
        elif asked.profile:
            profile(name, asked.rows, asked.profile)
        else:
            found.append(compared(name, asked.rows, asked.rounds))
            print(found[-1], flush=True)
    if asked.save is not None and found:
        save(asked.save, asked.under, found)
    return 0
