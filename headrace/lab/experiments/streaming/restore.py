"""How long a restart takes when the local state is gone: 1 M keys come back from the checkpoint.

Each round restarts twice, with the local copy kept and with it wiped: both must build it again, as
a copy belongs to the run that made it. The driver and its workers stay, so that no import is
measured. Restoring alone is measured without Spark, in a process that
has written none of the files.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from headrace.engine.checkpoint.reading import epochs_of, read_manifest
from headrace.lab.experiments.streaming import pipelines
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load, wait_for
from headrace.lab.experiments.streaming.data import START_SECONDS, stream, write_file
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line
from headrace.state.files import Files
from headrace.state.lmdb_store import forget_local, open_partition

BAR_SECONDS = 20.0
FILES = 10
#: Rows that a restart reads, each with a key that is there already.
TOUCHED = 100


def _write(folder: Path, number: int, first: int, last: int) -> None:
    keys = np.arange(first, last, dtype=np.int64)
    at = np.full(len(keys), (START_SECONDS + number) * 1_000_000, dtype=np.int64)
    write_file(folder, number, {"key": keys, "value": keys, "bucket": keys * 0, "at": at})


def _start(bed: Bed, folder: Path, *flags: str) -> Any:
    pipeline = bed.pipeline(folder, *flags)
    pipelines.remember(pipeline, stream(bed.spark, folder / "rows", 1))
    return pipeline.run()


def restart(bed: Bed, folder: Path, number: int) -> tuple[float, Any]:
    """Bring one more file; give the seconds until its epoch is committed, and the status."""
    _write(folder / "rows", number, 0, TOUCHED)
    start = time.perf_counter()
    result = _start(bed, folder)
    first = result.stream_status.epoch

    def committed() -> bool:
        if result.state != "RUNNING":
            result.wait_until_finish()
        status = result.stream_status
        return bool(status.openings > 0 and status.epoch > max(first, 0))

    try:
        wait_for(committed, "the first epoch after a restart")
        seconds = time.perf_counter() - start
        status = result.stream_status
    finally:
        result.cancel()
    return seconds, status


def restoring(folder: Path) -> tuple[float, int]:
    """Bring all state back to an empty folder, in this process alone; give seconds and rows.

    No other than the workers has written these files, so all of them are read.
    """
    files = Files(str(folder / "checkpoint"))
    partitions = read_manifest(files, epochs_of(files)[-1]).partitions
    with TemporaryDirectory(prefix="headrace-bench-") as empty:
        start, rows = time.perf_counter(), 0
        for name, chain in partitions.items():
            partition = open_partition(Path(empty), files, name, chain)
            rows += partition.rows_held()
            partition.close()
        seconds = time.perf_counter() - start
        forget_local()
    return seconds, rows


def measure(bed: Bed, *, keys: int = 1_000_000, rounds: int = 3) -> CaseResult:
    """Fill the state once, then restart again and again."""
    before = load()
    alone: list[float] = []
    kept: list[float] = []
    wiped: list[float] = []
    wrong: list[str] = []
    with bed.folder() as folder:
        for n in range(FILES):
            _write(folder / "rows", n, keys * n // FILES, keys * (n + 1) // FILES)
        start = time.perf_counter()
        result = _start(bed, folder, "--available_now")
        result.wait_until_finish()
        filling = time.perf_counter() - start
        bed.say(f"restore: {keys} keys filled in {filling:.1f} s")
        told = answer_of(result).get("rows", 0)
        if told != keys:
            wrong.append(f"restore: {told} rows came, not {keys}")
        size = sum(f.stat().st_size for f in (folder / "checkpoint").rglob("*") if f.is_file())
        for _ in range(rounds):
            seconds, rows = restoring(folder)
            alone.append(seconds)
            if rows < keys:
                wrong.append(f"restore: {rows} rows of state came back, not {keys}")
            bed.say(f"restore: {rows} rows of state in {seconds:.2f} s, without Spark")
        number = FILES
        for turn in range(rounds):
            for wipe, seconds_of in ((False, kept), (True, wiped)):
                if wipe:
                    shutil.rmtree(folder / "local")
                seconds, status = restart(bed, folder, number)
                number += 1
                seconds_of.append(seconds)
                if status.restores == 0 or status.state_rows < keys:
                    wrong.append(
                        f"restore: {status.restores} shards restored (wiped: {wipe}), "
                        f"{status.state_rows} rows of state"
                    )
                word = "wiped" if wipe else "kept"
                bed.say(f"restore, round {turn + 1}: local state {word}: {seconds:.2f} s")
    lines = (
        Line(name="local state kept", unit="s to the first commit", samples=tuple(kept)),
        Line(
            name="local state wiped", unit="s to the first commit", samples=tuple(wiped),
            details={"checkpoint MB": size / 1e6},
        ),
        Line(name="all shards, one by one, without Spark", unit="s", samples=tuple(alone)),
    )
    bar = Bar(
        what="seconds for restoring", value=lines[2].median, limit=BAR_SECONDS, at_most=True
    )
    return CaseResult(
        case="restore", what=f"restart with {keys:,} keys of state, {bed.cores} shards",
        lines=lines, bars=(bar,), wrong=tuple(wrong), load=(before, load()),
    )
