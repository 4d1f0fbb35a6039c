from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.state.chain import AppliedVersion, Chain, Link
from headrace.state.changelog import fetch
from headrace.state.environments import current, renewed
from headrace.state.files import Files
from headrace.state.lmdb_store import StatePartition, forget_local, open_partition


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    forget_local()
    yield
    forget_local()


#: Two pages more than an empty environment takes.
SMALL_MAP = 1 << 15


def opened(root: Path, chain: Chain | None) -> StatePartition:
    files = Files(str(root / "checkpoint"))
    return open_partition(root / "local", files, "u", chain, map_bytes=SMALL_MAP)


def epoch(root: Path, chain: Chain | None, stem: str, rows: dict[bytes, bytes]) -> Chain:
    partition = opened(root, chain)
    for name, value in rows.items():
        partition.put(name, value)
    return partition.seal(stem)


def rows_of(partition: StatePartition) -> dict[bytes, bytes]:
    found = dict(partition.scan(b"", b"\xff"))
    partition.close()
    return found


def generations(root: Path) -> list[str]:
    return sorted(os.listdir(root / "local" / "u"))


def in_another_process(root: Path, chain: Chain, stem: str, name: str) -> Chain:
    """Run an epoch in a process of its own, which also opens its own result."""
    code = f"""
import json, sys
from pathlib import Path
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(root)!r})
files = Files(str(root / "checkpoint"))
partition = open_partition(root / "local", files, "u", Chain.from_json(json.loads(sys.argv[1])),
                 map_bytes={SMALL_MAP})
partition.put({name.encode()!r}, b"x" * 100_000)
chain = partition.seal({stem!r})
open_partition(root / "local", files, "u", chain).close()
print(json.dumps(chain.to_json()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(chain.to_json())],
        check=True, capture_output=True, text=True, timeout=60,
    )
    return Chain.from_json(json.loads(done.stdout))


def test_a_copy_grows_when_it_is_full(tmp_path: Path) -> None:
    rows = {b"%05d" % number: b"v" * 200 for number in range(5000)}
    chain = epoch(tmp_path, None, "e1", {b"a": b"1"})
    chain = epoch(tmp_path, chain, "e2", rows)
    partition = opened(tmp_path, chain)
    assert partition.bytes_held() > 30 * SMALL_MAP
    assert rows_of(partition) == {b"a": b"1", **rows}


def test_a_copy_grows_while_it_is_restored(tmp_path: Path) -> None:
    rows = {b"%05d" % number: b"v" * 200 for number in range(5000)}
    chain = epoch(tmp_path, None, "e1", rows)
    forget_local()
    shutil.rmtree(tmp_path / "local")
    assert rows_of(opened(tmp_path, chain)) == rows


def test_a_copy_that_another_process_has_grown_is_read(tmp_path: Path) -> None:
    chain = epoch(tmp_path, None, "e0", {b"a": b"1"})
    opened(tmp_path, chain).close()
    for number in range(2):
        chain = in_another_process(tmp_path, chain, f"e{number + 1}", f"k{number}")
    assert generations(tmp_path) == ["g1"]
    partition = opened(tmp_path, chain)
    assert (partition.fetched, partition.restored) == (0, False)
    assert len(rows_of(partition)) == 3


def test_a_process_that_opens_a_grown_copy_does_not_cut_its_file(tmp_path: Path) -> None:
    """The one that has grown it may write behind the new end, and would die of it."""
    chain = epoch(tmp_path, None, "e0", {b"%05d" % number: b"v" * 200 for number in range(5000)})
    opened(tmp_path, chain).close()
    data = tmp_path / "local" / "u" / "g1" / "data.mdb"
    before = data.stat().st_size
    assert before > 32 * SMALL_MAP
    code = f"""
import json, sys
from pathlib import Path
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(tmp_path)!r})
chain = Chain.from_json(json.loads(sys.argv[1]))
open_partition(root / "local", Files(str(root / "checkpoint")), "u", chain, map_bytes={SMALL_MAP})
"""
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(chain.to_json())], check=True, timeout=60
    )
    assert data.stat().st_size == before


def test_rows_are_not_written_over_a_copy_that_moved_meanwhile(tmp_path: Path) -> None:
    environment = current(tmp_path / "u", SMALL_MAP)
    one = AppliedVersion(link="one", version=1, mark=1)
    two = AppliedVersion(link="two", version=2, mark=2)
    assert environment.apply(lambda: [([b"a"], [b"1"])], None, one)
    assert not environment.apply(lambda: [([b"a"], [b"2"])], None, two)
    txn = environment.read()
    assert (txn.get(b"a"), environment.applied(txn)) == (b"1", one)


def test_a_copy_that_another_process_brought_forward_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While we read a log, another process applies it: look again, and build nothing anew."""
    first = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, first).close()
    second = epoch(tmp_path, first, "e2", {b"a": b"2"})
    forget_local()

    def slowly(files: Files, link: Link) -> bytes:
        monkeypatch.undo()
        current(tmp_path / "local" / "u").apply(
            lambda: [([b"a"], [b"2"])], second.applied(second.logs[0]), second.applied(link)
        )
        return fetch(files, link)

    monkeypatch.setattr("headrace.state.lmdb_store.fetch", slowly)
    partition = opened(tmp_path, second)
    assert rows_of(partition) == {b"a": b"2"}
    assert not partition.restored
    assert generations(tmp_path) == ["g1"]


