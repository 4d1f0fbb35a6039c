from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import StateError
from headrace.state.chain import Chain, Link
from headrace.state.changelog import problems, read_link, write_rows
from headrace.state.compaction import write_snapshot
from headrace.state.files import Files
from headrace.state.kept import Kept
from headrace.state.snapshot import verify_chain

ROWS = ([b"a", b"b", b"c"], [b"1", None, b""])


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path))


def write(files: Files, kind: str) -> Link:
    if kind == "log":
        return write_rows(files, "state/u/e1.log", ROWS, until=1)
    pairs = [(bytes((letter,)), b"v" * letter) for letter in range(97, 123)]
    return write_snapshot(files, "state/u/e1", pairs, until=1)[0]


def read(files: Files, link: Link) -> list[tuple[bytes, bytes | None]]:
    return [pair for rows in read_link(files, link) for pair in zip(*rows, strict=True)]


def test_rows_and_deletions_come_back_as_written(files: Files) -> None:
    link = write_rows(files, "x.log", ROWS, until=4, tier=2)
    assert read(files, link) == [(b"a", b"1"), (b"b", None), (b"c", b"")]
    assert (link.rows, link.until, link.tier) == (3, 4, 2)
    assert link.size == files.size("x.log")


def test_a_large_file_is_read_in_several_batches(files: Files) -> None:
    names = [number.to_bytes(4, "big") for number in range(70_000)]
    link = write_rows(files, "x.log", (names, names), until=1)
    batches = list(read_link(files, link))
    assert len(batches) == 3
    assert [name for batch, _ in batches for name in batch] == names


def test_a_file_without_rows_is_a_file(files: Files) -> None:
    assert read(files, write_rows(files, "x.log", ([], []), until=1)) == []


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_no_flipped_bit_of_a_file_goes_unseen(files: Files, kind: str) -> None:
    link = write(files, kind)
    whole = files.read(link.name)
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << (position % 8)
        Path(files.path(link.name)).write_bytes(flipped)
        with pytest.raises(StateError, match="e1"):
            read_link(files, link)


@pytest.mark.parametrize("kind", ["log", "snapshot"])
def test_no_cut_of_a_file_goes_unseen(files: Files, kind: str) -> None:
    link = write(files, kind)
    whole = files.read(link.name)
    for length in range(len(whole)):
        Path(files.path(link.name)).write_bytes(whole[:length])
        with pytest.raises(StateError, match=f"has {length} bytes"):
            read_link(files, link)


def test_a_file_that_is_short_although_the_chain_says_so_is_refused(files: Files) -> None:
    files.write("x.log", b"headrace")
    with pytest.raises(StateError, match="too short"):
        read_link(files, Link(name="x.log", size=8, crc=0, rows=0, until=1))


def test_another_whole_file_of_the_same_size_under_the_name_is_refused(files: Files) -> None:
    link = write_rows(files, "x.log", ([b"a"], [b"1"]), until=1)
    other = write_rows(files, "y.log", ([b"a"], [b"2"]), until=1)
    assert other.size == link.size
    files.write("x.log", files.read("y.log"))
    with pytest.raises(StateError, match="checksum"):
        read_link(files, link)


def test_a_file_of_another_format_is_refused_before_it_is_read(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.changelog._FORMAT", 2)
    link = write(files, "log")
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"newer version .*\(format 2, this one reads 1\)") as told:
        read_link(files, link)
    assert f"{files.path(link.name)} was written by" in str(told.value)
    assert "run the pipeline with the version that wrote" in str(told.value)
    assert "Bring the file back" not in str(told.value)  # nothing is wrong with the file


def test_a_missing_file_is_named_with_its_whole_path(files: Files, tmp_path: Path) -> None:
    link = write(files, "log")
    files.delete([link.name])
    with pytest.raises(StateError, match=f"{tmp_path}/state/u/e1.log cannot be used: it is not"):
        read_link(files, link)


def test_a_link_that_counts_other_rows_is_refused(files: Files) -> None:
    with pytest.raises(StateError, match="holds 3 rows and should hold 4"):
        read_link(files, replace(write(files, "log"), rows=4))


def test_a_full_disk_names_the_file_and_leaves_none(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    with pytest.raises(StateError, match=r"e1.log cannot be written: .*No space left"):
        write(files, "log")
    assert files.names("") == []


def test_a_snapshot_is_cut_into_parts_that_hold_every_row_once(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.compaction.PART_BYTES", 2000)
    monkeypatch.setattr("headrace.state.compaction._BATCH_BYTES", 500)
    pairs = [(number.to_bytes(2, "big"), b"v" * 90) for number in range(100)]
    links = write_snapshot(files, "e1", pairs, until=3)
    assert len(links) > 3
    assert [pair for link in links for pair in read(files, link)] == pairs
    assert {link.until for link in links} == {3}


def test_a_snapshot_of_no_rows_has_no_file(files: Files) -> None:
    assert write_snapshot(files, "e1", [], until=1) == ()
    assert files.names("") == []


def test_verifying_names_each_bad_file_and_no_good_one(files: Files) -> None:
    good = write_rows(files, "good.log", ROWS, until=1)
    gone = write_rows(files, "gone.log", ROWS, until=2)
    files.delete(["gone.log"])
    mixed = write_rows(files, "mixed.log", ([b"b", b"a"], [b"1", b"2"]), until=3)
    found = verify_chain(files, Chain(logs=(good, gone, mixed), version=3))
    assert len(found) == 2
    assert "gone.log" in found[0] and "is not there" in found[0]
    assert "mixed.log" in found[1] and "61 is out of order" in found[1]
    assert problems(files, good) == []


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.binary(min_size=1, max_size=9), st.none() | st.binary(max_size=9)))
def test_any_rows_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[bytes, bytes | None]
) -> None:
    files = Files(str(tmp_path_factory.mktemp("any")))
    names = sorted(rows)
    link = write_rows(files, "x.log", (names, [rows[name] for name in names]), until=1)
    assert dict(read(files, link)) == rows


def test_the_memory_of_recent_files_lets_the_oldest_go(files: Files) -> None:
    kept = Kept(10)
    for name in ("a", "b", "c"):
        kept.put(files, name, ROWS, 5)
    assert kept.get(files, "a") is None
    assert kept.get(files, "b") == kept.get(files, "c") == ROWS
    kept.put(files, "huge", ROWS, 11)
    assert kept.get(files, "huge") is None
    assert kept.get(files, "b") == ROWS


def test_the_memory_of_recent_files_counts_a_rewritten_one_once(files: Files) -> None:
    kept = Kept(10)
    for _ in range(5):
        kept.put(files, "a", ROWS, 5)
    kept.put(files, "b", ROWS, 5)
    assert kept.get(files, "a") == kept.get(files, "b") == ROWS


def test_the_memory_of_recent_files_keeps_folders_apart(files: Files, tmp_path: Path) -> None:
    kept = Kept(10)
    kept.put(files, "a", ROWS, 5)
    assert kept.get(Files(str(tmp_path / "other")), "a") is None
