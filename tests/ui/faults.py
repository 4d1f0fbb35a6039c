"""Eleven faults, each put into a stream that was well: what runs, and when it falls ill.

A fault is a pipeline on `LocalRunner`, rows for its epochs, and the number of the batch with which
it begins. `diagnosed` gives what the page said, and after how many epochs.
"""

from __future__ import annotations

import datetime as dt
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows
from pytest import MonkeyPatch

from headrace.engine.checkpoint import checkpoints
from headrace.io import BoundedOutOfOrderness, ReadFromSpark, WriteToSpark
from headrace.testing import LocalRunner, ScriptedStream
from headrace.testing.runner import LocalStreamResult
from headrace.worker.exchange.keys import ShardOf

START = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
#: Batches that are well before the fault begins.
WELL = 4
#: What is slow is so by far, also where the machine is: an epoch takes half a second there.
SLOW_SECONDS = 1.5
KEYS = 200
ROWS = 2_000
COLUMNS = "key string, part string, value long, at timestamp"


def rows(batch: int, *, hot: float = 0.0, parts: int = 4, silent: str = "", late: float = 0.0,
         new_keys: bool = False) -> list[tuple[Any, ...]]:
    """Ten seconds of event time in each batch."""
    made = []
    for n in range(ROWS):
        part = str(n % parts)
        if part == silent:
            continue
        key = f"k{batch * ROWS + n}" if new_keys else f"k{n % KEYS}"
        if n % 100 < hot * 100:
            key = "k17"
        seconds = batch * 10 + n * 10 / ROWS
        if n % 100 < late * 100:
            seconds -= 3_600
        made.append((key, part, n, START + dt.timedelta(seconds=seconds)))
    return made


class Remember(beam.DoFn):  # type: ignore[misc]
    """Keeps all there is, and lets go of nothing."""

    seen = BagStateSpec("seen", StrUtf8Coder())

    def process(self, pair: Any, seen: Any = beam.DoFn.StateParam(seen)) -> Iterator[Any]:
        seen.add(pair[0])
        yield pair


class CountLast(beam.DoFn):  # type: ignore[misc]
    """Keeps one number for each key."""

    last = ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(self, pair: Any, last: Any = beam.DoFn.StateParam(last)) -> Iterator[Any]:
        last.write((last.read() or 0) + 1)
        yield pair


class TimerAhead(beam.DoFn):  # type: ignore[misc]
    """Sets a timer a day ahead for each key, from some element on."""

    timer = TimerSpec("later", TimeDomain.REAL_TIME)
    any_cell = ReadModifyWriteStateSpec("any", VarIntCoder())

    def __init__(self, ill_from: int) -> None:
        self._from = ill_from

    def process(
        self, pair: Any, time_of: Any = beam.DoFn.TimestampParam,
        timer: Any = beam.DoFn.TimerParam(timer), cell: Any = beam.DoFn.StateParam(any_cell),
    ) -> Iterator[Any]:
        if float(time_of) >= self._from and cell.read() is None:
            cell.write(1)
            timer.set(time.time() + 86_400)
        yield pair

    @on_timer(timer)  # type: ignore[untyped-decorator]
    def late_call(self) -> None:
        """Nothing to do."""


