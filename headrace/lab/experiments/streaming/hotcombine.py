"""A combine with one key that has half of all elements, on four shards: merged on the way, and not.

The combines are such as cannot be lifted whole: their triggers count elements, or their panes carry
the times of elements. Both ways give the same answer, which arithmetic knows. Told beside the time:
processor time, and the share of the shard that gets the most elements. A batch, and a stream whose
combine is lifted, are run with the hot key and without: they must not mind it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms import trigger
from apache_beam.transforms.window import FixedWindows, TimestampCombiner
from apache_beam.utils.windowed_value import PaneInfoTiming

from headrace.lab.data.beam_source import Events
from headrace.lab.data.timeline import Timeline
from headrace.lab.experiments.streaming.bed import Bed, answer_of, load
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line, differences
from headrace.lab.experiments.streaming.pipelines import Tally
from headrace.lab.meter import Meter

SHARDS = 4
HOT_KEY = 0
COLD_KEYS = 1_000
#: One window holds all elements.
WHOLE_SECONDS = 1_000_000
RATE = 10_000
BASE_MS = 1_700_000_000_000
WARM_UP_ELEMENTS = 64_000
#: How much faster the run must be, how even, and how uneven it must have been.
FASTER, EVEN, UNEVEN = 1.7, 0.3, 0.5
SINGLE = "--no_hot_key_merging"
_MODULUS = 97


@dataclass(frozen=True)
class Numbers:
    """Makes (key, value) at an even pace of event time; every second one may have the hot key."""

    events: int
    hot: bool

    @property
    def line(self) -> Timeline:
        return Timeline(base_ms=BASE_MS, rate=RATE)

    def columns(self, start: int, count: int) -> tuple[Any, Any]:
        """Give keys and values as arrays."""
        numbers = np.arange(start, start + count)
        keys = 1 + numbers * 7 % COLD_KEYS
        return (np.where(numbers % 2 == 0, HOT_KEY, keys) if self.hot else keys), numbers % _MODULUS

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        keys, values = self.columns(start, count)
        times = (self.line.nanos(np.arange(start, start + count)) // 1_000).tolist()
        return list(zip(keys.tolist(), values.tolist(), strict=True)), times

    def watermark(self, number: int) -> int:
        return self.line.watermark(number, self.events)

    def due(self, number: int) -> int:
        return self.line.due(number)


class TallySums(Tally):
    """Adds up what the panes at the end of the window say."""

    def process(self, found: tuple[int, int], pane: Any = beam.DoFn.PaneInfoParam) -> None:
        key, total = found
        if pane.timing != PaneInfoTiming.EARLY:
            self.add(keys=1, total=total, hot=total if key == HOT_KEY else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One combine."""

    name: str
    window: Callable[[], Any]
    streaming: bool = True


