"""A local copy is a cache: what an earlier run left, or what cannot be read, is built again."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from headrace.errors import StateError
from headrace.state import environments
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.generations import Generation, begin, generations, newest_of
from headrace.state.lmdb_store import StatePartition, forget_local, open_partition

ROOT = Path(__file__).parents[2]
MAP_BYTES = 1 << 16
ROWS = {b"row-%03d" % number: b"v%d" % number * 50 for number in range(200)}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    forget_local()
    yield
    forget_local()


def opened(root: Path, chain: Chain | None, run: str) -> StatePartition:
    files = Files(str(root / "checkpoint"))
    return open_partition(root / "local", files, "u", chain, map_bytes=MAP_BYTES, run=run)


def filled(root: Path, run: str) -> Chain:
    """Run two epochs; their copy is there afterwards, and no process has it open."""
    chain: Chain | None = None
    for half in (0, 1):
        partition = opened(root, chain, run)
        for name, value in list(ROWS.items())[half::2]:
            partition.put(name, value)
        chain = partition.seal(f"{run}-{half}")
    assert chain is not None
    opened(root, chain, run).close()
    forget_local()
    return chain


def rows_of(partition: StatePartition) -> dict[bytes, bytes]:
    found = dict(partition.scan(b"", b"\xff"))
    partition.close()
    return found


def copies(root: Path) -> list[str]:
    return sorted(os.listdir(root / "local" / "u"))


def test_no_damage_between_two_runs_reaches_the_second_one() -> None:
    """The whole campaign is `headrace lab run copies`."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "lab", "run", "copies", "--cases", "46",
         "--seed", "7"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_copy_of_an_earlier_run_is_built_again_once(tmp_path: Path) -> None:
    chain = filled(tmp_path, "one")
    assert copies(tmp_path) == ["g1-one"]
    first = opened(tmp_path, chain, "two")
    assert (first.restored, rows_of(first)) == (True, ROWS)
    assert copies(tmp_path) == ["g2-two"]
    forget_local()  # another process
    second = opened(tmp_path, chain, "two")
    assert (second.restored, second.fetched, rows_of(second)) == (False, 0, ROWS)
    assert copies(tmp_path) == ["g2-two"]


def test_a_process_that_serves_two_runs_does_not_carry_a_copy_over(tmp_path: Path) -> None:
    """Spark's workers outlive a run: what they have open belongs to it."""
    chain = filled(tmp_path, "one")
    opened(tmp_path, chain, "one").close()
    second = opened(tmp_path, chain, "two")
    assert (second.restored, rows_of(second)) == (True, ROWS)


def test_a_driver_that_was_thought_dead_and_its_successor_both_read_what_is_right(
    tmp_path: Path,
) -> None:
    chain = filled(tmp_path, "one")
    old = opened(tmp_path, chain, "one")
    code = f"""
import json, sys
from pathlib import Path
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(tmp_path)!r})
files = Files(str(root / "checkpoint"))
chain = Chain.from_json(json.loads(sys.argv[1]))
partition = open_partition(root / "local", files, "u", chain, run="two")
partition.put(b"more", b"of two")
chain = partition.seal("two")
open_partition(root / "local", files, "u", chain, run="two").close()
print(json.dumps(chain.to_json()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(chain.to_json())],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert copies(tmp_path) == ["g2-two"]
    assert rows_of(old) == ROWS
    assert rows_of(opened(tmp_path, chain, "one")) == ROWS
    after = Chain.from_json(json.loads(done.stdout))
    assert rows_of(opened(tmp_path, after, "two")) == {**ROWS, b"more": b"of two"}


def test_processes_that_begin_a_run_at_the_same_moment_all_read_what_is_right(
    tmp_path: Path,
) -> None:
    chain = filled(tmp_path, "one")
    code = f"""
import json, os, sys
from pathlib import Path
import pyarrow as pa
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(tmp_path)!r})
chain = Chain.from_json(json.loads(sys.argv[1]))
pa.array([b""], pa.large_binary()).to_numpy(zero_copy_only=False)  # imports pandas, once
starts = [os.pipe() for _ in range(6)]
children = []
for reading, writing in starts:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(reading, 1)
            for run in "two", "three":
                partition = open_partition(
                    root / "local", Files(str(root / "checkpoint")), "u", chain,
                    map_bytes={MAP_BYTES}, run=run)
                rows = dict(partition.scan(b"", b"z"))
                partition.close()
                if len(rows) != {len(ROWS)}:
                    print(run, len(rows), flush=True)
                    os._exit(2)
            code = 0
        except BaseException as error:
            print(repr(error), flush=True)
        finally:
            os._exit(code)
    children.append(child)
