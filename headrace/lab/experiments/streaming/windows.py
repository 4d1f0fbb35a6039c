"""A million windows that are open at once, and a watermark that passes them all in one epoch.

Each element opens a window of its own, one second long: all of one key, or of a thousand. Then one
row moves the watermark past all of them. Time per window must not grow with their number; what a
worker holds at most is told beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows

from headrace.io import BoundedOutOfOrderness, ReadFromSpark
from headrace.lab.experiments.streaming import two_sizes
from headrace.lab.experiments.streaming.bed import Bed, answer_of
from headrace.lab.experiments.streaming.data import CLOSING_KEY, START_SECONDS, stream, write_file
from headrace.lab.experiments.streaming.figures import CaseResult
from headrace.lab.experiments.streaming.pipelines import CountUntilEnd, Tally
from headrace.lab.experiments.streaming.two_sizes import Sizes
from headrace.lab.meter import Meter

FILES = 10
KEYS = 1_000


class TallyWindows(Tally):
    """Counts panes and what is in them; `mixed` depends on which window has which."""

    def process(self, pair: tuple[int, int], window: Any = beam.DoFn.WindowParam) -> None:
        if pair[0] != CLOSING_KEY:
            second = window.start.micros // 1_000_000 - START_SECONDS
            self.add(windows=1, rows=pair[1], mixed=(second + 1) * pair[1])


def _fixed() -> Any:
    return beam.WindowInto(FixedWindows(1))


def _late() -> Any:
    return beam.WindowInto(
        FixedWindows(1), trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING, allowed_lateness=5,
    )


#: By name: how many keys, and from pairs to the number of elements of each key and window.
SHAPES: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "GroupByKey, one key": (1, lambda pairs: (
        pairs | _fixed() | beam.GroupByKey() | "Size" >> beam.MapTuple(lambda k, v: (k, len(v)))
    )),
    "GroupByKey, 1,000 keys": (KEYS, lambda pairs: (
        pairs | _fixed() | beam.GroupByKey() | "Size" >> beam.MapTuple(lambda k, v: (k, len(v)))
    )),
    "Combine, 1,000 keys": (KEYS, lambda pairs: (
        pairs | _fixed() | beam.combiners.Count.PerKey()
    )),
    "late firings, 1,000 keys": (KEYS, lambda pairs: (
        pairs | _late() | beam.combiners.Count.PerKey()
    )),
    "a timer each, 1,000 keys": (KEYS, lambda pairs: (
        pairs | _fixed() | beam.ParDo(CountUntilEnd())
    )),
}  # fmt: skip


def write(folder: Path, windows: int, keys: int) -> None:
    """Write one row for each window, then the row that closes them."""
    seconds = np.arange(windows, dtype=np.int64)
    for number in range(FILES):
        part = seconds[windows * number // FILES : windows * (number + 1) // FILES]
        at = (part + START_SECONDS) * 1_000_000
        write_file(folder, number, {
            "key": part % keys, "value": part, "bucket": part * 0, "at": at,
        })  # fmt: skip
    last = np.array([(START_SECONDS + 3 * windows + 10) * 1_000_000], np.int64)
    write_file(folder, FILES, {
        "key": np.array([CLOSING_KEY]), "value": last * 0, "bucket": last * 0, "at": last,
    })  # fmt: skip


def run(bed: Bed, shape: str, windows: int) -> tuple[float, int, dict[str, int]]:
    """Open all windows, then pass them; give the seconds, the peak of a worker, the answer."""
    keys, build = SHAPES[shape]
    with bed.folder() as folder:
        write(folder / "rows", windows, keys)
        pipeline = bed.pipeline(folder, "--available_now")
        frame = stream(bed.spark, folder / "rows", 1)
        pairs = (
            pipeline
            | ReadFromSpark(
                frame, ["key", "value"], timestamp="at",
                watermark=BoundedOutOfOrderness(windows + 5),
            )
            | beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[int, int])
        )
        _ = build(pairs) | beam.ParDo(TallyWindows())
        start = time.perf_counter()
        with Meter() as meter:
            result = pipeline.run()
            result.wait_until_finish()
        return time.perf_counter() - start, meter.peak_worker_bytes or 0, answer_of(result)


def expected(windows: int) -> dict[str, int]:
    """Compute the answer: every window has one element."""
    return {"windows": windows, "rows": windows, "mixed": windows * (windows + 1) // 2}


def measure(bed: Bed, *, windows: int = 1_000_000, rounds: int = 1) -> CaseResult:
    """Run each shape at a fifth of the size and at the whole size, in turns."""
    sizes = Sizes(
        case="windows", what=f"{windows:,} open windows that close at once, {bed.cores} shards",
        item="window", shapes=SHAPES, run=lambda shape, size: run(bed, shape, size),
        expected=expected, largest=windows,
    )
    return two_sizes.measure(bed, sizes, rounds)
