"""Input in the order of event time, whatever the arrivals, the epochs and the restarts are.

The oracle is a plain sort of what was not too late.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing import test_stream
from apache_beam.transforms import window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import CheckpointError
from headrace.io import BoundedOutOfOrderness, ReadFromSpark
from headrace.testing import LocalRunner
from tests.places import here
from tests.streaming.harness import (
    Gathered,
    Inbox,
    checkpointed,
    finished,
    jot,
    jotted,
    streaming,
)

pytestmark = [pytest.mark.timeout(120, func_only=True)]

COUNT = ReadModifyWriteStateSpec("count", coders.VarIntCoder())
COUNT_PARAM = beam.DoFn.StateParam(COUNT)
OPEN = BagStateSpec("open", coders.VarIntCoder())
OPEN_PARAM = beam.DoFn.StateParam(OPEN)
GAP = TimerSpec("gap", TimeDomain.WATERMARK)
GAP_PARAM = beam.DoFn.TimerParam(GAP)

EVENTS = "key string, at long, value long"

Event = tuple[str, int]  # key and second; a number makes each another


class Numbered(beam.DoFn):  # type: ignore[misc]
    """Gives each element its number within its key, in the order of `process`."""

    def process(self, pair: Any, count: Any = COUNT_PARAM) -> Iterator[Any]:
        number = count.read() or 0
        count.write(number + 1)
        yield pair[0], number, pair[1]


@headrace.time_sorted
class Sorted(Numbered):
    """The same, in the order of event time."""


@headrace.time_sorted
class Sessions(beam.DoFn):  # type: ignore[misc]
    """Closes a session five seconds after its last element: right only if timers are in order."""

    def process(
        self, pair: Any, held: Any = OPEN_PARAM, gap: Any = GAP_PARAM,
        time: Any = beam.DoFn.TimestampParam,
    ) -> None:
        held.add(pair[1])
        gap.set(time + 5)

    @on_timer(GAP)  # type: ignore[untyped-decorator]
    def close(self, key: Any = beam.DoFn.KeyParam, held: Any = OPEN_PARAM) -> Iterator[Any]:
        yield key, list(held.read())
        held.clear()


def timed(key: str, second: int, number: int) -> Any:
    return window.TimestampedValue((key, number), second)


def script(epochs: list[tuple[list[Event], int]]) -> tuple[Any, list[tuple[str, int, int, int]]]:
    """A test stream, and its arrivals: key, second, number, and the watermark they came under."""
    stream = test_stream.TestStream(coder=coders.FastPrimitivesCoder())
    arrivals: list[tuple[str, int, int, int]] = []
    watermark = 0
    stream.advance_watermark_to(0)
    for events, step in epochs:
        if events:
            first = len(arrivals)
            arrivals += [(k, s, first + i, watermark) for i, (k, s) in enumerate(events)]
            stream.add_elements([timed(k, s, number) for k, s, number, _ in arrivals[first:]])
        if step:
            watermark += step
            stream.advance_watermark_to(watermark)
    return stream.advance_watermark_to_infinity(), arrivals


def numbered(arrivals: list[tuple[str, int, int, int]], lateness: int) -> list[Any]:
    """What `Sorted` must give."""
    expected = []
    for key in sorted({arrival[0] for arrival in arrivals}):
        kept = sorted(
            (second, number)
            for k, second, number, watermark in arrivals
            if k == key and second + lateness >= watermark
        )
        expected += [(key, place, number) for place, (_, number) in enumerate(kept)]
    return expected


EPOCHS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 40)), max_size=8),
        st.integers(0, 15),
    ),
    max_size=6,
)


@settings(
    max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate],  # shrinking is slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(epochs=EPOCHS, lateness=st.sampled_from([0, 7]), fixed=st.booleans())
def test_elements_of_a_key_come_in_the_order_of_time_and_late_ones_not_at_all(
    tmp_path_factory: pytest.TempPathFactory,
    epochs: list[tuple[list[Event], int]],
    lateness: int,
    fixed: bool,
) -> None:
    stream, arrivals = script(epochs)
    out = tmp_path_factory.mktemp("sorted") / "out"
    p = streaming()
    windows = window.FixedWindows(100) if fixed else window.GlobalWindows()
    _ = (
        p | stream | beam.WindowInto(windows, allowed_lateness=lateness)
        | beam.ParDo(Sorted()) | jot(out)
    )
    result = finished(p)
    expected = numbered(arrivals, lateness)
    assert sorted(jotted(out)) == expected
    assert result.stream_status.elements_late == len(arrivals) - len(expected)


def closed(events: list[tuple[int, int]]) -> list[list[int]]:
    """Sessions of one key's (second, number), none of them late."""
    found: list[list[int]] = []
    last = None
    for second, number in sorted(events):
        if last is None or second >= last + 5:  # a timer fires before an element of its time
            found.append([])
        found[-1].append(number)
        last = second
    return found


