"""The loop that asks sources itself: its log, its gaps, and the lists of a stream of files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.checkpoint.spark_log import problems, recorded
from headrace.engine.sources.file_lists import COMPACT_STEPS, Entry, FileLists, decoded, encoded
from headrace.engine.sources.file_source import FileSource
from headrace.engine.sources.kafka_source import KafkaSource
from headrace.engine.sources.own_feeds import KEPT_BATCHES, OwnFeeds, OwnQuery
from headrace.engine.sources.python_source import source_class
from headrace.engine.sources.queries import ENDING, EndingError
from headrace.engine.sources.stream_plans import StreamRead
from headrace.errors import CheckpointError, OptionError, UnsupportedTransformError
from headrace.state.files import Files

WEEK = 7 * 86_400_000


class Numbers:
    """A source of numbers; a position is how many were read, a batch is a list of them."""

    look_seconds = 0.0

    def __init__(self, there: int) -> None:
        self.there = there
        self.counted_to = 0

    def first(self) -> int:
        return 0

    def advanced(self, start: int) -> int:
        return min(start + 2, self.there)

    def fix(self) -> None:
        pass

    def rows(self, start: int, end: int) -> list[int]:
        return list(range(start, end))

    def promised(self, start: int, end: int) -> int:
        return end - start

    def counted(self, end: int) -> None:
        self.counted_to = end

    def close(self) -> None:
        pass


class Died(BaseException):
    """The driver ends here."""


def query(files: Files, source: Any, arrived: Any, **more: Any) -> OwnQuery:
    return OwnQuery("Read", source, files, "spark/0", arrived, **more)


@pytest.mark.parametrize("after", [False, True], ids=["before it counts", "after it counts"])
def test_a_batch_without_a_commit_comes_again_with_the_same_rows(
    tmp_path: Path, after: bool
) -> None:
    files, came = Files(str(tmp_path)), []

    def dying(name: str, rows: Any, batch: int) -> None:
        if batch == 1:
            if after:
                came.append((batch, rows()))
            raise Died
        came.append((batch, rows()))

    first = query(files, Numbers(4), dying)
    assert first.bring()
    with pytest.raises(Died):
        first.bring()
    # More has come in the meantime: the batch stays what its offsets say.
    second = query(files, Numbers(9), lambda _, rows, batch: came.append((batch, rows())))
    while second.bring():
        pass
    again = [(1, [2, 3])] if after else []
    assert came == [(0, [0, 1]), *again, (1, [2, 3]), (2, [4, 5]), (3, [6, 7]), (4, [8])]


def test_a_run_of_what_is_there_ends_by_itself(tmp_path: Path) -> None:
    came: list[Any] = []
    source = Numbers(3)
    feeds = OwnFeeds(lambda *_: source, available_now=True)
    files = Files(str(tmp_path))
    feeds.listen("Read", None, files, "spark/0", lambda _, rows, __: came.extend(rows()))
    while feeds.is_listening("Read"):
        assert feeds.bring()
    assert came == [0, 1, 2] and source.counted_to == 3


def test_a_batch_that_the_run_sends_back_ends_its_query_and_stays_in_the_log(
    tmp_path: Path,
) -> None:
    files = Files(str(tmp_path))

    def back(*_: Any) -> None:
        raise EndingError(ENDING)

    feeds = OwnFeeds(lambda *_: Numbers(2))
    feeds.listen("Read", None, files, "spark/0", back)
    assert feeds.bring()
    assert not feeds.is_listening("Read")
    assert files.names("spark/0/offsets") == ["spark/0/offsets/0"]
    assert files.names("spark/0/commits") == []


def test_two_drivers_on_one_log_are_noticed(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    one, other = (query(files, Numbers(4), lambda *_: None) for _ in range(2))
    assert one.bring()
    with pytest.raises(CheckpointError, match="two drivers use this log"):
        other.bring()


def test_a_long_log_forgets_its_beginning(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    kept = query(files, Numbers(400), lambda *_: None)
    while kept.bring():
        pass
    numbers = sorted(int(name.rpartition("/")[2]) for name in files.names("spark/0/offsets"))
    assert numbers[-1] == 199 and KEPT_BATCHES <= len(numbers) <= KEPT_BATCHES + 20


def test_what_guards_a_manifest_against_sparks_log_reads_this_one(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    kept = query(files, Numbers(6), lambda *_: None)
    assert kept.bring() and kept.bring()
    record = recorded(files, "spark/0", 1, None)
    assert problems(files, record) == []
    (tmp_path / "spark" / "0" / "offsets" / "1").write_text("v1\n{}\n6")
    (problem,) = problems(files, record)
    assert "is not the file that the manifest counts" in problem


def test_a_batch_that_counts_already_is_not_read_again(tmp_path: Path) -> None:
    """Whoever removes what was read cannot know that its commit was not noted."""

    class Gone(Numbers):
        def rows(self, start: int, end: int) -> list[int]:
            raise FileNotFoundError

        def promised(self, start: int, end: int) -> int:
            raise FileNotFoundError

    feeds = OwnFeeds()
    feeds.ask("Read", Gone(4), Files(str(tmp_path)), "spark/0", lambda *_: None)
    assert feeds.bring()
    assert (tmp_path / "spark" / "0" / "commits" / "0").exists()


def test_a_file_is_listed_once_and_every_tenth_list_is_whole(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    lists = FileLists(files, "lists", WEEK)
    for step in range(2 * COMPACT_STEPS + 3):
        assert lists.add([Entry(step, f"file:///data/{step} %.json")]) == step
    again = FileLists(files, "lists", WEEK)
    assert again.step == 22
    assert not any(again.is_new(Entry(s, f"file:///data/{s} %.json")) for s in range(23))
    assert again.is_new(Entry(3, "file:///data/late.json"))
    assert [e.path for e in again.between(18, 20)] == [
        "file:///data/19 %.json", "file:///data/20 %.json"
    ]  # fmt: skip
    names = [Path(name).name for name in files.names("lists")]
    assert sorted(names) == ["10", "11", "12", "13", "14", "15", "16", "17", "18",
                             "19.compact", "20", "21", "22", "9.compact"]  # fmt: skip


def test_files_older_than_the_newest_by_a_week_are_passed_over(tmp_path: Path) -> None:
    lists = FileLists(Files(str(tmp_path)), "lists", WEEK)
    lists.add([Entry(0, "file:///old"), Entry(WEEK + 1, "file:///new")])
    assert not lists.is_new(Entry(0, "file:///old"))
    assert lists.is_new(Entry(1, "file:///other"))


@pytest.mark.parametrize("step", range(COMPACT_STEPS))
def test_a_step_has_all_its_files_however_far_apart_they_are_in_age(
    tmp_path: Path, step: int
) -> None:
    """A backlog of daily files, many at once: the oldest is more than a week before the newest."""
    files = Files(str(tmp_path))
    lists = FileLists(files, "lists", WEEK)
    for before in range(step):
        lists.add([Entry(before, f"file:///before/{before}")])
    backlog = [Entry(100 + WEEK * day // 4, f"file:///day/{day}") for day in range(9)]
    assert all(map(lists.is_new, backlog))
    lists.add(backlog)
    for each in (lists, FileLists(files, "lists", WEEK)):
        assert [e.path for e in each.between(step - 1, step)] == [e.path for e in backlog]


def test_a_list_of_spark_is_read_as_one_of_ours(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    line = {"path": "file:///data/a%20b.json", "timestamp": 5, "batchId": 0}
    files.create("lists/0", f"v1\n{json.dumps(line)}".encode())
    lists = FileLists(files, "lists", WEEK)
    assert lists.between(-1, 0) == [Entry(5, "file:///data/a b.json", 0)]
    assert decoded(encoded("file:/data/ü [1]%.json")) == "file:///data/ü [1]%.json"


class FakePlan:
    """The plan of a stream of files, as far as a source asks it."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.read = StreamRead(
            format="json", schema="n long", plan_id=0, paths=(str(folder),),
            options={name.lower(): value for name, value in options.items()},
        )

    def leaf_schema(self) -> str:
        return "n long"


