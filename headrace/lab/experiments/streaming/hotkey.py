"""One key with half of all elements: in a cell, in a bag, in a grouping; time and workers' memory.

Half of the rows have key 0, the others one of many. Time per element must not grow with their
number; what a worker holds at most is told beside it. Each shape is run at a fifth of the size and
at the whole size.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows

from headrace.io import ReadFromSpark
from headrace.lab.experiments.streaming import two_sizes
from headrace.lab.experiments.streaming.bed import Bed, answer_of, wait_for
from headrace.lab.experiments.streaming.data import START_SECONDS, stream, write_file
from headrace.lab.experiments.streaming.figures import CaseResult
from headrace.lab.experiments.streaming.pipelines import Tally
from headrace.lab.experiments.streaming.two_sizes import Sizes
from headrace.lab.meter import Meter

HOT_KEY = 0
COLD_KEYS = 10_000
#: Rows of one file; each file is an epoch.
FILE_ROWS = 250_000
#: One window holds all rows; Beam wants a window that ends.
WHOLE_SECONDS = 1_000_000_000
_MODULUS = 97


class Seen(Tally):
    """Says how many elements have come by, so that the run can be ended."""

    def process(self, pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
        self.add(seen=1)
        yield pair


class SumInCell(beam.DoFn):  # type: ignore[misc]
    """Adds up in a combining cell; a timer at the end of time tells the sum."""

    TOTAL = CombiningValueStateSpec("total", sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> None:
        total.add(pair[1])
        end.set(window.max_timestamp())

    @on_timer(END)  # type: ignore[untyped-decorator]
    def tell(
        self,
        key: int = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(TOTAL),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        yield key, total.read()


class KeepInBag(beam.DoFn):  # type: ignore[misc]
    """Keeps every value; a timer at the end of time reads them all."""

    VALUES = BagStateSpec("values", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        values: Any = beam.DoFn.StateParam(VALUES),  # noqa: B008 (Beam's way)
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
    ) -> None:
        values.add(pair[1])
        end.set(window.max_timestamp())

    @on_timer(END)  # type: ignore[untyped-decorator]
    def tell(
        self,
        key: int = beam.DoFn.KeyParam,
        values: Any = beam.DoFn.StateParam(VALUES),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        yield key, sum(values.read())


class TallySums(Tally):
    """Adds the sums of all keys up; `hot` is that of the key with half of the elements."""

    def process(self, pair: tuple[int, int]) -> None:
        key, total = pair
        self.add(keys=1, total=total, hot=total if key == HOT_KEY else 0)


def _summed(group: tuple[int, Iterable[int]]) -> tuple[int, int]:
    return group[0], sum(group[1])


#: By name: from pairs to the sum of each key.
SHAPES: dict[str, Callable[[Any], Any]] = {
    "a combining cell": lambda pairs: pairs | beam.ParDo(SumInCell()),
    "a bag": lambda pairs: pairs | beam.ParDo(KeepInBag()),
    "GroupByKey": lambda pairs: (
        pairs | beam.WindowInto(FixedWindows(WHOLE_SECONDS)) | beam.GroupByKey()
        | "Sum" >> beam.Map(_summed)
    ),
}


def _columns(rows: int) -> tuple[Any, Any]:
    numbers = np.arange(rows, dtype=np.int64)
    keys = np.where(numbers % 2 == 0, HOT_KEY, 1 + numbers // 2 % COLD_KEYS)
    return keys, numbers % _MODULUS


def write(folder: Path, rows: int, file_rows: int = FILE_ROWS) -> None:
    """Write the rows, in files that are read one to an epoch."""
    keys, values = _columns(rows)
    for number, first in enumerate(range(0, rows, file_rows)):
        part = slice(first, first + file_rows)
        size = len(keys[part])
        at = np.full(size, (START_SECONDS + number) * 1_000_000, dtype=np.int64)
        write_file(folder, number, {
            "key": keys[part], "value": values[part], "bucket": np.zeros(size, np.int64), "at": at,
        })  # fmt: skip


def expected(rows: int) -> dict[str, int]:
    """Compute the answer without a pipeline."""
    keys, values = _columns(rows)
    hot = keys == HOT_KEY
    return {
        "seen": rows, "keys": len(np.unique(keys)), "total": int(values.sum()),
        "hot": int(values[hot].sum()),
    }


def run(bed: Bed, shape: str, rows: int, file_rows: int = FILE_ROWS) -> tuple[float, int, Any]:
    """Read all rows, then drain; give the seconds, the peak of a worker, and the answer."""
    with bed.folder() as folder:
        write(folder / "rows", rows, file_rows)
        pipeline = bed.pipeline(folder)
        frame = stream(bed.spark, folder / "rows", 1)
        pairs = (
            pipeline
            | ReadFromSpark(frame, ["key", "value"], timestamp="at")
            | beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[int, int])
            | beam.ParDo(Seen()).with_output_types(tuple[int, int])
        )
        _ = SHAPES[shape](pairs) | beam.ParDo(TallySums())
        start = time.perf_counter()
        with Meter() as meter:
            result = pipeline.run()
            try:
                wait_for(lambda: _came(result, rows), f"{rows} rows")
                result.drain()
            finally:
                result.cancel()
        return time.perf_counter() - start, meter.peak_worker_bytes or 0, answer_of(result)


def _came(result: Any, rows: int) -> bool:
    if result.state != "RUNNING":
        result.wait_until_finish()
    return answer_of(result).get("seen", 0) >= rows


def measure(bed: Bed, *, rows: int = 5_000_000, rounds: int = 1) -> CaseResult:
    """Run each shape at a fifth of the size and at the whole size, in turns."""
    sizes = Sizes(
        case="hotkey", what=f"one key with half of {rows:,} elements, {bed.cores} shards",
        item="element", shapes=SHAPES, run=lambda shape, size: run(bed, shape, size),
        expected=expected, largest=rows,
    )
    return two_sizes.measure(bed, sizes, rounds)
