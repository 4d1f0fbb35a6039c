"""headrace in one process: the answers of Beam's runner, epochs and restarts without Spark."""

from __future__ import annotations

import datetime
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger, window
from apache_beam.transforms.userstate import CombiningValueStateSpec

from headrace.engine.checkpoint.fencing import claimed
from headrace.errors import (
    CheckpointError,
    ResultError,
    SessionError,
    TransportError,
    UnsupportedTransformError,
)
from headrace.io import BoundedOutOfOrderness, ReadFromSpark, WriteToSpark, to_dataframe
from headrace.state import memory_copies, memory_files
from headrace.state.files import Files
from headrace.testing import (
    Collected,
    LocalRunner,
    LocalSession,
    LocalStreamResult,
    ManualClock,
    ScriptedStream,
    Stores,
)
from headrace.testing.host import dealt
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple, to_batch

SEEN = CombiningValueStateSpec("seen", combine_fn=sum)
EVENTS = "key string, value long, at double"


class Count(beam.DoFn):  # type: ignore[misc]
    """Tells how often a key came so far."""

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        seen.add(1)
        yield pair[0], seen.read()


def pipeline(*options: str, **more: Any) -> beam.Pipeline:
    return beam.Pipeline(runner=LocalRunner(**more), options=PipelineOptions(list(options)))


def started(p: beam.Pipeline) -> LocalStreamResult:
    result = p.run()
    assert isinstance(result, LocalStreamResult)
    return result


def counted(
    p: beam.Pipeline, events: ScriptedStream, into: Collected, **more: Any
) -> LocalStreamResult:
    _ = (
        p
        | "Read" >> ReadFromSpark(events, **more)
        | "Pair" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[str, int])
        | "Count" >> beam.ParDo(Count())
        | "Write" >> into.sink("key string, times long")
    )
    return started(p)


def test_neither_spark_nor_java_is_started(tmp_path: Path) -> None:
    """In a fresh process: nothing here may have started one before."""
    program = """if True:
        import apache_beam as beam
        from apache_beam.testing.util import assert_that, equal_to
        from headrace.testing import LocalRunner
        with beam.Pipeline(runner=LocalRunner()) as p:
            assert_that(p | beam.Create([1, 2]) | beam.Map(str), equal_to(["1", "2"]))
        from pyspark import SparkContext
        assert SparkContext._gateway is None
    """
    subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2],
        env={"PATH": "", "JAVA_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
    )


def test_a_batch_reads_and_gives_dataframes() -> None:
    session = LocalSession()
    frame = session.createDataFrame(
        [("a", 1, None), ("b", 2, ["x", "y"])], "key string, value int, tags array<string>"
    )
    p = pipeline()
    rows = p | ReadFromSpark(frame)
    handle = to_dataframe(rows)
    _ = rows | beam.Map(lambda row: row.value) | beam.CombineGlobally(sum) | beam.Map(str)
    p.run().wait_until_finish()
    found = handle.dataframe().collect()
    assert sorted(map(tuple, found)) == [("a", 1, None), ("b", 2, ["x", "y"])]
    assert found[0].key in ("a", "b")


def test_rows_of_every_kind_come_back_as_they_went() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)
    schema = "n bigint, d decimal(9,2), t timestamp, m map<string,int>, s struct<x:int>, b binary"
    frame = LocalSession().createDataFrame(
        [{"n": 1, "t": at.astimezone(), "m": {"k": 2}, "s": {"x": 3}, "b": b"z"}], schema
    )
    (row,) = frame.collect()
    assert (row.n, row.d, row.t, row.m, row.s.x, bytes(row.b)) == (1, None, at, {"k": 2}, 3, b"z")
    assert frame.schema.simpleString() == (
        "struct<n:bigint,d:decimal(9,2),t:timestamp,m:map<string,int>,s:struct<x:int>,b:binary>"
    )


@pytest.mark.parametrize("stores", Stores)
def test_a_restart_goes_on_from_the_checkpoint(tmp_path: Path, stores: Stores) -> None:
    events, found = ScriptedStream(EVENTS), Collected()
    events.add(("a", 1, 0.0), ("b", 2, 0.0))
    options = ["--streaming", "--available_now", f"--checkpoint={tmp_path / 'checkpoint'}"]
    if stores is Stores.LMDB:
        options.append(f"--state_dir={tmp_path / 'copies'}")
    for shards in (1, 3, 2):
        result = counted(pipeline(*options, f"--shards={shards}", stores=stores), events, found)
        assert result.wait_until_finish() == "DONE"
        events.add(("a", 3, 0.0))
    assert found.rows == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert any((tmp_path / "copies").rglob("data.mdb")) == (stores is Stores.LMDB)


