"""Spark's log of a query, held against the manifest that counts its batches.

The files are made by hand in the layout that Spark writes: offsets and commits by batch, and for a
file source one list of files for each step, every tenth of them whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.engine.checkpoint.manifests import LogRecord
from headrace.engine.checkpoint.spark_log import problems, recorded
from headrace.state.files import Files

FOLDER = "spark/0"


class Log:
    """A query's log on disk, and what a driver records of it."""

    def __init__(self, root: Path) -> None:
        self.root = root / FOLDER
        self.files = Files(str(root))
        self.record: LogRecord | None = None
        for folder in ("offsets", "commits", "sources/0"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "metadata").write_text('{"id":"x"}')

    def plan(self, batch: int) -> None:
        """Spark has planned a batch: one more file, one more step of the source."""
        whole = batch % 10 == 9
        steps = range(batch + 1) if whole else (batch,)
        listed = ({"path": f"f{n}", "timestamp": n, "batchId": n} for n in steps)
        lines = ["v1", *map(json.dumps, listed)]
        name = f"{batch}.compact" if whole else str(batch)
        (self.root / "sources" / "0" / name).write_text("\n".join(lines))
        offset = json.dumps({"logOffset": batch})
        (self.root / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":0}}\n{offset}')

    def count(self, batch: int) -> None:
        """Our manifest counts it."""
        self.record = recorded(self.files, FOLDER, batch, self.record)

    def commit(self, batch: int) -> None:
        """Spark logs that it is done."""
        (self.root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def run(self, batch: int) -> None:
        """All three."""
        self.plan(batch)
        self.count(batch)
        self.commit(batch)

    def problems(self) -> list[str]:
        assert self.record is not None
        return problems(self.files, self.record)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path)
    for batch in range(4):
        made.run(batch)
    return made


def test_a_log_as_spark_leaves_it_is_good(log: Log) -> None:
    assert log.problems() == []


@pytest.mark.parametrize("gap", ["planned", "counted"])
def test_a_log_that_a_crash_left_in_a_gap_of_the_commit_is_good(log: Log, gap: str) -> None:
    log.plan(4)
    if gap == "counted":
        log.count(4)
    assert log.problems() == []


def test_a_crash_between_the_list_of_files_and_the_offsets_leaves_a_good_log(log: Log) -> None:
    log.plan(4)
    (log.root / "offsets" / "4").unlink()
    assert log.problems() == []


def test_only_what_spark_still_reads_is_recorded(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for batch in range(24):
        log.run(batch)
    assert log.record is not None
    assert sorted(log.record.sums) == [
        "metadata", "offsets/23", "sources/0/19.compact", "sources/0/20", "sources/0/21",
        "sources/0/22", "sources/0/23",
    ]
    assert log.problems() == []


def test_lists_that_spark_has_replaced_by_a_whole_one_may_go(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for batch in range(9):
        log.run(batch)
    log.plan(9)  # writes the whole list; the crash comes before it counts
    for batch in range(9):
        (log.root / "sources" / "0" / str(batch)).unlink()
    assert log.problems() == []


def older(path: Path) -> None:
    """Swap a file for the one before it."""
    path.write_bytes(path.with_name(str(int(path.name) - 1)).read_bytes())


def again(path: Path) -> None:
    """Lay a file down a second time, under the next number."""
    shutil.copy(path, path.with_name(str(int(path.name) + 1)))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("name", "harm", "told"),
    [
        ("offsets/3", Path.unlink, "offsets/3 is not there"),
        ("offsets/3", older, "offsets/3 is not the file that the manifest counts"),
        ("offsets/3", torn, "offsets/3 is not the file"),
        ("sources/0/2", Path.unlink, "sources/0/2 is not there"),
        ("sources/0/2", older, "sources/0/2 is not the file"),
        ("sources/0/3", again, "sources/0/4 does not belong there"),
        ("commits/3", again, "commits/4 is of batch 4, but the manifest counts up to 3"),
        ("metadata", torn, "metadata is not the file"),
        ("metadata", Path.unlink, "metadata is not there"),
    ],
)
def test_a_log_that_would_lose_or_double_rows_is_named_with_the_way_out(
    log: Log, name: str, harm: Callable[[Path], None], told: str
) -> None:
    harm(log.root / name)
    (problem,) = log.problems()
    assert told in problem
    assert "from one copy" in problem


def test_a_log_that_was_removed_or_is_of_an_older_copy_is_named(log: Log, tmp_path: Path) -> None:
    shutil.copytree(log.root, tmp_path / "copy")
    log.run(4)
    shutil.rmtree(log.root)
    assert any("offsets/4 is not there" in problem for problem in log.problems())
    shutil.copytree(tmp_path / "copy", log.root)
    assert any("offsets/4 is not there" in problem for problem in log.problems())


@pytest.mark.parametrize("name", ["commits/3", "commits/0", "offsets/0"])
def test_files_that_spark_can_do_without_are_not_missed(log: Log, name: str) -> None:
    (log.root / name).unlink()
    assert log.problems() == []


def test_a_log_that_no_manifest_counts_is_named(log: Log) -> None:
    """The manifests are gone, or the log is that of another run."""
    told = problems(log.files, LogRecord(folder=FOLDER, batch=-1, sums={}))
    assert any("commits/3 is of batch 3, but the manifest counts up to -1" in t for t in told)
    assert problems(log.files, LogRecord(folder="spark/1", batch=-1, sums={})) == []


def test_the_log_of_a_source_that_lists_no_files_is_compared_too(tmp_path: Path) -> None:
    """A topic's log has the offsets of its partitions, and once where it began."""
    log = Log(tmp_path)
    (log.root / "sources" / "0" / "0").write_text('v1\n{"t":{"0":0}}')
    for batch in range(2):
        told = json.dumps({"t": {"0": 10 * batch}})
        (log.root / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{told}")
        log.count(batch)
        log.commit(batch)
    assert log.record is not None
    assert sorted(log.record.sums) == ["metadata", "offsets/1", "sources/0/0"]
    assert log.problems() == []
    (log.root / "sources" / "0" / "0").unlink()
    assert "sources/0/0 is not there" in log.problems()[0]
