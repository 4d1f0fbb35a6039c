"""Streams of a classic session that our own loop reads: the rows, the log, and who goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import FixedWindows
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.engine import layouts
from headrace.engine.layouts import FEW_ELEMENTS
from headrace.engine.sources.own_feeds import OwnQuery
from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from headrace.state.crash_points import Point, observed
from tests.places import session_of
from tests.streaming.harness import Gathered, checkpointed, finished, started, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

WORDS = "number bigint, at timestamp"
NUMBERS = "number bigint"
WHO = ("headrace", "spark")
Inbox = Callable[..., None]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    """Put numbers into one more file of a folder; each is its own event time, in seconds."""
    folder = tmp_path / "in"
    folder.mkdir()
    count = iter(range(1_000))

    def put(*numbers: int, unit: str = "us", compression: str = "snappy") -> None:
        at = next(count)
        moments = pa.array([n * 10**6 for n in numbers], pa.timestamp("us", tz="UTC"))
        table = pa.table({
            "number": pa.array(numbers, pa.int64()),
            "at": moments.cast(pa.timestamp(unit, tz="UTC")),
        })
        made = tmp_path / f"{at:05d}.parquet"
        pq.write_table(table, made, compression=compression)
        os.utime(made, (1_000 + at, 1_000 + at))
        made.rename(folder / made.name)

    return put


def frame_of(folder: Path, files: int = 1, **options: str) -> Any:
    reader = session_of().readStream.schema(WORDS).option("maxFilesPerTrigger", files)
    spelled = f"{folder.parent}//./{folder.name}"  # whoever lists it, a file has one name
    return reader.options(**options).parquet(spelled)


def run(tmp_path: Path, who: str, gathered: Gathered, *options: str) -> StreamResult:
    """Read all that is there now."""
    pipeline = checkpointed(tmp_path, "--available_now", f"--who_asks={who}", *options)
    frame = frame_of(tmp_path / "in").selectExpr("number AS n", "at")
    rows = pipeline | ReadFromSpark(frame, timestamp="at", columns=["n"])
    rows | beam.Map(lambda row: (row.n,)).with_output_types(tuple[int]) | gathered.sink(NUMBERS)
    return finished(pipeline)


def is_own(result: StreamResult) -> bool:
    return all(isinstance(query, OwnQuery) for query in result.queries.values())


def test_a_checkpoint_changes_hands_between_spark_and_our_loop(
    tmp_path: Path, inbox: Inbox
) -> None:
    gathered, there = Gathered(), 0
    for turn in range(7):
        who = WHO[turn % 2]
        for _ in range(5):  # so that whole lists of files are written by both
            inbox(there, there + 1)
            there += 2
        result = run(tmp_path, who, gathered)
        assert is_own(result) == (who == "headrace")
        assert gathered.rows == [(n,) for n in range(there)]
    assert len([rows for rows in gathered.epochs.values() if rows]) == 35


class EndedError(BaseException):
    """The driver ends here."""


@pytest.mark.parametrize("next_one", WHO)
@pytest.mark.parametrize(
    "gap", [Point.BEFORE_TASKS, Point.BEFORE_SINKS, Point.AFTER_SINKS, Point.AFTER_MANIFEST]
)
def test_a_driver_that_ends_in_a_gap_is_followed_by_either(
    tmp_path: Path, inbox: Inbox, gap: Point, next_one: str
) -> None:
    for n in range(4):
        inbox(2 * n, 2 * n + 1)
    gathered = Gathered()

    def end(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (gap, 2):
            raise EndedError

    with observed(end), pytest.raises(EndedError):
        run(tmp_path, "headrace", gathered)
    inbox(8)
    run(tmp_path, next_one, gathered)
    assert gathered.rows == [(n,) for n in range(9)]


@pytest.mark.parametrize("who", WHO)
def test_a_file_that_counts_may_go_though_its_commit_was_not_noted(
    tmp_path: Path, inbox: Inbox, who: str
) -> None:
    inbox(0, 1)
    inbox(2, 3)
    gathered = Gathered()

    def end(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (Point.AFTER_MANIFEST, 2):
            raise EndedError

    with observed(end), pytest.raises(EndedError):
        run(tmp_path, who, gathered)
    for read in (tmp_path / "in").iterdir():
        read.unlink()
    inbox(4)
    run(tmp_path, who, gathered)
    assert gathered.rows == [(n,) for n in range(5)]


def test_small_batches_are_one_task_and_large_ones_are_not(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "SMALL_SECONDS", 60.0)  # on a busy machine they take long
    sizes = [3] * 12 + [FEW_ELEMENTS + 1] + [3] * 3
    at = 0
    for size in sizes:
        inbox(*range(at, at + size))
        at += size
    pipeline = checkpointed(tmp_path, "--available_now", "--who_asks=headrace")
    gathered = Gathered()
    (
        pipeline
        | ReadFromSpark(frame_of(tmp_path / "in"), timestamp="at")
        | beam.WindowInto(FixedWindows(100))
        | beam.Map(lambda row: (row.number % 3, 1)).with_output_types(tuple[int, int])
        | beam.CombinePerKey(sum)
        | gathered.sink("key bigint, count bigint")
    )
    found = finished(pipeline).stream_status.layouts
    # The first of its kind has stages, and so has the large one.
    assert found.one_task >= len(sizes) - 2
    assert found.stages >= 2
    over = (at - 1) // 100  # windows before the newest row's, which waits for the next start
    assert len(gathered.rows) == 3 * over
    assert sum(count for _, count in gathered.rows) == 100 * over


def test_a_file_that_workers_cannot_read_is_read_by_spark(tmp_path: Path, inbox: Inbox) -> None:
    gathered = Gathered()
    inbox(0, 1)
    inbox(2, 3, unit="ms")  # Spark has these times in a unit of its own
    inbox(4)
    assert is_own(run(tmp_path, "headrace", gathered))
    assert gathered.rows == [(n,) for n in range(5)]


def test_files_that_come_while_it_runs_are_read_at_once(tmp_path: Path, inbox: Inbox) -> None:
    gathered = Gathered()
    inbox(0)
    pipeline = checkpointed(tmp_path, "--who_asks=headrace")
    rows = pipeline | ReadFromSpark(frame_of(tmp_path / "in", files=100), columns=["number"])
    rows | beam.Map(tuple).with_output_types(tuple[int]) | gathered.sink(NUMBERS)
    with started(pipeline) as result:
        for n in range(1, 6):
            until(lambda n=n: len(gathered.rows) == n)  # type: ignore[misc]
            inbox(n)
        until(lambda: len(gathered.rows) == 6)
        assert is_own(result)
    assert gathered.rows == [(n,) for n in range(6)]


def test_what_our_loop_cannot_choose_is_left_to_spark(tmp_path: Path, inbox: Inbox) -> None:
    """A stream of either kind, in one pipeline."""
    inbox(1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").write_text('{"number": 2}\n')
    (tmp_path / "done").mkdir()
    reader = session_of().readStream.schema(NUMBERS)
    frames = {
        "Own": frame_of(tmp_path / "in").select("number"),
        "Json": reader.json(str(tmp_path / "other")),
        "Cleaned": frame_of(
            tmp_path / "in", cleanSource="archive", sourceArchiveDir=str(tmp_path / "done")
        ).select("number"),
    }
    gathered = Gathered()
    pipeline = checkpointed(tmp_path, "--available_now", "--who_asks=headrace")
    parts = tuple(pipeline | name >> ReadFromSpark(frame) for name, frame in frames.items())
    rows = parts | beam.Flatten()
    rows | beam.Map(tuple).with_output_types(tuple[int]) | gathered.sink(NUMBERS)
    queries = finished(pipeline).queries
    assert {name for name, query in queries.items() if isinstance(query, OwnQuery)} == {"Own"}
    assert gathered.rows == [(1,), (1,), (2,)]


def test_without_columns_rows_come_from_spark(tmp_path: Path, inbox: Inbox) -> None:
    gathered = Gathered()
    inbox(0, 1)
    assert not is_own(run(tmp_path, "headrace", gathered, "--columns=off"))
    assert gathered.rows == [(0,), (1,)]


class Reader(DataSourceStreamReader):  # type: ignore[misc]
    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        del limit
        return {"at": min(start["at"] + 4, 20)}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [InputPartition((n, n + 1)) for n in range(start["at"], end["at"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(n,) for n in range(*partition.value)])


class Counter(DataSource):  # type: ignore[misc]
    @classmethod
    def name(cls) -> str:
        return "plain_counter"

    def schema(self) -> str:
        return NUMBERS

    def streamReader(self, schema: StructType) -> Reader:
        del schema
        return Reader()


def test_the_reader_of_a_python_data_source_is_asked_by_our_loop(tmp_path: Path) -> None:
    session = session_of()
    session.dataSource.register(Counter)
    gathered = Gathered()
    pipeline = checkpointed(tmp_path, "--who_asks=headrace")
    rows = pipeline | ReadFromSpark(session.readStream.format("plain_counter").load())
    rows | beam.Map(tuple).with_output_types(tuple[int]) | gathered.sink(NUMBERS)
    with started(pipeline) as result:
        until(lambda: len(gathered.rows) == 20)
        assert is_own(result)
    assert gathered.rows == [(n,) for n in range(20)]
    # Spark's query goes on where ours was: there is nothing left.
    again = checkpointed(tmp_path, "--who_asks=spark")
    rows = again | ReadFromSpark(session.readStream.format("plain_counter").load())
    rows | beam.Map(tuple).with_output_types(tuple[int]) | gathered.sink(NUMBERS)
    with started(again) as result:
        until(lambda: any(q.recentProgress for q in result.queries.values()))
    assert gathered.rows == [(n,) for n in range(20)]
