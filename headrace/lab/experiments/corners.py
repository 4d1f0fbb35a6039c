"""The corners of the engine, each alone and in one process: processor time for each element.

`headrace lab run corners` runs sessions by their own path and by Beam's trigger driver, and
functions that ask for window or time beside one that asks for nothing, and a stateful DoFn with a
timer, in turns. `--repeats` says how often; the table has the least of each, which other work on
the machine disturbs least. Whole pipelines include their start and their source.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import core, trigger, userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from headrace.lab.commands import get_ready, number
from headrace.state.store import MemoryStore
from headrace.testing import LocalRunner
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.grouper import StreamGrouper
from headrace.worker.grouping.triggers import TriggeredGroups

SECOND = 1_000_000
GAP_SECONDS = 10
KEYS = 500
#: Epochs of a session: each key is touched in every epoch of a burst, then it rests.
BURST_EPOCHS, EPOCHS = 4, 12


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line names."""
    made = argparse.ArgumentParser(prog="headrace lab run corners", description=__doc__)
    made.add_argument("--case", action="append", default=[], choices=sorted(CASES))
    made.add_argument("--repeats", type=number, default=3)
    args = made.parse_args(arguments)
    get_ready()
    names = args.case or list(CASES)
    least: dict[str, float] = {}
    for _ in range(args.repeats):
        for name in names:
            least[name] = min(least.get(name, float("inf")), CASES[name]())
    for name in names:
        print(f"{name:24} {least[name]:8.2f} us")
    return 0


def _sessions(*, driver: bool, combined: bool, counts: bool = False) -> float:
    """Microseconds for each touch of a key by a session grouping in streaming, with one value.

    With `counts`, panes leave as in NEXMark 11, and the count is one that is never reached.
    """
    windowing = core.Windowing(window.Sessions(GAP_SECONDS))
    if counts:
        when = trigger.AfterWatermark(trigger.AfterCount(1_000), trigger.AfterCount(1))
        windowing = core.Windowing(
            window.Sessions(GAP_SECONDS), when, trigger.AccumulationMode.DISCARDING, None, 1
        )
    coder = coders.WindowedValueCoder(
        coders.TupleCoder([coders.VarIntCoder(), coders.VarIntCoder()]),
        windowing.windowfn.get_window_coder(),
    )
    compact = (lambda found: [sum(found)]) if combined else None
    grouper: StreamGrouper = (
        TriggeredGroups(0, coder, windowing, compact)
        if driver
        else make_stream_grouper(0, coder, windowing, 1 << 30, compact)
    )
    path = Grouping.GENERAL if driver else grouping_of(windowing)
    store = MemoryStore()
    watermark, touches, groups = MIN_TIMESTAMP.micros, 0, 0

    def push(values: list[Any], _meta: Any) -> None:
        nonlocal groups
        groups += len(values)

    begun = time.process_time()
    for epoch, values in _bursts():
        rows: list[Any] = []
        writer = GroupWriter(0, coder, path, rows.append, shards=1, super_tuple_bytes=1 << 16)
        at = Timestamp(epoch)
        windows = (window.IntervalWindow(at, at + GAP_SECONDS),)
        if values:
            writer.write(values, windowed_value.create(None, at.micros, windows))
        writer.flush()
        grouper.attach(store, watermark)
        for row in rows:
            grouper.add(row.kind, row.elements, row.payload)
        watermark = epoch * SECOND
        grouper.advance(watermark, 0, push)
        grouper.flush()
        touches += len(values)
    taken = time.process_time() - begun
    if groups != KEYS * 2 or store.rows:
        msg = f"{groups} sessions fired and {len(store.rows)} rows are left"
        raise AssertionError(msg)
    return taken / touches * 1e6


def _bursts() -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Give seconds and what comes then: two bursts of each key, and a rest after each."""
    for start in (0, 100):
        for epoch in range(EPOCHS):
            pairs = [(key, epoch) for key in range(KEYS)] if epoch < BURST_EPOCHS else []
            yield start + epoch * 3, pairs


def _asking(step: Callable[[], Any]) -> float:
    """Microseconds for each element of a pipeline with one step, in fixed windows."""
    size = 50_000

    def stamped(_: int) -> list[Any]:
        return [window.TimestampedValue(i, i / 1_000) for i in range(size)]

    pipeline = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--shards=1"]))
    _ = (
        pipeline
        | beam.Create([0])
        | beam.FlatMap(stamped)
        | beam.WindowInto(window.FixedWindows(10))
        | "step" >> step()
        | "end" >> beam.Filter(lambda x: x < 0)
    )
    begun = time.process_time()
    pipeline.run().wait_until_finish()
    return (time.process_time() - begun) / size * 1e6


_VALUE = userstate.ReadModifyWriteStateSpec("value", coders.VarIntCoder())
_DUE = userstate.TimerSpec("due", TimeDomain.WATERMARK)
_VALUE_PARAM, _DUE_PARAM = beam.DoFn.StateParam(_VALUE), beam.DoFn.TimerParam(_DUE)


class Adds(beam.DoFn):  # type: ignore[misc]
    """Adds to a value, and moves a timer that gives it."""

    def process(
        self, element: tuple[int, int], value: Any = _VALUE_PARAM, due: Any = _DUE_PARAM
    ) -> None:
        """Take one number."""
        value.write((value.read() or 0) + element[1])
        due.set(10_000)

    @userstate.on_timer(_DUE)  # type: ignore[untyped-decorator]
    def fired(self, value: Any = _VALUE_PARAM) -> Iterator[int]:
        """Give the sum."""
        yield value.read()


def _timers(*, each: int, epochs: int) -> float:
    """Microseconds for each element of a streaming pipeline with one value and one timer."""
    script = TestStream()
    for epoch in range(epochs):
        pairs = [(key, 1) for key in range(KEYS) for _ in range(each)]
        script = script.add_elements([window.TimestampedValue(pair, epoch) for pair in pairs])
        script = script.advance_watermark_to(epoch + 1)
    pipeline = beam.Pipeline(
        runner=LocalRunner(), options=PipelineOptions(["--shards=1", "--streaming"])
    )
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | "pairs" >> beam.Map(lambda pair: pair).with_output_types(tuple[int, int])
        | beam.ParDo(Adds())
        | "wrong" >> beam.Filter(lambda total: total != each * epochs)
        | "fail" >> beam.Map(lambda total: 1 // (total - total))
    )
    begun = time.process_time()
    pipeline.run().wait_until_finish()
    return (time.process_time() - begun) / (KEYS * each * epochs) * 1e6


_WINDOW, _TIME = beam.DoFn.WindowParam, beam.DoFn.TimestampParam

CASES: dict[str, Callable[[], float]] = {
    "sessions_group": lambda: _sessions(driver=False, combined=False),
    "sessions_group_driver": lambda: _sessions(driver=True, combined=False),
    "sessions_sum": lambda: _sessions(driver=False, combined=True),
    "sessions_sum_driver": lambda: _sessions(driver=True, combined=True),
    "sessions_counted": lambda: _sessions(driver=False, combined=True, counts=True),
    "sessions_counted_driver": lambda: _sessions(driver=True, combined=True, counts=True),
    "timers_within": lambda: _timers(each=10, epochs=1),
    "timers_across": lambda: _timers(each=1, epochs=10),
    "map_plain": lambda: _asking(lambda: beam.Map(lambda x: x + 1)),
    "map_window": lambda: _asking(lambda: beam.Map(lambda x, w=_WINDOW: x + (w is None))),
    "map_time": lambda: _asking(lambda: beam.Map(lambda x, t=_TIME: x + (t is None))),
}