"""An epoch gives the same in one task as in stages: rows, manifests, metrics; in any mixture."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsDict
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine import epoch_run
from headrace.engine.checkpoint.reading import read_manifest
from headrace.engine.layouts import FEW_ELEMENTS, Layout, Outlook
from headrace.io import ReadFromSpark
from headrace.state.crash_points import Point, observed
from headrace.state.files import Files
from headrace.testing import ScriptedStream
from headrace.testing.runner import LocalStreamResult
from headrace.worker.task.boxes import Boxes
from tests.places import Place
from tests.streaming.harness import Gathered, checkpointed, finished, started

pytestmark = [pytest.mark.timeout(240)]

SIZE = 4  # seconds of a window
KEYS = "abc"
#: Key, value and event time of the elements that come together.
Batch = list[tuple[str, int, int]]
BOTH = (Layout.STAGES, Layout.ONE_TASK)


class Watch(beam.DoFn):  # type: ignore[misc]
    """Counts the elements of a key, and tells the count when its window is over."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)
    OVER = TimerSpec("over", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
        over: Any = beam.DoFn.TimerParam(OVER),  # noqa: B008 (Beam's way)
    ) -> None:
        seen.add(1)
        over.set(window.end)
        Metrics.counter("small", "watched").inc(pair[1])

    @on_timer(OVER)  # type: ignore[untyped-decorator]
    def tell(
        self,
        key: Any = beam.DoFn.KeyParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[str, str, int]]:
        yield "count", key, seen.read()


def build(pipeline: beam.Pipeline, script: Sequence[Batch], gathered: Gathered) -> None:
    """Two exchanges, state with timers, windows, and a side input of the same windows."""
    stream = TestStream()
    for number, batch in enumerate(script):
        stream = stream.advance_watermark_to(number * SIZE / 2)
        stream = stream.add_elements([TimestampedValue((k, v), t) for k, v, t in batch])
    pairs = pipeline | stream.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(SIZE))
    pairs = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
    sums = pairs | "Sums" >> beam.CombinePerKey(sum)
    shares = (
        pairs
        | "Of" >> beam.Map(lambda kv, of: ("share", kv[0], of[kv[0]] - kv[1]), of=AsDict(sums))
    )
    total = (
        sums
        | beam.Map(lambda kv: ("all", kv[1])).with_output_types(tuple[str, int])
        | "Total" >> beam.CombinePerKey(sum)
        | beam.Map(lambda kv: ("total", *kv))
    )
    counts = pairs | beam.ParDo(Watch())
    _ = (shares, total, counts) | beam.Flatten() | gathered.sink("what string, key string, n int")


