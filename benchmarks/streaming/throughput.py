"""Rows per second from Parquet files: windowed count, state and timers, a streaming side input.

The stateful pipeline runs on Spark's own `transformWithState` too, in turns; both must give the
answer of the formula. Rates are compared, as the slower one gets a share of the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.streaming import native, pipelines
from benchmarks.streaming.bed import Bed, answer_of, load
from benchmarks.streaming.data import Rows, stream, write_rows, write_sides
from benchmarks.streaming.figures import Bar, Line, Outcome, differences

BAR = 3.0
#: Rows of a key in each of its windows; the number of keys follows from the number of rows.
ROWS_PER_GROUP = 10
WINDOWS = 100
FILES = 20
FILES_AT_ONCE = 2
#: Spark's own gets so much less to do.
NATIVE_SHARE = 0.2
WARM_UP_ROWS = 20_000

Build = Callable[[Any, Any, Path], None]


def _alone(build: Callable[[Any, Any], None]) -> Build:
    def made(p: Any, frame: Any, folder: Path) -> None:
        del folder
        build(p, frame)

    return made


def _join(p: Any, frame: Any, folder: Path) -> None:
    write_sides(folder / "sides", FILES // 2)
    pipelines.side_join(p, frame, stream(frame.sparkSession, folder / "sides", 1))


PIPELINES: Mapping[str, Build] = {
    "windowed count": _alone(pipelines.windowed_count),
    "state and timers": _alone(pipelines.state_and_timers),
    "streaming side input": _join,
}


def rows_of(total: int, files: int) -> Rows:
    """Deal rows out to keys and files."""
    return Rows(rows=total, keys=max(1, total // (ROWS_PER_GROUP * WINDOWS)), files=files)


def on_headrace(bed: Bed, name: str, wanted: Rows) -> tuple[float, list[str]]:
    """Run a pipeline to the end of the files; give its seconds, and what was wrong."""
    with bed.folder() as folder:
        write_rows(folder / "rows", wanted)
        pipeline = bed.pipeline(folder, "--available_now")
        frame = stream(bed.spark, folder / "rows", FILES_AT_ONCE)
        PIPELINES[name](pipeline, frame, folder)
        start = time.perf_counter()
        result = pipeline.run()
        result.wait_until_finish()
        seconds = time.perf_counter() - start
        expected = wanted.joined() if name == "streaming side input" else wanted.counts()
        return seconds, differences(f"headrace, {name}", answer_of(result), expected)


def on_spark(bed: Bed, variant: native.Variant, wanted: Rows) -> tuple[float, list[str]]:
    """Run the stateful count on Spark alone."""
    with bed.folder() as folder:
        write_rows(folder / "rows", wanted)
        frame = stream(bed.spark, folder / "rows", FILES_AT_ONCE)
        start = time.perf_counter()
        answer = native.run(bed.spark, frame, folder, variant)
        seconds = time.perf_counter() - start
        return seconds, differences(f"Spark alone, {variant.value}", answer, wanted.counts())


def measure(bed: Bed, *, rows: int = 1_000_000, rounds: int = 3) -> Outcome:
    """Run all variants in turns, each once small before the first turn."""
    before = load()
    runs: dict[str, tuple[Rows, Callable[[Rows], tuple[float, list[str]]]]] = {}
    for name in PIPELINES:
        runs[f"headrace, {name}"] = rows_of(rows, FILES), partial(on_headrace, bed, name)
    # Fewer files, but as many rows in each: a batch is the same work.
    fewer = rows_of(round(rows * NATIVE_SHARE), round(FILES * NATIVE_SHARE))
    for variant in native.Variant:
        name = f"transformWithState ({variant.value}), state and timers"
        runs[name] = fewer, partial(on_spark, bed, variant)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    wrong: list[str] = []
    for number in range(rounds):
        for name, (wanted, run) in runs.items():
            if number == 0:
                wrong += run(rows_of(min(WARM_UP_ROWS, wanted.rows), 2))[1]
            seconds, complaints = run(wanted)
            wrong += complaints
            rates[name].append(wanted.rows / seconds)
            bed.say(f"throughput, round {number + 1}: {name}: {wanted.rows} in {seconds:.1f} s")
    lines = {
        name: Line(
            name=name, unit="rows/s", samples=tuple(found),
            details={"rows": runs[name][0].rows},
        )
        for name, found in rates.items()
    }
    natives = [line.median for name, line in lines.items() if not name.startswith("headrace")]
    ratio = lines["headrace, state and timers"].median / max(natives)
    bar = Bar(
        what="state and timers over the faster transformWithState", value=ratio, limit=BAR,
        at_most=False,
    )
    return Outcome(
        case="throughput", what=f"rows from Parquet files, {bed.cores} cores",
        lines=tuple(lines.values()), bars=(bar,), wrong=tuple(wrong), load=(before, load()),
    )