@settings(
    max_examples=25, deadline=None, phases=[Phase.explicit, Phase.generate],  # shrinking is slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=20),
    steps=st.lists(st.integers(1, 20), max_size=4),
    batch=st.booleans(),
)
def test_timers_fire_between_elements_whatever_the_epochs_are(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[Event],
    steps: list[int],
    batch: bool,
) -> None:
    """However far the watermark goes at once, in batch to the end of time."""
    out = tmp_path_factory.mktemp("sessions") / "out"
    rows = [(key, second, number) for number, (key, second) in enumerate(events)]
    if batch:
        p = beam.Pipeline(runner=here().runner(), options=PipelineOptions(["--shards=2"]))
        source = (
            p | beam.Create(rows) | beam.Map(lambda row: timed(*row)).with_output_types(
                tuple[str, int])
        )
    else:
        p = streaming()
        stream = test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        watermark = 0
        waiting = rows
        for turn, step in enumerate([*steps, 1_000]):
            # Some come early and wait over epochs; none is late.
            now = [row for row in waiting if row[1] < watermark + step or row[2] % 4 == turn]
            waiting = [row for row in waiting if row not in now]
            for row in reversed(now):
                stream.add_elements([timed(*row)])
            watermark += step
            stream.advance_watermark_to(watermark)
        source = p | stream.advance_watermark_to_infinity()
    _ = source | beam.ParDo(Sessions()) | jot(out)
    p.run().wait_until_finish()
    expected = [
        (key, sorted(session))
        for key in "ab"
        for session in closed([(s, n) for k, s, n in rows if k == key])
    ]
    found = [(key, sorted(session)) for key, session in jotted(out)]
    assert sorted(found) == sorted(expected)


@pytest.mark.also_on_spark
def test_a_batch_and_a_stream_give_the_same(tmp_path: Path) -> None:
    rows = [("ab"[i % 2], i * 7 % 31, i) for i in range(40)]
    expected = numbered([(*row, 0) for row in rows], 0)
    batch = beam.Pipeline(runner=here().runner(), options=PipelineOptions(["--shards=2"]))
    _ = (
        batch | beam.Create(rows)
        | beam.Map(lambda row: timed(*row)).with_output_types(tuple[str, int])
        | beam.ParDo(Sorted()) | jot(tmp_path / "batch")
    )
    batch.run().wait_until_finish()
    stream, _ = script([([(key, second)], 0) for key, second, _ in rows])
    p = streaming()
    _ = p | stream | beam.ParDo(Sorted()) | jot(tmp_path / "stream")
    finished(p)
    assert sorted(jotted(tmp_path / "batch")) == expected
    assert sorted(jotted(tmp_path / "stream")) == expected


def test_what_waits_goes_on_over_restarts_with_1_3_and_2_shards(tmp_path: Path) -> None:
    """Rows come up to ten seconds late, in six runs; the last one drains."""
    dice = random.Random(4)
    inbox, gathered = Inbox(tmp_path / "in"), Gathered()
    rows = [(f"key {dice.randrange(9)}", i + dice.randrange(10), i) for i in range(300)]
    for run, shards in enumerate((1, 3, 2, 2, 3, 1)):
        part = rows[run * 50 : run * 50 + 50]
        inbox.put(*({"key": k, "at": s, "value": n} for k, s, n in part))
        last = run == 5
        p = checkpointed(tmp_path, *([] if last else ["--available_now"]), shards=shards)
        _ = (
            p
            | "Read" >> ReadFromSpark(
                inbox.frame(EVENTS), timestamp="at", watermark=BoundedOutOfOrderness(10)
            )
            | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
            | "Sorted" >> beam.ParDo(Sorted())
            | "Gather" >> gathered.sink("key string, number long, value long")
        )
        if last:
            result: Any = p.run()
            result.settle()
            assert len(gathered.rows) < 300
            result.drain()
        else:
            finished(p)
            assert len(gathered.rows) < 50 * (run + 1)  # some wait, in the checkpoint
    assert gathered.rows == numbered([(*row, 0) for row in rows], 0)


