"""What a streaming pipeline's sinks do with the rows of an epoch, also when it is done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from headrace.errors import CheckpointError, OptionError, UnsupportedTransformError
from headrace.io import WriteToSpark
from headrace.io.claims import Claim
from headrace.io.dataframes import DataFrameHandle, ToDataFrame
from headrace.io.sinks import Delivery
from headrace.io.storage import HadoopStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

ME = "run-1/out"


def told(epoch: int, writer: str = ME, incarnation: int = 1, **more: Any) -> Delivery:
    """What a sink is told of an epoch; `fresh` unless it says otherwise, for epoch 0."""
    claim = Claim(writer=writer, incarnation=incarnation, token="t")
    return Delivery(epoch=epoch, claim=claim, **{"fresh": epoch == 0, **more})


def rows(spark: Any, *numbers: int) -> Any:
    some = spark.range(0, 100, 1, 1).selectExpr("CAST(id AS int) AS n")
    return some.where(some.n.isin(*numbers))


def stored(spark: Any, path: Path) -> list[tuple[Any, ...]]:
    """What a reader of the path sees: the rows, each with its epoch."""
    return sorted(tuple(row) for row in spark.read.parquet(str(path)).collect())


def folders(path: Path) -> list[str]:
    """The folders of epochs that have any rows."""
    return sorted({file.parent.name for file in path.glob("epoch=*/*.parquet")})


def test_every_epoch_has_its_folder_and_readers_see_its_number(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = WriteToSpark(str(path))
    sink.deliver_epoch(rows(spark, 1, 2), told(0))
    sink.deliver_epoch(rows(spark, 3), told(42))
    assert folders(path) == ["epoch=00000000", "epoch=00000042"]
    assert stored(spark, path) == [(1, 0), (2, 0), (3, 42)]


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
@pytest.mark.parametrize("restarted", [False, True])
def test_an_epoch_delivered_twice_is_there_once(
    spark: Any, tmp_path: Path, mode: str, restarted: bool
) -> None:
    path = tmp_path / "out"
    sink = WriteToSpark(str(path), mode=mode)
    for epoch, numbers in enumerate([(1, 2), (3,)]):
        # The first attempt got further than the second: nothing of it may stay.
        sink.deliver_epoch(rows(spark, *numbers, 99), told(epoch))
        if restarted:
            sink = WriteToSpark(str(path), mode=mode)
        sink.deliver_epoch(rows(spark, *numbers), told(epoch))
    assert stored(spark, path) == [(1, 0), (2, 0), (3, 1)]


def test_an_epoch_without_rows_writes_nothing_and_takes_back_an_earlier_attempt(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    sink = WriteToSpark(str(path))
    sink.deliver_epoch(rows(spark), told(0))
    sink.deliver_epoch(rows(spark, 7), told(1))
    sink.deliver_epoch(rows(spark, 8), told(2))
    assert not (path / "epoch=00000000").exists()
    sink.deliver_epoch(rows(spark), told(2))
    assert folders(path) == ["epoch=00000001"]
    assert stored(spark, path) == [(7, 1)]


def test_a_sink_that_is_told_there_are_no_rows_does_not_ask_spark(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    failing = spark.range(1).selectExpr("assert_true(false) AS n")
    WriteToSpark(str(path)).deliver_epoch(failing, told(0, empty=True))
    assert folders(path) == []


def test_a_new_run_heeds_the_mode_and_a_restarted_one_does_not(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "out"
    WriteToSpark(str(path)).deliver_epoch(rows(spark, 1), told(0))
    with pytest.raises(OptionError, match=f"already something at {path}; write elsewhere, or give"):
        WriteToSpark(str(path)).deliver_epoch(rows(spark, 2), told(0, "run-2/out"))
    WriteToSpark(str(path)).deliver_epoch(rows(spark, 3), told(1))
    assert stored(spark, path) == [(1, 0), (3, 1)]
    sink = WriteToSpark(str(path), mode="overwrite")
    sink.deliver_epoch(rows(spark, 4), told(0, "run-3/out"))
    assert stored(spark, path) == [(4, 0)]


def test_a_run_that_ended_before_it_wrote_its_note_begins_again(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "out"
    (path / "_headrace").mkdir(parents=True)
    WriteToSpark(str(path)).deliver_epoch(rows(spark, 1), told(0, "run"))
    assert stored(spark, path) == [(1, 0)]


def test_hadoop_s_file_systems_serve_as_this_machine_s_disk_does(
    spark: Any, tmp_path: Path
) -> None:
    """The storage of clusters, tried on the one scheme that is at hand everywhere."""
    storage = HadoopStorage(spark, f"file://{tmp_path}")
    path = f"file://{tmp_path}/a"
    assert storage.atomic_moves and not storage.exists(path) and storage.names(path) == []
    storage.make_folder(f"{path}/b")
    storage.write(f"{path}/b/note", b"one")
    storage.write(f"{path}/b/note", b"two")
    assert storage.read(f"{path}/b/note") == b"two"
    assert storage.is_folder(f"{path}/b") and not storage.is_folder(f"{path}/b/note")
    storage.move(f"{path}/b", f"{path}/c")
    assert storage.names(path) == ["c"]
    with pytest.raises(FileNotFoundError):
        storage.move(f"{path}/b", f"{path}/d")
    storage.make_folder(f"{path}/e")
    with pytest.raises(FileExistsError):
        storage.move(f"{path}/c", f"{path}/e")
    storage.remove(path)
    assert not storage.exists(path)
    with pytest.raises(FileNotFoundError):
        storage.read(f"{path}/b/note")


def test_an_older_driver_is_refused_where_spark_writes_the_epochs(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    old = WriteToSpark(str(path), partition_by=["s"])
    wide = spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s)").coalesce(1)
    old.deliver_epoch(wide, told(0))
    new = WriteToSpark(str(path), partition_by=["s"])
    new.deliver_epoch(wide, told(1, incarnation=2))
    with pytest.raises(CheckpointError, match=f"may not write to {path} any more: start 2 of"):
        old.deliver_epoch(wide.where("n = 1"), told(1))
    found = spark.read.parquet(str(path)).select("n", "epoch").collect()
    assert sorted(map(tuple, found)) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_overwrite_clears_the_path_also_where_the_session_keeps_partitions(
    spark: Any, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    path = tmp_path / "out"
    wide = session.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s)").coalesce(1)
    wide.write.partitionBy("n").parquet(str(path / "old"))
    sink = WriteToSpark(str(path), mode="overwrite", partition_by=["n"])
    sink.deliver_epoch(wide, told(0))
    assert not (path / "old").exists()
    sink.deliver_epoch(wide.where("n = 1"), told(0))
    found = session.read.parquet(str(path)).select("s", "n", "epoch").collect()
    assert [tuple(row) for row in found] == [("a", 1, 0)]


def test_a_new_run_that_appends_goes_on_counting_where_the_old_one_ended(
    spark: Any, tmp_path: Path
) -> None:
    """Its epoch 0 must not replace the old run's, and must know its folder after a restart."""
    path = tmp_path / "epoch=7" / "out"
    old = WriteToSpark(str(path))
    for epoch in range(3):
        old.deliver_epoch(rows(spark, epoch), told(epoch))
    for _ in range(2):
        new = WriteToSpark(str(path), mode="append")
        new.deliver_epoch(rows(spark, 10), told(0, "run-2/out"))
    WriteToSpark(str(path), mode="append").deliver_epoch(rows(spark, 11), told(1, "run-2/out"))
    found = spark.read.option("basePath", str(path)).parquet(str(path)).collect()
    assert sorted(map(tuple, found)) == [(0, 0), (1, 1), (2, 2), (10, 3), (11, 4)]