class SlowOnShard(beam.DoFn):  # type: ignore[misc]
    """Takes its time with the keys of one shard."""

    def __init__(self, shard: int, shards: int, ill_from: int) -> None:
        self._shard, self._shards, self._from = shard, shards, ill_from

    def setup(self) -> None:
        self._of = ShardOf(StrUtf8Coder(), self._shards).any

    def process(self, pair: Any, time_of: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if float(time_of) >= self._from and self._of(pair[0]) == self._shard:
            time.sleep(0.03)
        yield pair


class Raises(beam.DoFn):  # type: ignore[misc]
    """Raises in the first tries at what comes after some time."""

    failures = 0

    def __init__(self, ill_from: int) -> None:
        self._from = ill_from

    def process(self, pair: Any, time_of: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        if float(time_of) >= self._from and Raises.failures < 2:
            Raises.failures += 1
            msg = f"no answer for {pair[0]}"
            raise ConnectionError(msg)
        yield pair


ILL_SECONDS = int(START.timestamp()) + WELL * 10


@dataclass
class Bed:
    """One run that a fault is put into."""

    options: list[str]
    stream: ScriptedStream
    ill: bool = False

    def read(self, p: beam.Pipeline, **policy: Any) -> Any:
        return (
            p
            | "Clicks" >> ReadFromSpark(
                self.stream, timestamp="at", partition="part",
                watermark=BoundedOutOfOrderness(0, **policy),
            )
            | "Pair" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(
                tuple[str, int]
            )
        )

    def deliver(self, frame: Any, epoch: int) -> None:
        frame.collect()


Build = Callable[[Bed, beam.Pipeline], None]


def _sunk(found: Any, bed: Bed, deliver: Any = None) -> None:
    named = found | "Name" >> beam.Map(lambda pair: (str(pair[0]), 1)).with_output_types(
        tuple[str, int]
    )
    named | "Out" >> WriteToSpark(function=deliver or bed.deliver, schema="key string, n long")


def grouped(bed: Bed, p: beam.Pipeline) -> None:
    pairs = bed.read(p) | beam.WindowInto(FixedWindows(10)) | "Join" >> beam.GroupByKey()
    _sunk(pairs, bed)


def with_state(bed: Bed, p: beam.Pipeline) -> None:
    _sunk(bed.read(p) | "Remember" >> beam.ParDo(Remember()), bed)


def with_timers(bed: Bed, p: beam.Pipeline) -> None:
    _sunk(bed.read(p) | "Sessions" >> beam.ParDo(TimerAhead(ILL_SECONDS)), bed)


def with_slow_shard(bed: Bed, p: beam.Pipeline) -> None:
    pairs = bed.read(p) | beam.WindowInto(FixedWindows(10)) | "Join" >> beam.GroupByKey()
    _sunk(pairs | "Score" >> beam.ParDo(SlowOnShard(2, 4, ILL_SECONDS)), bed)


def with_side_input(bed: Bed, p: beam.Pipeline) -> None:
    prices = (
        p
        | "Prices" >> ReadFromSpark(SIDE[0], timestamp="at", watermark=BoundedOutOfOrderness(0))
        | "PricesOf" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(
            tuple[str, int]
        )
        | "PriceWindows" >> beam.WindowInto(FixedWindows(10))
    )
    pairs = bed.read(p) | beam.WindowInto(FixedWindows(10))
    _sunk(
        pairs | "Enrich" >> beam.Map(lambda pair, known: pair, known=beam.pvalue.AsList(prices)),
        bed,
    )


def with_exception(bed: Bed, p: beam.Pipeline) -> None:
    Raises.failures = 0
    _sunk(bed.read(p) | "Lookup" >> beam.ParDo(Raises(ILL_SECONDS)), bed)


def with_slow_sink(bed: Bed, p: beam.Pipeline) -> None:
    def deliver(frame: Any, epoch: int) -> None:
        frame.collect()
        time.sleep(SLOW_SECONDS if bed.ill else 0.0)

    pairs = bed.read(p) | beam.WindowInto(FixedWindows(10)) | "Join" >> beam.GroupByKey()
    _sunk(pairs, bed, deliver)


class WriteAndPublish(WriteToSpark):
    """Sets rows aside, as it were, and publishes them when they count; in its own time."""

    has_outbox = True

    def __init__(self, bed: Bed) -> None:
        super().__init__(function=bed.deliver, schema="key string, n long")
        self._bed = bed

    def publish(self, delivery: Any, give_up: Callable[[], bool]) -> None:
        del delivery, give_up
        time.sleep(SLOW_SECONDS if self._bed.ill else 0.0)


def with_slow_publishing(bed: Bed, p: beam.Pipeline) -> None:
    pairs = bed.read(p) | beam.WindowInto(FixedWindows(10)) | "Join" >> beam.GroupByKey()
    named = pairs | "Name" >> beam.Map(lambda pair: (str(pair[0]), 1)).with_output_types(
        tuple[str, int]
    )
    named | "Out" >> WriteAndPublish(bed)


def well(bed: Bed, p: beam.Pipeline) -> None:
    pairs = bed.read(p)
    _sunk(pairs | "Total" >> beam.ParDo(CountLast()), bed)
    early = trigger.AfterWatermark(early=trigger.AfterCount(500))
    counts = (
        pairs
        | beam.WindowInto(
            FixedWindows(20), trigger=early,
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        )
        | "Count" >> beam.CombinePerKey(sum)
    )
    counts | "CountsOut" >> WriteToSpark(function=bed.deliver, schema="key string, n long")


SIDE: list[ScriptedStream] = []


@dataclass(frozen=True)
class Fault:
    """One way in which a run falls ill."""

    name: str
    build: Build
    says: str  # the sentence begins so
    batch: dict[str, Any] | None = None  # how the rows change
    options: tuple[str, ...] = ()


FAULTS = (
    Fault("a hot key", grouped, "key 'k17' is ", {"hot": 0.38}),
    Fault("a silent partition", grouped, "source partition 3 of Clicks holds the watermark",
          {"silent": "3"}),
    Fault("a slow sink", with_slow_sink, "sink Out takes "),
    Fault("slow publishing", with_slow_publishing, "publishing of Out holds epochs"),
    Fault("state without end", with_state, "state of Remember grows", {"new_keys": True}),
    Fault("timers a day ahead", with_timers,
          "timers far ahead hold the watermark at Sessions"),
    Fault("a slow shard", with_slow_shard, "shard 2 takes ", None, ("--shards=4",)),
    Fault("a side input that does not come", with_side_input,
          "elements of Enrich wait for side input Price"),
    Fault("late data", grouped, "late data dropped at Join", {"late": 0.2}),
    Fault("an exception", with_exception, "epoch ", None, ("--max_retries=5",)),
    Fault("slow checkpoint storage", grouped, "commit is slow: checkpoint storage takes "),
)  # fmt: skip


def state_of(url: str) -> dict[str, Any]:
    """Ask the page for its data."""
    with urllib.request.urlopen(f"{url}api/state", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def running(build: Build, options: tuple[str, ...] = ()) -> Iterator[tuple[Bed, LocalStreamResult]]:
    """Run a pipeline with its page; the address is there."""
    bed = Bed(options=list(options), stream=ScriptedStream(COLUMNS))
    SIDE[:] = [ScriptedStream("key string, value long, at timestamp")]
    given = ["--ui", "--ui_port=0", *options]
    p = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(given))
    build(bed, p)
    result = p.run()
    try:
        for _ in range(500):
            if result.page_url:
                break
            time.sleep(0.03)
        yield bed, result
    finally:
        result.cancel()


@contextmanager
def slow_storage(fault: Fault, bed: Bed) -> Iterator[None]:
    """Let the manifest's storage take its time, once the run is ill."""
    before = vars(checkpoints)["created"]

    def slow(*arguments: Any) -> Any:
        if bed.ill:
            time.sleep(SLOW_SECONDS)
        return before(*arguments)

    with MonkeyPatch.context() as patch:
        if fault.name == "slow checkpoint storage":
            patch.setattr(checkpoints, "created", slow)
        yield


def diagnosed(fault: Fault) -> tuple[list[str], list[str], int]:
    """Run a fault.

    Returns:
        What was said while the run was well, what was said at last, and the epochs it took.
    """
    with running(fault.build, fault.options) as (bed, result), slow_storage(fault, bed):
        price = [("k1", 1, START)]
        for batch in range(WELL):
            if fault.build is with_side_input:
                at = START + dt.timedelta(seconds=batch * 10 + 9)
                price = [("k1", 1, at), ("k1", 1, at + dt.timedelta(seconds=0.9))]
                SIDE[0].add(*price)
                result.settle()
            bed.stream.add(*rows(batch))
            result.settle()
        before = state_of(result.page_url)
        said = [finding["sentence"] for finding in before["findings"]]
        bed.ill = True
        epochs = 0
        now: list[str] = []
        for batch in range(WELL, WELL + 3):
            bed.stream.add(*rows(batch, **(fault.batch or {})))
            result.settle()
            epochs += 1
            now = [finding["sentence"] for finding in state_of(result.page_url)["findings"]]
            if any(sentence.startswith(fault.says) for sentence in now):
                break
        return said, now, epochs