def test_what_ends_with_its_run_leaves_nothing_in_memory() -> None:
    before = set(memory_files._folders), set(memory_copies._copies)
    events = ScriptedStream(EVENTS).add(("a", 1, 0.0))
    counted(pipeline("--streaming", "--available_now"), events, Collected()).wait_until_finish()
    assert (set(memory_files._folders), set(memory_copies._copies)) == before


def test_a_failure_that_a_newer_driver_has_caused_is_told_as_such(tmp_path: Path) -> None:
    """It takes folders away in which the older one writes; Spark would tell of a missing file."""
    checkpoint = tmp_path / "checkpoint"

    def overtaken(_frame: Any, _epoch: int) -> None:
        claimed(Files(str(checkpoint)), now=0)
        msg = "File out/_temporary/0 does not exist"
        raise FileNotFoundError(msg)

    p = pipeline("--streaming", "--available_now", f"--checkpoint={checkpoint}")
    rows = p | beam.Create(["a"]) | WriteToSpark(function=overtaken, schema="key string")
    assert rows is not None
    with pytest.raises(CheckpointError, match="has taken checkpoint .* over") as caught:
        p.run().wait_until_finish()
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_two_runs_on_one_checkpoint_in_memory_are_kept_apart() -> None:
    events, found = ScriptedStream(EVENTS), Collected()
    first = counted(pipeline("--streaming", "--checkpoint=memory://apart"), events, found)
    first.settle()
    second = counted(pipeline("--streaming", "--checkpoint=memory://apart"), events, found)
    with pytest.raises(CheckpointError, match="in use in this process"):
        second.wait_until_finish()
    assert first.drain() == "DRAINED"
    memory_files.forget("apart")


def test_a_batch_whose_epoch_failed_comes_again_as_it_was() -> None:
    """The log says how far it reached, so a batch that came later does not join it."""
    events, found = ScriptedStream("value long", batches_at_once=None), Collected()
    options = ("--streaming", "--available_now", "--checkpoint=memory://again")

    def run(check: Any) -> None:
        p = pipeline(*options)
        _ = (
            p | "Read" >> ReadFromSpark(events)
            | "Check" >> beam.Map(check).with_output_types(int)
            | "Write" >> found.sink("value long")
        )
        started(p).wait_until_finish()

    def refuse(row: Any) -> int:
        msg = "not yet"
        raise ValueError(msg)

    events.add(1).add(2)
    with pytest.raises(ValueError, match="not yet"):
        run(refuse)
    events.add(3)
    run(lambda row: row.value)
    assert [sorted(rows) for rows in found.epochs.values() if rows] == [[(1,), (2,)], [(3,)]]
    memory_files.forget("again")


def test_watermarks_of_a_stream_close_windows_and_late_rows_are_counted() -> None:
    events, found = ScriptedStream(EVENTS), Collected()
    p = pipeline("--streaming")
    _ = (
        p
        | "Read" >> ReadFromSpark(events, timestamp="at", watermark=BoundedOutOfOrderness(2))
        | beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[str, int])
        | beam.WindowInto(window.FixedWindows(10))
        | beam.CombinePerKey(sum)
        | found.sink("key string, total long")
    )
    result = started(p)
    events.add(("a", 1, 3.0)).add(("a", 2, 11.0))
    result.settle()
    assert found.rows == []  # the watermark is at 9
    events.add(("a", 4, 12.5))
    result.settle()
    assert found.rows == [("a", 1)]
    events.add(("a", 100, 1.0))
    result.settle()
    assert result.stream_status.elements_late == 1
    assert result.drain() == "DRAINED"
    assert found.rows == [("a", 1), ("a", 6)]


def test_a_clock_moved_by_hand_fires_what_is_due_and_nothing_else() -> None:
    events, found = ScriptedStream("key string"), Collected()
    p = pipeline("--streaming", clock=ManualClock(start=1_000))
    _ = (
        p
        | "Read" >> ReadFromSpark(events)
        | beam.Map(lambda row: (row.key, 1)).with_output_types(tuple[str, int])
        | beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterProcessingTime(60)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | beam.CombinePerKey(sum)
        | found.sink("key string, count long")
    )
    result = started(p)
    events.add("a", "a")
    result.advance(59)
    assert found.rows == []
    result.advance(1)
    assert found.rows == [("a", 2)]
    result.cancel()
    assert result.state == "CANCELLED"