def test_other_file_formats_keep_their_options(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = WriteToSpark(str(path), format="csv", options={"header": "true"})
    sink.deliver_epoch(rows(spark, 5), told(3, fresh=True))
    (file,) = (path / "epoch=00000003").glob("*.csv")
    assert file.read_text() == "n\n5\n"


def test_a_column_that_the_epoch_would_hide_is_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 1 AS epoch")
    with pytest.raises(OptionError, match="so the rows may not have one; rename it"):
        WriteToSpark(str(tmp_path / "out")).deliver_epoch(frame, told(0))


def test_a_function_gets_the_number_of_the_epoch_if_it_asks_for_it(spark: Any) -> None:
    seen: list[Any] = []
    kept = "kept"
    def with_all(frame: Any, writer: str, epoch: int, incarnation: int) -> None:
        seen.append((frame.count(), writer, epoch, incarnation))

    functions: list[Any] = [
        with_all,
        lambda frame: seen.append(frame.count()),
        lambda frame, number: seen.append((frame.count(), number)),
        lambda frame, *, epoch: seen.append((frame.count(), epoch)),
        lambda frame, kept=kept, epoch=-1: seen.append((frame.count(), kept, epoch)),
        lambda frame, kept=kept: seen.append((frame.count(), kept)),
        lambda *frames: seen.append(len(frames)),
    ]
    for function in functions:
        WriteToSpark(function=function).deliver_epoch(rows(spark, 1, 2), told(6))
    assert seen == [(2, ME, 6, 1), 2, (2, 6), (2, 6), (2, "kept", 6), (2, "kept"), 1]


def test_a_function_is_also_called_for_an_epoch_without_rows(spark: Any) -> None:
    seen: list[Any] = []
    sink = WriteToSpark(function=lambda frame, epoch: seen.append((epoch, frame.columns)))
    sink.deliver_epoch(rows(spark), told(3, empty=True))
    assert seen == [(3, ["n"])]


class Recorder:
    """Stands for a DataFrame and its writer, and notes what Spark would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.write = self

    def isEmpty(self) -> bool:
        return False

    def mode(self, name: str) -> Recorder:
        self.told.append(name)
        return self

    def options(self, **options: str) -> Recorder:
        self.told.append(options)
        return self

    def format(self, name: str) -> Recorder:
        self.told.append(name)
        return self

    def save(self, path: str) -> None:
        self.told.append(path)

    def saveAsTable(self, name: str) -> None:
        self.told.append(name)


def test_other_formats_are_appended_to_with_the_numbers_of_a_transaction() -> None:
    numbers = {"txnAppId": ME, "txnVersion": "5"}
    delta = Recorder()
    WriteToSpark("p", format="delta").deliver_epoch(delta, told(5))
    assert delta.told == ["append", numbers, "delta", "p"]
    table = Recorder()
    sink = WriteToSpark(table="t", mode="overwrite", options={"txnAppId": "mine", "x": "y"})
    sink.deliver_epoch(table, told(5, fresh=True))
    assert table.told == ["overwrite", {"txnAppId": "mine", "txnVersion": "5", "x": "y"}, "t"]
    database = Recorder()
    WriteToSpark(table="t", format="jdbc").deliver_epoch(database, told(5))
    assert database.told == ["append", {}, "jdbc", "t"]


def test_a_table_is_made_by_the_first_epoch_and_appended_to_by_the_others(
    spark: Any, tmp_path: Path
) -> None:
    sink = WriteToSpark(table="epochs_test", options={"path": str(tmp_path / "t")})
    try:
        for _ in range(2):  # the first epoch, done twice by the same driver
            sink.deliver_epoch(rows(spark, 1), told(0))
        sink.deliver_epoch(rows(spark, 2), told(1))
        sink.deliver_epoch(rows(spark), told(2))
        assert sorted(map(tuple, spark.table("epochs_test").collect())) == [(1,), (2,)]
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            WriteToSpark(table="epochs_test").deliver_epoch(rows(spark, 3), told(0, "run-2/out"))
    finally:
        spark.sql("DROP TABLE IF EXISTS epochs_test")


def test_a_handle_takes_no_epochs(spark: Any) -> None:
    sink = ToDataFrame(DataFrameHandle("h"), "n int")
    with pytest.raises(UnsupportedTransformError, match="is never whole"):
        sink.deliver_epoch(rows(spark, 1), told(0))