def test_a_folder_deleted_behind_our_back_is_built_anew(tmp_path: Path) -> None:
    chain = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, chain).close()
    shutil.rmtree(tmp_path / "local")
    partition = opened(tmp_path, chain)
    assert partition.restored
    assert rows_of(partition) == {b"a": b"1"}


def test_a_folder_replaced_behind_our_back_is_opened_anew(tmp_path: Path) -> None:
    first = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, first).close()
    forget_local()
    shutil.copytree(tmp_path / "local", tmp_path / "older")
    second = epoch(tmp_path, first, "e2", {b"a": b"2"})
    opened(tmp_path, second).close()
    shutil.rmtree(tmp_path / "local")
    (tmp_path / "older").rename(tmp_path / "local")
    assert rows_of(opened(tmp_path, second)) == {b"a": b"2"}


def test_a_copy_newer_than_the_chain_gives_way_to_a_new_generation(
    tmp_path: Path,
) -> None:
    first = epoch(tmp_path, None, "e1", {b"a": b"1"})
    second = epoch(tmp_path, first, "e2", {b"a": b"2"})
    newer = opened(tmp_path, second)
    assert newer.get(b"a") == b"2"
    assert generations(tmp_path) == ["g1"]
    assert rows_of(opened(tmp_path, first)) == {b"a": b"1"}
    assert generations(tmp_path) == ["g2"]
    assert rows_of(opened(tmp_path, second)) == {b"a": b"2"}


def test_a_process_that_reads_an_old_generation_goes_on_reading_it(tmp_path: Path) -> None:
    """Its folder is gone by name, but the file it has open is as it was."""
    first = epoch(tmp_path, None, "e1", {b"%d" % number: b"v" * 99 for number in range(999)})
    second = epoch(tmp_path, first, "e2", {b"a": b"2"})
    opened(tmp_path, second).close()
    forget_local()
    code = f"""
import json, sys
from pathlib import Path
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(tmp_path)!r})
chain = Chain.from_json(json.loads(sys.argv[1]))
partition = open_partition(root / "local", Files(str(root / "checkpoint")), "u", chain)
print("open", flush=True)
sys.stdin.readline()
print(len(list(partition.scan(b"", b"z"))), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(second.to_json())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == "open\n"
        assert len(rows_of(opened(tmp_path, first))) == 999
        assert generations(tmp_path) == ["g2"]
        other.stdin.write("go\n")
        other.stdin.flush()
        assert other.stdout.readline() == "1000\n"


def test_a_reader_whose_process_died_does_not_pin_old_pages(tmp_path: Path) -> None:
    chain = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, chain).close()
    forget_local()
    code = f"""
import json, os, sys
from pathlib import Path
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import open_partition
root = Path({str(tmp_path)!r})
chain = Chain.from_json(json.loads(sys.argv[1]))
partition = open_partition(root / "local", Files(str(root / "checkpoint")), "u", chain)
os._exit(9)
"""
    ours = current(tmp_path / "local" / "u")._env
    done = subprocess.run([sys.executable, "-c", code, json.dumps(chain.to_json())], timeout=60)
    assert done.returncode == 9
    assert len(ours.readers().splitlines()) == 2  # a heading and the dead one
    opened(tmp_path, chain).close()
    assert "no active readers" in ours.readers()


def test_the_copy_of_another_pipeline_in_the_same_folder_is_not_taken(tmp_path: Path) -> None:
    chain = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, chain).close()
    assert rows_of(opened(tmp_path, None)) == {}


def test_a_torn_copy_is_built_anew(tmp_path: Path) -> None:
    chain = epoch(tmp_path, None, "e1", {b"a": b"1"})
    opened(tmp_path, chain).close()
    forget_local()
    data = tmp_path / "local" / "u" / "g1" / "data.mdb"
    data.write_bytes(b"\0" * 8192)
    partition = opened(tmp_path, chain)
    assert partition.restored
    assert rows_of(partition) == {b"a": b"1"}
    assert generations(tmp_path) == ["g2"]


def test_leftovers_of_a_removal_that_was_cut_off_go_with_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "u"
    left = folder / ".discarded-1"
    left.mkdir(parents=True)
    (left / "data.mdb").write_bytes(b"x")
    renewed(folder)
    assert sorted(os.listdir(folder)) == ["g1"]
