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

from headrace.lab.experiments.streaming import native, pipelines
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load
from headrace.lab.experiments.streaming.data import (
    SPAN_SECONDS,
    WINDOW_SECONDS,
    Rows,
    stream,
    write_rows,
    write_sides,
)
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line, differences

BAR = 3.0
#: Rows of a key in each of its windows; the number of keys follows from the number of rows.
ROWS_PER_GROUP = 10
#: Windows so long that a key comes about once per batch, and five times before its timer fires.
LONG_SECONDS = 500
FILES = 20
FILES_AT_ONCE = 2
#: Spark's own gets so much less to do where a batch can be the same.
NATIVE_SHARE = 0.2
#: Rows of state across epochs, for both: Spark's own takes minutes for all of them.
ACROSS_SHARE = 0.25
WARM_UP_ROWS = 20_000

Run = Callable[[Rows], tuple[float, list[str]]]
Build = Callable[[Any, Any, Path, Rows], None]


def _count(p: Any, frame: Any, folder: Path, wanted: Rows) -> None:
    del folder, wanted
    pipelines.windowed_count(p, frame)


def _state(p: Any, frame: Any, folder: Path, wanted: Rows) -> None:
    del folder
    pipelines.state_and_timers(p, frame, wanted.window_seconds)


def _join(p: Any, frame: Any, folder: Path, wanted: Rows) -> None:
    del wanted
    write_sides(folder / "sides", FILES // 2)
    pipelines.side_join(p, frame, stream(frame.sparkSession, folder / "sides", 1))


SIDE_INPUT = "streaming side input"
WITHIN, ACROSS = "state and timers within an epoch", "state and timers across epochs"
PIPELINES: Mapping[str, Build] = {
    "windowed count": _count, WITHIN: _state, ACROSS: _state, SIDE_INPUT: _join,
}


def rows_of(name: str, total: int, files: int) -> Rows:
    """Deal rows out to keys and files."""
    if name == ACROSS:
        a_batch = total * FILES_AT_ONCE // max(files, FILES_AT_ONCE)
        return Rows(rows=total, keys=a_batch, files=files, window_seconds=LONG_SECONDS)
    windows = SPAN_SECONDS // WINDOW_SECONDS
    return Rows(rows=total, keys=max(1, total // (ROWS_PER_GROUP * windows)), files=files)


def on_headrace(bed: Bed, name: str, wanted: Rows) -> tuple[float, list[str]]:
    """Run a pipeline to the end of the files; give its seconds, and what was wrong."""
    with bed.folder() as folder:
        write_rows(folder / "rows", wanted)
        pipeline = bed.pipeline(folder, "--available_now")
        frame = stream(bed.spark, folder / "rows", FILES_AT_ONCE)
        PIPELINES[name](pipeline, frame, folder, wanted)
        start = time.perf_counter()
        result = pipeline.run()
        result.wait_until_finish()
        seconds = time.perf_counter() - start
        expected = wanted.joined() if name == SIDE_INPUT else wanted.counts()
        return seconds, differences(f"headrace, {name}", answer_of(result), expected)


def on_spark(bed: Bed, variant: native.Variant, wanted: Rows) -> tuple[float, list[str]]:
    """Run the stateful count on Spark alone."""
    with bed.folder() as folder:
        write_rows(folder / "rows", wanted)
        frame = stream(bed.spark, folder / "rows", FILES_AT_ONCE)
        start = time.perf_counter()
        answer = native.run(bed.spark, frame, folder, variant, wanted.window_seconds)
        seconds = time.perf_counter() - start
        return seconds, differences(f"Spark alone, {variant.value}", answer, wanted.counts())


def runs_of(bed: Bed, rows: int) -> dict[str, tuple[str, Rows, Run]]:
    """Give what is run: by its name, the kind of pipeline, the rows, and how."""
    found: dict[str, tuple[str, Rows, Run]] = {}
    for name in PIPELINES:
        run = partial(on_headrace, bed, name)
        total = round(rows * ACROSS_SHARE) if name == ACROSS else rows
        found[f"headrace, {name}"] = name, rows_of(name, total, FILES), run
    # Fewer files, but as many rows in each: a batch is the same work.
    few = round(FILES * NATIVE_SHARE)
    for variant in native.Variant:
        wanted = rows_of(WITHIN, round(rows * NATIVE_SHARE), few)
        run = partial(on_spark, bed, variant)
        found[f"transformWithState ({variant.value}), {WITHIN}"] = WITHIN, wanted, run
    run = partial(on_spark, bed, native.Variant.ROW)
    wanted = rows_of(ACROSS, round(rows * ACROSS_SHARE), FILES)
    found[f"transformWithState (row), {ACROSS}"] = ACROSS, wanted, run
    return found


def measure(bed: Bed, *, rows: int = 1_000_000, rounds: int = 3) -> CaseResult:
    """Run all variants in turns, each once small before the first turn."""
    before = load()
    runs = runs_of(bed, rows)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    wrong: list[str] = []
    for number in range(rounds):
        for name, (kind, wanted, run) in runs.items():
            if number == 0:
                wrong += run(rows_of(kind, min(WARM_UP_ROWS, wanted.rows), 2))[1]
            seconds, complaints = run(wanted)
            wrong += complaints
            rates[name].append(wanted.rows / seconds)
            bed.say(f"throughput, round {number + 1}: {name}: {wanted.rows} in {seconds:.1f} s")
    lines = {
        name: Line(
            name=name, unit="rows/s", samples=tuple(found),
            details={"rows": runs[name][1].rows},
        )
        for name, found in rates.items()
    }
    return CaseResult(
        case="throughput", what=f"rows from Parquet files, {bed.cores} cores",
        lines=tuple(lines.values()), bars=tuple(_bar(lines, kind) for kind in (WITHIN, ACROSS)),
        wrong=tuple(wrong), load=(before, load()),
    )


def _bar(lines: Mapping[str, Line], kind: str) -> Bar:
    natives = [
        line.median
        for name, line in lines.items()
        if name.endswith(kind) and not name.startswith("headrace")
    ]
    return Bar(
        what=f"{kind}: headrace over transformWithState",
        value=lines[f"headrace, {kind}"].median / max(natives), limit=BAR, at_most=False,
    )
