"""Profiles a case in this process: no Spark, all shards one after the other, one profiler."""

from __future__ import annotations

import cProfile
import pstats
import sys
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.lab.experiments.micro.cases import Answer, Case
from headrace.lab.experiments.micro.measured import MeasuredDoor, TaskFacts, measured_runner
from headrace.lab.experiments.micro.runners import answer_of

TOP = 35


def profile(case: Case, elements: int, shards: int, out: Path | None) -> bool:
    """Run the case plain and then profiled, print both; say whether the answers were right."""
    plain, answer = run_case(case, elements, shards)
    print(f"{case.name}: {case.what}; {elements} elements, {shards} shards, no Spark")
    print(_tasks(plain, elements))
    profiler = cProfile.Profile()
    _, again = run_case(case, elements, shards, profiler)
    stats = pstats.Stats(profiler, stream=sys.stdout)
    stats.strip_dirs().sort_stats("tottime").print_stats(TOP)
    if out is not None:
        profiler.dump_stats(out)
        print(f"the whole profile is in {out}")
    expected = case.expected(elements)
    for found in (answer, again):
        if found != expected:
            print(f"WRONG: counted {found}, right is {expected}")
    return answer == again == expected


def run_case(
    case: Case, elements: int, shards: int, profiler: cProfile.Profile | None = None
) -> tuple[list[TaskFacts], Answer]:
    """Run a case in one thread; give what its tasks did, and the answer."""
    door = MeasuredDoor(profiler)
    runner = measured_runner(door)
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([f"--shards={shards}"]))
    case.build(pipeline, elements)
    result = pipeline.run()
    result.wait_until_finish()
    return door.tasks, answer_of(result)


def _tasks(tasks: list[TaskFacts], elements: int) -> str:
    lines = ["superstep shard  seconds  rows in rows out   MB out"]
    lines += [
        f"{t.superstep:9} {t.shard:5} {t.seconds:8.3f} {t.rows_in:8} {t.rows_out:8} "
        f"{t.bytes_out / 1e6:8.2f}"
        for t in tasks
    ]
    seconds = sum(t.seconds for t in tasks)
    lines.append(
        f"{seconds:.2f} s of tasks: {elements / seconds:,.0f} elements per second and core"
    )
    return "\n".join(lines)