def expected(script: Sequence[Batch]) -> list[tuple[str, str, int]]:
    """Give the same by plain Python; nothing comes late here."""
    sums: Counter[tuple[str, int]] = Counter()
    counts: Counter[tuple[str, int]] = Counter()
    totals: Counter[int] = Counter()
    elements = [(k, v, t // SIZE) for batch in script for k, v, t in batch]
    for key, value, window in elements:
        sums[key, window] += value
        counts[key, window] += 1
        totals[window] += value
    shares = [("share", k, sums[k, w] - v) for k, v, w in elements]
    return sorted([
        *shares, *(("count", k, n) for (k, _), n in counts.items()),
        *(("total", "all", n) for n in totals.values()),
    ])  # fmt: skip


@contextmanager
def laid_out(*layouts: Layout) -> Iterator[list[Layout]]:
    """Let epochs take these layouts in turn; give those that they took."""
    turn, taken = cycle(layouts), list[Layout]()

    def layout_of(outlook: Outlook) -> tuple[Layout, str]:
        del outlook
        taken.append(next(turn))
        return taken[-1], "the test says so"

    with patch.object(epoch_run, "layout_of", layout_of):
        yield taken


SCRIPT: list[Batch] = [
    [("a", 1, 0), ("b", 2, 3), ("a", 5, 1)],
    [],
    [("c", 7, 4), ("a", 1, 5), ("b", 4, 9)],
    [("b", 3, 8), ("b", 3, 8), ("c", 1, 6)],
    [("a", 9, 30)],
]


#: Random names, and sums and sizes of files with such names and times in them: two runs in stages
#: differ in these too.
_OF_A_RUN = re.compile(r"(?<=\d)-[0-9a-f]{12}|(size|crc)=\d+|past=\([^)]*\)")


def committed(folder: Path, layouts: Iterable[Layout]) -> tuple[list[Any], list[Any], int]:
    """Run the script; give all manifests without names that are random, the rows, a counter."""
    manifests: list[Any] = []

    def look(point: Point, epoch: int, *more: str) -> None:
        del more
        if point is Point.AFTER_MANIFEST:
            found = read_manifest(Files(str(folder / "checkpoint")), epoch)
            # Milliseconds, times of day and random names are of a run alone.
            sources = replace(found.sources, now=0, writer="")
            found = replace(found, metrics=type(found.metrics)(), sources=sources)
            manifests.append(_OF_A_RUN.sub("", repr(found)))

    gathered = Gathered()
    with observed(look), laid_out(*layouts):
        pipeline = checkpointed(folder)
        build(pipeline, SCRIPT, gathered)
        result = finished(pipeline)
    (counter,) = result.metrics().query()["counters"]
    return manifests, gathered.rows, counter.committed


def test_rows_manifests_and_metrics_are_the_same_in_one_task_and_in_stages(
    tmp_path: Path
) -> None:
    stages, small, mixed = (
        committed(tmp_path / str(number), layouts)
        for number, layouts in enumerate([BOTH[:1], BOTH[1:], BOTH])
    )
    assert len(stages[0]) > 2 * len(SCRIPT)
    assert small[0] == stages[0]
    assert mixed[0] == stages[0]
    wanted = expected(SCRIPT), sum(v for batch in SCRIPT for _, v, _ in batch)
    assert small[1:] == stages[1:] == mixed[1:] == wanted


#: Times are at or after the watermark that the script has reached by then.
scripts = st.lists(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 2 * SIZE)), max_size=4
    ),
    min_size=1, max_size=5,
).map(
    lambda script: [
        [(k, v, n * SIZE // 2 + t) for k, v, t in batch] for n, batch in enumerate(script)
    ]
)  # fmt: skip


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    script=scripts,
    layouts=st.lists(st.sampled_from(Layout), min_size=1, max_size=7),
    point=st.sampled_from(Point),
    epoch=st.integers(0, 12),
)
def test_any_script_in_any_shapes_with_a_crash_in_any_gap_gives_each_row_once(
    where: Place, script: list[Batch], layouts: list[Layout], point: Point, epoch: int
) -> None:
    del where
    gathered = Gathered()
    left = [(point, epoch)]

    def end(point: Point, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) in left:
            left.remove((point, epoch))
            raise EndedError

    with TemporaryDirectory() as folder, observed(end), laid_out(*layouts):
        for _ in range(2):
            pipeline = checkpointed(Path(folder))
            build(pipeline, script, gathered)
            try:
                finished(pipeline)
                break
            except EndedError:
                assert not left
    assert gathered.rows == expected(script)


class EndedError(Exception):
    """The driver, or a task, ends here."""


@pytest.mark.spark
@pytest.mark.parametrize("layouts", [BOTH[1:], BOTH], ids=["one task", "in turns"])
def test_on_spark_the_rows_are_those_of_plain_python(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    """The sink wants rows, so each epoch has a plan of its own."""
    manifests, rows, watched = committed(tmp_path, layouts)
    assert len(manifests) > 2 * len(SCRIPT)
    assert rows == expected(SCRIPT)
    assert watched == sum(v for batch in SCRIPT for _, v, _ in batch)


@pytest.mark.spark
def test_on_spark_a_plan_that_is_kept_gives_the_same_metrics_in_one_task(tmp_path: Path) -> None:
    """No sink wants rows: the reports alone come back, packed."""
    found = []
    for number, layouts in enumerate([BOTH[:1], BOTH[1:], BOTH]):
        with laid_out(*layouts):
            pipeline = checkpointed(tmp_path / str(number))
            stream = TestStream()
            for batch in SCRIPT:
                stream = stream.add_elements([TimestampedValue((k, v), t) for k, v, t in batch])
            _ = pipeline | stream.advance_watermark_to_infinity() | beam.ParDo(Watch())
            result = finished(pipeline)
        (counter,) = result.metrics().query()["counters"]
        status = result.stream_status
        found.append((counter.committed, status.epoch, status.state_rows, status.watermarks))
    assert found[0][0] == sum(v for batch in SCRIPT for _, v, _ in batch)
    assert found[1] == found[0]
    assert found[2] == found[0]


class Die(beam.DoFn):  # type: ignore[misc]
    """Ends its process at one element, once."""

    def __init__(self, note: str) -> None:
        self._note = note

    def process(self, element: tuple[str, int]) -> Iterator[tuple[str, int]]:
        if element == ("b", 2) and not os.path.exists(self._note):
            Path(self._note).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield element


@pytest.mark.spark
def test_on_spark_a_worker_that_dies_in_one_task_is_replaced(tmp_path: Path) -> None:
    """It dies behind an exchange, when other shards of the epoch have sealed their state."""
    gathered = Gathered()
    pipeline = checkpointed(tmp_path, "--small_epochs=always")
    stream = TestStream()
    for number in range(4):
        stream = stream.add_elements([(key, number) for key in KEYS])
    _ = (
        pipeline
        | stream.advance_watermark_to_infinity()
        | beam.ParDo(Number())
        | beam.ParDo(Die(str(tmp_path / "died")))
        | gathered.sink("key string, times int")
    )
    result = finished(pipeline)
    assert (tmp_path / "died").exists()
    assert gathered.rows == [(key, n) for key in KEYS for n in range(1, 5)]
    layouts = result.stream_status.layouts
    assert layouts.stages == 1  # after a lost worker, an epoch is laid out as stages
    assert layouts.one_task > 4


@pytest.mark.spark
def test_on_spark_a_run_is_cancelled_in_the_middle_of_one_task(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def wait(element: Any) -> Any:
        Path(begun).touch()
        time.sleep(200)
        return element

    pipeline = checkpointed(tmp_path, "--small_epochs=always")
    stream = TestStream().add_elements([("a", 1)]).advance_watermark_to_infinity()
    _ = pipeline | stream | beam.ParDo(Number()) | beam.Map(wait)
    result = pipeline.run()
    deadline = time.monotonic() + 120
    while not begun.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    start = time.monotonic()
    assert result.cancel() == "CANCELLED"
    assert time.monotonic() - start < 60
    assert result.stream_status.epoch == 0  # the one that began with nothing


class Number(beam.DoFn):  # type: ignore[misc]
    """Numbers the elements of each key."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self,
        pair: tuple[str, int],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[str, int]]:
        seen.add(1)
        yield pair[0], seen.read()


def test_batches_that_promise_few_rows_are_one_task_and_large_ones_are_stages(
    tmp_path: Path
) -> None:
    stream = ScriptedStream("key string, n int")
    gathered = Gathered()
    pipeline = checkpointed(tmp_path)
    _ = (
        pipeline
        | ReadFromSpark(stream)
        | beam.Map(lambda row: (row.key, row.n)).with_output_types(tuple[str, int])
        | beam.ParDo(Number())
        | gathered.sink("key string, times int")
    )
    with started(pipeline) as result:
        assert isinstance(result, LocalStreamResult)
        for _ in range(10):
            stream.add(("a", 1), ("b", 2))
            result.settle()
        layouts = result.stream_status.layouts
        assert layouts.one_task > 0
        stream.add(*[("a", n) for n in range(FEW_ELEMENTS + 1)])
        result.settle()
        after = result.stream_status.layouts
        assert after.reason == f"{FEW_ELEMENTS + 1} elements come in"
        assert (after.one_task, after.stages) == (layouts.one_task, layouts.stages + 1)
    wanted = [("a", n) for n in range(1, FEW_ELEMENTS + 12)] + [("b", n) for n in range(1, 11)]
    assert gathered.rows == wanted


def test_an_epoch_that_turns_out_large_is_right_and_goes_over_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = []
    spill = Boxes._spill

    def seen(boxes: Boxes) -> None:
        spilled.append(boxes._held)
        spill(boxes)

    monkeypatch.setattr(Boxes, "_spill", seen)
    monkeypatch.setattr(Boxes.__init__, "__defaults__", (20_000,))
    gathered = Gathered()
    pipeline = checkpointed(tmp_path, "--small_epochs=always", "--super_tuple_bytes=2000")
    _ = (
        pipeline
        | TestStream()
        .add_elements([TimestampedValue(("a", 1), 0)])
        .advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(SIZE))
        | beam.FlatMap(lambda pair: [(f"{pair[0]}{n % 100}", n) for n in range(10_000)])
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, numbers: (key, len(list(numbers))))
        | gathered.sink("key string, n int")
    )
    finished(pipeline)
    assert spilled
    assert gathered.rows == sorted((f"a{n}", 100) for n in range(100))