def source_of(folder: Path, files: Files, **options: str) -> FileSource:
    target: Any = SimpleNamespace(session=None, door=SimpleNamespace(shares_disk=True))
    plan: Any = FakePlan(folder, **options)
    return FileSource("Read", plan, target, files, "spark/0")


def test_new_files_come_oldest_first_and_so_many_at_once(tmp_path: Path) -> None:
    folder, files = tmp_path / "in", Files(str(tmp_path / "checkpoint"))
    (folder / "day=1").mkdir(parents=True)
    (folder / "other").mkdir()
    for age, name in enumerate(["c", "a", "day=1/b", "_hidden", ".hidden", "other/d"]):
        (folder / name).write_text("{}")
        os.utime(folder / name, (1000 + age, 1000 + age))
    source = source_of(folder, files, maxFilesPerTrigger="2")
    end = source.advanced(source.first())
    paths = [Path(e.path).name for e in source._lists.between(-1, end["logOffset"])]
    assert paths == ["c", "a"]
    end = source.advanced(end)
    assert [Path(e.path).name for e in source._lists.between(0, 1)] == ["b"]
    assert source.advanced(end) == end


def test_a_file_that_goes_while_a_folder_is_listed_hides_no_other(tmp_path: Path) -> None:
    """Links whose files are gone stand for files that went after their names were read."""
    folder, files = tmp_path / "in", Files(str(tmp_path / "checkpoint"))
    (folder / "day=1").mkdir(parents=True)
    names = [f"{each:02d}" for each in range(40)]
    for place, name in enumerate(names):
        (folder / name).write_text("{}")
        os.utime(folder / name, (1000 + place, 1000 + place))
        (folder / f"gone{name}").symlink_to(folder / "nowhere")
        (folder / "day=1" / f"gone{name}").symlink_to(folder / "nowhere")
    source = source_of(folder, files)
    source.fix()  # what is there now is all that this run reads
    end = source.advanced(source.first())
    listed = source._lists.between(-1, end["logOffset"])
    assert [Path(e.path).name for e in listed] == names