def test_a_checkpoint_is_not_read_by_a_pipeline_that_does_not_sort(tmp_path: Path) -> None:
    """What waits there would be lost unseen."""
    inbox = Inbox(tmp_path / "in")
    inbox.put({"key": "a", "at": 5, "value": 1})

    def run(dofn: beam.DoFn) -> None:
        p = checkpointed(tmp_path, "--available_now")
        _ = (
            p
            | "Read" >> ReadFromSpark(inbox.frame(EVENTS), timestamp="at")
            | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
            | "Step" >> beam.ParDo(dofn)
            | "Gather" >> Gathered().sink("key string, number long, value long")
        )
        finished(p)

    run(Sorted())
    with pytest.raises(CheckpointError, match="input sorted by time is gone"):
        run(Numbered())


def test_the_oldest_element_that_waits_holds_the_watermark(tmp_path: Path) -> None:
    """A window downstream fires when what belongs into it has come, not before."""
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([timed("a", 4, 0), timed("a", 2, 1)])
        .advance_watermark_to(12)  # with the lateness of ten, neither is due
        .add_elements([timed("a", 3, 2)])  # late by nine
        .advance_watermark_to_infinity()
    )
    p = streaming()
    _ = (
        p | stream | beam.WindowInto(window.FixedWindows(10), allowed_lateness=10)
        | beam.ParDo(Sorted())
        | beam.Map(lambda row: ("all", row[2])).with_output_types(tuple[str, int])
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, numbers: list(numbers))
        | jot(tmp_path / "out")
    )
    result = finished(p)
    assert jotted(tmp_path / "out") == [[1, 2, 0]]  # one pane, on time
    assert result.stream_status.elements_late == 0


@headrace.time_sorted
class WithSide(Numbered):
    """Looks at a side input, which may come later than its elements."""

    def process(  # type: ignore[override]
        self, pair: Any, side: Any, count: Any = COUNT_PARAM
    ) -> Iterator[Any]:
        for key, number, value in super().process(pair, count):
            yield key, number, value, list(side)


def test_elements_that_wait_for_a_side_input_take_their_places_when_it_is_there(
    tmp_path: Path,
) -> None:
    stream = (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder())
        .advance_watermark_to(0)
        .add_elements([timed("a", 4, 0)], tag="main")
        .add_elements([timed("a", 2, 1)], tag="main")
        .advance_watermark_to(8, tag="main")
        .add_elements([timed("x", 5, 7)], tag="side")
        .advance_watermark_to(10, tag="side")
        .add_elements([timed("a", 9, 2)], tag="main")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
    )
    p = streaming()
    parts = p | stream
    fixed = [parts[tag] | f"W {tag}" >> beam.WindowInto(window.FixedWindows(10))
             for tag in ("main", "side")]  # fmt: skip
    side = beam.pvalue.AsIter(fixed[1] | beam.MapTuple(lambda _, number: number))
    _ = fixed[0] | beam.ParDo(WithSide(), side) | jot(tmp_path / "out")
    finished(p)
    assert jotted(tmp_path / "out") == [
        ("a", 0, 1, [7]), ("a", 1, 0, [7]), ("a", 2, 2, [7]),
    ]  # fmt: skip


class _Asking(LocalRunner):
    """Asks for order in the proto, as an SDK with a way to ask would."""

    def run_proto(self, proto: Any, options: Any, frames: Any = None) -> Any:
        for transform in proto.components.transforms.values():
            if transform.unique_name == "Step":
                payload = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
                payload.requires_time_sorted_input = True
                transform.spec.payload = payload.SerializeToString()
        return super().run_proto(proto, options, frames)


def test_a_proto_that_asks_by_itself_is_sorted_too(tmp_path: Path) -> None:
    rows = [("a", second, number) for number, second in enumerate((5, 3, 9, 1))]
    with beam.Pipeline(runner=_Asking()) as p:
        _ = (
            p | beam.Create(rows)
            | beam.Map(lambda row: timed(*row)).with_output_types(tuple[str, int])
            | "Step" >> beam.ParDo(Numbered()) | jot(tmp_path / "out")
        )
    assert sorted(jotted(tmp_path / "out")) == numbered([(*row, 0) for row in rows], 0)


def test_small_bundles_and_a_watermark_that_stands_still_change_nothing(tmp_path: Path) -> None:
    stream, arrivals = script([([("a", 9 - i)], 0) for i in range(9)])
    p = streaming("--max_bundle_elements=2")
    _ = p | stream | beam.ParDo(Sorted()) | jot(tmp_path / "out")
    finished(p)
    assert jotted(tmp_path / "out") == numbered(arrivals, 0)