for _, writing in starts:
    os.write(writing, b"x")
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(chain.to_json())],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# Within one run: what Python can see of a copy that is not as it should be.


def about(root: Path, write: Callable[[lmdb.Environment], None]) -> None:
    """Change the copy by hand."""
    with lmdb.open(str(root / "local" / "u" / "g1-one"), max_dbs=2) as env:
        write(env)


def put_version(data: bytes) -> Callable[[lmdb.Environment], None]:
    def write(env: lmdb.Environment) -> None:
        with env.begin(write=True) as txn:
            txn.put(b"applied", data, db=env.open_db(b"about", txn))

    return write


def drop_version(env: lmdb.Environment) -> None:
    with env.begin(write=True) as txn:
        txn.delete(b"applied", db=env.open_db(b"about", txn))


def test_a_version_that_cannot_be_read_gives_way_to_a_new_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chain = filled(tmp_path, "one")
    spoiled = [put_version(data) for data in (b"", b"\xff\xfe 1 x", b"x y z", b"1 2")]
    for number, write in enumerate([*spoiled, drop_version]):
        forget_local()
        shutil.rmtree(tmp_path / "local")
        opened(tmp_path, chain, "one").close()
        forget_local()
        about(tmp_path, write)
        caplog.clear()
        partition = opened(tmp_path, chain, "one")
        assert (partition.restored, rows_of(partition)) == (True, ROWS), number
        (line,) = caplog.records
        assert line.levelno == logging.WARNING
        assert str(tmp_path / "local" / "u") in line.getMessage()


def replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replaced_by_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"x")


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("data.mdb", lambda path: path.write_bytes(b"\0" * 8192)),
        ("data.mdb", lambda path: path.write_bytes(b"no data of LMDB" * 1000)),
        ("data.mdb", lambda path: path.write_bytes(b"")),
        ("data.mdb", Path.unlink),
        ("data.mdb", replaced_by_folder),
        ("lock.mdb", Path.unlink),
        ("lock.mdb", replaced_by_folder),
        ("lock.mdb", lambda path: path.write_bytes(b"\xff" * 9000)),
        ("", replaced_by_file),
    ],
)
def test_files_that_are_not_a_copy_give_way_to_one(
    tmp_path: Path, what: str, spoil: Callable[[Path], None]
) -> None:
    chain = filled(tmp_path, "one")
    spoil(tmp_path / "local" / "u" / "g1-one" / what)
    assert rows_of(opened(tmp_path, chain, "one")) == ROWS
    assert len(copies(tmp_path)) == 1, "nothing is left over"


def test_a_copy_that_is_broken_again_and_again_is_named_and_the_checkpoint_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = filled(tmp_path, "one")

    def broken(*_: object) -> None:
        msg = "page"
        raise lmdb.CorruptedError(msg)

    monkeypatch.setattr("headrace.state.lmdb_store._brought", broken)
    with pytest.raises(StateError, match="local/u cannot be used: page") as caught:
        opened(tmp_path, chain, "two")
    assert "checkpoint" not in str(caught.value)


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "u").write_bytes(b"")
    with pytest.raises(StateError, match="local/u cannot be used"):
        opened(tmp_path, None, "one")


def test_a_copy_that_was_taken_away_does_not_keep_its_space_on_the_disk(tmp_path: Path) -> None:
    mine = environments.current(tmp_path / "a", run="one")
    begin(tmp_path / "a", "two")  # as another process does
    environments.current(tmp_path / "b", run="two")
    with pytest.raises(lmdb.Error):
        mine.read()


def test_a_copy_that_is_being_read_is_not_closed_though_it_was_taken_away(tmp_path: Path) -> None:
    mine = environments.current(tmp_path / "a", run="one")
    txn = mine.read()
    begin(tmp_path / "a", "two")
    environments.current(tmp_path / "b", run="two")
    assert txn.get(b"nothing") is None


# Names of generations.


def test_only_the_newest_copy_counts_and_only_if_it_is_of_this_run(tmp_path: Path) -> None:
    assert newest_of(tmp_path / "nowhere", "one") is None
    for name in ("g2-one", "g10-two", "g9-one", "other", "g", "gx-one", ".discarded-g99-one"):
        (tmp_path / name).mkdir()
    assert newest_of(tmp_path, "two") == Generation(10, "two")
    assert newest_of(tmp_path, "one") is None
    assert begin(tmp_path, "one") == Generation(11, "one")
    assert generations(tmp_path) == [Generation(11, "one")]
    assert sorted(os.listdir(tmp_path)) == ["g", "g11-one", "gx-one", "other"]