_COUNTING = Way(
    name="a trigger that counts",
    window=lambda: beam.WindowInto(
        FixedWindows(WHOLE_SECONDS),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(1_000)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
    ),
)
_TIMED = Way(
    name="panes with times of elements",
    window=lambda: beam.WindowInto(
        FixedWindows(WHOLE_SECONDS), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST
    ),
)  # fmt: skip
_LIFTED = Way(name="a lifted combine", window=lambda: beam.WindowInto(FixedWindows(WHOLE_SECONDS)))
_BATCH = Way(
    name="a batch", streaming=False,
    window=lambda: beam.WindowInto(FixedWindows(WHOLE_SECONDS)),
)  # fmt: skip
#: Those that are not lifted: with and without merging.
MERGED = (_COUNTING, _TIMED)
#: Those that are: with and without a hot key.
LIFTED = (_LIFTED, _BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One run."""

    seconds: float
    cpu_seconds: float
    share: float | None  # of the shard that got the most elements; None: not told
    hot: tuple[tuple[str, float], ...]  # keys that were found hot, with their shares
    wrong: list[str]


def expected(elements: int, hot: bool) -> dict[str, int]:
    """Compute the answer without a pipeline."""
    keys, values = Numbers(elements, hot).columns(0, elements)
    return {
        "keys": len(np.unique(keys)), "total": int(values.sum()),
        "hot": int(values[keys == HOT_KEY].sum()),
    }  # fmt: skip


def run(
    bed: Bed, way: Way, elements: int, *, flags: Sequence[str] = (), hot: bool = True
) -> Sample:
    """Run a combine to its end."""
    chosen = [*flags, f"--shards={SHARDS}", *(["--streaming"] if way.streaming else [])]
    with bed.folder() as folder:
        pipeline = bed.pipeline(folder, *chosen)
        _ = (
            pipeline
            | Events(Numbers(elements, hot), streaming=way.streaming, readers=SHARDS)  # type: ignore[arg-type]
            | beam.Map(lambda pair: pair).with_output_types(tuple[int, int])
            | way.window()
            | beam.CombinePerKey(sum)
            | beam.ParDo(TallySums())
        )
        start = time.perf_counter()
        with Meter() as meter:
            result: Any = pipeline.run()
            result.wait_until_finish()
        seconds = time.perf_counter() - start
    share: float | None = None
    keys: tuple[tuple[str, float], ...] = ()
    if way.streaming:
        (came,) = result.shard_elements().values()
        share = max(came) / sum(came)
        keys = tuple((key.key, key.share) for key in result.hot_keys())
    wrong = differences(f"hotcombine, {way.name}", answer_of(result), expected(elements, hot))
    return Sample(
        seconds=seconds, cpu_seconds=meter.cpu_seconds or 0.0, share=share, hot=keys, wrong=wrong
    )


def measure(bed: Bed, *, elements: int, rounds: int) -> CaseResult:
    """Run all in turns."""
    before = load()
    runs: dict[str, Callable[[int], Sample]] = {}
    for way in MERGED:
        runs[f"{way.name}, merged"] = partial(run, bed, way)
        runs[f"{way.name}, single"] = partial(run, bed, way, flags=(SINGLE,))
    for way in LIFTED:
        runs[f"{way.name}, a hot key"] = partial(run, bed, way)
        runs[f"{way.name}, none"] = partial(run, bed, way, hot=False)
    found: dict[str, list[Sample]] = {name: [] for name in runs}
    for start in runs.values():
        start(WARM_UP_ELEMENTS)
    for turn in range(rounds):
        for name, start in runs.items():
            sample = start(elements)
            found[name].append(sample)
            bed.say(
                f"hotcombine, round {turn + 1}: {name}: {sample.seconds:.1f} s, "
                f"{sample.cpu_seconds:.1f} s of processors, slowest shard {sample.share}, "
                f"hot {sample.hot}"
            )
    lines = {name: _line(name, samples) for name, samples in found.items()}
    return CaseResult(
        case="hotcombine",
        what=f"one key with half of {elements:,} elements, {SHARDS} shards, {bed.cores} cores",
        lines=tuple(lines.values()), bars=tuple(_bars(lines)),
        wrong=tuple(w for samples in found.values() for s in samples for w in s.wrong),
        load=(before, load()),
    )  # fmt: skip


def _line(name: str, samples: list[Sample]) -> Line:
    details = {"s of processors": statistics.median(s.cpu_seconds for s in samples)}
    shares = [s.share for s in samples if s.share is not None]
    if shares:
        details["share of the slowest shard"] = max(shares)
    hot = [share for s in samples for _, share in s.hot]
    if hot:
        details["share of the hot key"] = statistics.median(hot)
    return Line(
        name=name, unit="s", samples=tuple(s.seconds for s in samples), details=details
    )


def _bars(lines: dict[str, Line]) -> Iterator[Bar]:
    share = "share of the slowest shard"
    for way in MERGED:
        merged, single = lines[f"{way.name}, merged"], lines[f"{way.name}, single"]
        yield Bar(
            what=f"{way.name}: time of single over merged",
            value=single.median / merged.median, limit=FASTER, at_most=False,
        )
        yield Bar(
            what=f"{way.name}: {share}, merged", value=merged.details[share], limit=EVEN,
            at_most=True,
        )
        yield Bar(
            what=f"{way.name}: {share}, single", value=single.details[share], limit=UNEVEN,
            at_most=False,
        )