def test_only_a_clock_of_the_tests_own_can_be_moved() -> None:
    result = counted(pipeline("--streaming"), ScriptedStream(EVENTS), Collected())
    with pytest.raises(ResultError, match="LocalRunner"):
        result.advance(1)
    result.cancel()


def test_what_settles_raises_what_the_run_raised() -> None:
    events = ScriptedStream("value long")
    p = pipeline("--streaming")
    _ = p | "Read" >> ReadFromSpark(events) | "Divide" >> beam.Map(lambda row: 1 // row.value)
    result = started(p)
    events.add(0)
    with pytest.raises(ZeroDivisionError, match="while running 'Divide'"):
        for _ in range(50):
            result.settle()


def test_files_of_a_sink_are_written_epoch_by_epoch(tmp_path: Path) -> None:
    p = pipeline()
    _ = (
        p
        | TestStream().add_elements([1, 2]).add_elements([3]).advance_watermark_to_infinity()
        | WriteToSpark(str(tmp_path / "out"), schema="value long")
    )
    p.run().wait_until_finish()
    assert sorted(pq.read_table(tmp_path / "out")["value"].to_pylist()) == [1, 2, 3]
    assert len(list((tmp_path / "out").glob("epoch=*"))) == 2


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_batch_writes_files(tmp_path: Path, kind: str) -> None:
    p = pipeline()
    _ = p | beam.Create([("a", 1)]) | WriteToSpark(
        str(tmp_path / "out"), format=kind, schema="key string, value long"
    )
    p.run().wait_until_finish()
    (file,) = (tmp_path / "out").iterdir()
    if kind == "parquet":
        assert pq.read_table(file).to_pylist() == [{"key": "a", "value": 1}]
    else:
        right = {"json": '{"key": "a", "value": 1}\n', "csv": '"a",1\n'}
        assert file.read_text() == right[kind]


@pytest.mark.parametrize(
    "more",
    [{"table": "t"}, {"path": "out", "partition_by": ["key"]}, {"path": "o", "format": "orc"}],
)
def test_what_needs_spark_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    p = pipeline()
    _ = p | beam.Create([("a", 1)]) | WriteToSpark(schema="key string, value long", **more)
    with pytest.raises(UnsupportedTransformError, match="needs Spark"):
        p.run().wait_until_finish()


def test_a_frame_of_another_kind_is_refused_by_its_name() -> None:
    class Foreign(LocalSession):
        columns: tuple[str, ...] = ("value",)
        isStreaming = False
        schema = LocalSession().createDataFrame([], "value long").schema

    p = pipeline()
    _ = p | ReadFromSpark(Foreign())
    with pytest.raises(SessionError, match="Foreign .* cannot be read without Spark"):
        p.run().wait_until_finish()


def test_what_user_code_logs_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def warn(x: int) -> int:
        logging.getLogger("user").warning("seen %s", x)
        return x

    with pipeline() as p:
        _ = p | beam.Create([7]) | beam.Map(warn)
    assert [record.getMessage() for record in caplog.records if record.name == "user"] == ["seen 7"]


def test_side_inputs_arrive_before_the_elements_that_look_at_them() -> None:
    with pipeline("--shards=3") as p:
        side = beam.pvalue.AsList(p | "Side" >> beam.Create([1, 2]))
        main = p | beam.Create([10, 20, 30]) | beam.Map(lambda x, s: x + sum(s), side)
        assert_that(main, equal_to([13, 23, 33]))


def test_a_row_for_a_shard_that_is_not_there_is_refused() -> None:
    row = SuperTuple(2, Rank.DATA, 4, PayloadKind.ROWS, 0, 1, b"")
    with pytest.raises(TransportError, match="channel 4 sent a row to shard 2; there are 2"):
        dealt([to_batch([row])], 2)


def test_rows_of_lower_ranks_come_first_and_stay_in_their_order() -> None:
    rows = [
        SuperTuple(0, rank, 0, PayloadKind.ROWS, number, 1, b"")
        for number, rank in enumerate([Rank.DATA, Rank.SIDE_INPUT, Rank.DATA, Rank.PULSE])
    ]
    boxes = dealt([to_batch(rows[:2]), to_batch(rows[2:])], 1, by=("rank",))
    assert [n for batch in boxes[0] for n in batch.column("seq").to_pylist()] == [1, 3, 0, 2]