@pytest.mark.parametrize("spelled", ["in", "in//", "/in", "./in", "other/../in"])
def test_a_file_has_one_name_however_its_folder_is_spelled(tmp_path: Path, spelled: str) -> None:
    """The name that Hadoop's Path gives it, and Spark keeps."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("{}")
    plan: Any = FakePlan(tmp_path)
    plan.read = replace(plan.read, paths=(f"file:{tmp_path}/{spelled}",))
    target: Any = SimpleNamespace(session=None, door=SimpleNamespace(shares_disk=True))
    (found,) = FileSource("Read", plan, target, Files(str(tmp_path / "c")), "spark/0")._found()
    assert found.path == f"file://{tmp_path}/in/a"


def test_a_list_without_a_batch_is_the_next_batch(tmp_path: Path) -> None:
    folder, files = tmp_path / "in", Files(str(tmp_path / "checkpoint"))
    folder.mkdir()
    (folder / "a").write_text("{}")
    before = source_of(folder, files)
    listed = before.advanced(before.first())  # and the driver ends: no offsets name the list
    (folder / "b").write_text("{}")
    after = source_of(folder, files)
    assert after.advanced(after.first()) == listed
    assert [Path(e.path).name for e in after._lists.between(-1, 0)] == ["a"]
    assert after.advanced(listed) == {"logOffset": 1}


def test_what_a_stream_of_files_cannot_do_is_refused_by_name(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    with pytest.raises(UnsupportedTransformError, match="Read: cleanSource=delete"):
        source_of(tmp_path, files, cleanSource="delete")
    with pytest.raises(OptionError, match="maxFileAge='soon'"):
        source_of(tmp_path, files, maxFileAge="soon")
    missing = source_of(tmp_path / "nowhere", files)
    with pytest.raises(OptionError, match="there is no folder .*nowhere"):
        missing.advanced(missing.first())


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
@pytest.mark.parametrize("given", ["-1", "0", "many", "1.5"])
def test_a_bound_of_a_batch_that_spark_refuses_is_refused(
    tmp_path: Path, option: str, given: str
) -> None:
    """With -1 files at once, the newest of them would wait for another one to come."""
    with pytest.raises(OptionError, match=f"Read: {option}='{given}' is no"):
        source_of(tmp_path, Files(str(tmp_path)), **{option: given})


def test_a_python_data_source_is_found_by_the_name_of_its_format() -> None:
    from pyspark.sql.datasource import DataSource

    class Gauges(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "Gauges"

    assert source_class("gauges") is Gauges
    assert source_class("no such format") is None


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 5, "1": 7}}, 0),
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 15, "1": 8}}, 11),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, None),  # where a new partition begins is unknown
        ({"t": {"0": 5}}, {"t": {"0": 2}}, None),  # the topic was made anew
    ],
)
def test_offsets_of_kafka_promise_as_many_rows_as_lie_between(
    start: Any, end: Any, rows: int | None
) -> None:
    source = object.__new__(KafkaSource)  # it asks no broker for this
    assert source.promised(start, end) == rows


@pytest.mark.parametrize(("available_now", "brought"), [(True, 3), (False, 1)])
def test_what_is_there_is_read_without_a_pause_between_batches(
    tmp_path: Path, available_now: bool, brought: int
) -> None:
    """As by Spark's `availableNow`, which takes no interval."""
    came: list[Any] = []
    feeds = OwnFeeds(available_now=available_now, trigger_seconds=3_600.0)
    feeds.ask("one", Numbers(6), Files(str(tmp_path)), "spark/0", lambda *batch: came.append(batch))
    while feeds.bring():
        pass
    assert len(came) == brought
    assert feeds.is_listening("one") != available_now


@pytest.mark.parametrize(("available_now", "last"), [(True, [1]), (False, [])])
def test_the_last_batch_of_what_was_there_is_known(
    tmp_path: Path, available_now: bool, last: list[int]
) -> None:
    """Four numbers are two batches; of two sources, it is the last one of both."""
    found: list[tuple[str, int]] = []

    def arrived(name: str, rows: Any, batch: int) -> None:
        del rows
        if feeds.is_last(name):
            found.append((name, batch))

    feeds = OwnFeeds(available_now=available_now)
    feeds.ask("one", Numbers(4), Files(str(tmp_path)), "spark/0", arrived)
    while feeds.bring():
        pass
    assert found == [("one", batch) for batch in last]
    found.clear()
    feeds.ask("two", Numbers(4), Files(str(tmp_path)), "spark/1", arrived)
    feeds.ask("three", Numbers(6), Files(str(tmp_path)), "spark/2", arrived)
    while feeds.bring():
        pass
    assert found == ([("three", 2)] if available_now else [])
