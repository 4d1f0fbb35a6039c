from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import StateError
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.lmdb_store import StatePartition, forget_local, open_partition
from headrace.state.snapshot import read_chain


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    forget_local()
    yield
    forget_local()


class Folders:
    """A checkpoint folder and a local folder."""

    def __init__(self, root: Path) -> None:
        self.files = Files(str(root / "checkpoint"))
        self.local = root / "local"

    def open(self, chain: Chain | None, **options: Any) -> StatePartition:
        return open_partition(self.local, self.files, "1-0", chain, **options)

    def epoch(self, chain: Chain | None, stem: str, **rows: bytes | None) -> Chain:
        partition = self.open(chain)
        for name, value in rows.items():
            if value is None:
                partition.delete(name.encode())
            else:
                partition.put(name.encode(), value)
        return partition.seal(stem)

    def rows(self, chain: Chain) -> dict[bytes, bytes]:
        partition = self.open(chain)
        found = dict(partition.scan(b"", b"\xff"))
        partition.close()
        return found


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_what_is_written_is_read_before_and_after_the_seal(folders: Folders) -> None:
    partition = folders.open(None)
    partition.put(b"a", b"1")
    assert partition.get(b"a") == b"1"
    chain = partition.seal("e1")
    assert folders.open(chain).get(b"a") == b"1"


def test_an_empty_value_is_a_value(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"")
    partition = folders.open(chain)
    assert partition.get(b"a") == b""
    partition.put(b"b", b"")
    assert list(partition.scan(b"a", b"z")) == [(b"a", b""), (b"b", b"")]


def test_a_deleted_row_is_gone_before_and_after_the_seal(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1", b=b"2")
    partition = folders.open(chain)
    partition.delete(b"a")
    assert partition.get(b"a") is None
    assert folders.rows(partition.seal("e2")) == {b"b": b"2"}


def test_a_row_put_again_after_its_deletion_is_there(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    partition = folders.open(chain)
    partition.delete(b"a")
    assert list(partition.scan(b"a", b"z")) == []
    partition.put(b"a", b"2")
    assert partition.get(b"a") == b"2"
    assert list(partition.scan(b"a", b"z")) == [(b"a", b"2")]
    assert folders.rows(partition.seal("e2")) == {b"a": b"2"}


def test_an_epoch_that_changed_nothing_writes_no_file(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    before = folders.files.names("")
    partition = folders.open(chain)
    partition.get(b"a")
    partition.put(b"b", b"x")
    partition.delete(b"b")
    partition.delete(b"never")
    assert partition.seal("e2") == chain
    assert folders.files.names("") == before


def test_the_log_is_named_by_unit_and_stem_and_its_size_is_told(folders: Folders) -> None:
    partition = folders.open(None)
    partition.put(b"a", b"1")
    partition.put(b"b", b"1")
    chain = partition.seal("0007-x")
    assert chain.names() == ("state/1-0/0007-x.log",)
    (link,) = chain.links
    assert (link.rows, link.size) == (2, folders.files.size("state/1-0/0007-x.log"))


def test_the_local_copy_does_not_hold_what_no_chain_confirmed(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    folders.epoch(chain, "e2-lost", a=b"2", b=b"2")
    assert folders.rows(chain) == {b"a": b"1"}
    again = folders.epoch(chain, "e2", c=b"3")
    assert folders.rows(again) == {b"a": b"1", b"c": b"3"}


def test_a_closed_unit_forgets_what_was_written(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    partition = folders.open(chain)
    partition.put(b"a", b"2")
    partition.close()
    partition.close()
    assert folders.rows(chain) == {b"a": b"1"}


@pytest.mark.parametrize("end", ["seal", "close"])
def test_a_unit_that_is_over_refuses_everything(folders: Folders, end: str) -> None:
    partition = folders.open(None)
    partition.put(b"a", b"1")
    partition.seal("e1") if end == "seal" else partition.close()
    for use in (
        lambda: partition.put(b"a", b"2"),
        lambda: partition.get(b"a"),
        lambda: partition.delete(b"a"),
        lambda: partition.scan(b"a", b"b"),
    ):
        with pytest.raises(StateError, match="sealed or closed"):
            use()


def test_a_unit_left_open_by_a_failed_epoch_does_not_hinder_the_next(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    left = folders.open(chain)
    left.put(b"a", b"lost")
    following = folders.epoch(chain, "e2", b=b"2")
    assert folders.rows(following) == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize("length", [0, 501])
def test_a_name_of_wrong_length_fails_the_seal_and_leaves_the_state_usable(
    folders: Folders, length: int
) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    partition = folders.open(chain)
    partition.put(b"n" * length, b"1")
    with pytest.raises(StateError, match=f"a name of {length} bytes"):
        partition.seal("e2")
    assert folders.rows(chain) == {b"a": b"1"}


def test_a_name_of_the_greatest_length_is_stored(folders: Folders) -> None:
    partition = folders.open(None)
    partition.put(b"n" * 500, b"1")
    assert folders.rows(partition.seal("e1")) == {b"n" * 500: b"1"}


def test_held_rows_and_bytes_are_those_of_the_opened_version(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1", b=b"2")
    partition = folders.open(chain)
    partition.put(b"c", b"3")
    assert partition.rows_held() == 2
    assert partition.bytes_held() == 4096  # one page
    large = folders.epoch(chain, "e2", big=b"x" * 100_000)
    assert 100_000 < folders.open(large).bytes_held() < 120_000


# Scans.


def filled(folders: Folders) -> StatePartition:
    """Rows 0..9 in the local copy; of these 2 and 3 are deleted and 4 changed; 5x is new."""
    partition = folders.open(None)
    for number in range(10):
        partition.put(b"%d" % number, b"old")
    partition = folders.open(partition.seal("e1"))
    for name in (b"2", b"3"):
        partition.delete(name)
    partition.put(b"4", b"new")
    partition.put(b"5x", b"new")
    return partition


def test_a_scan_merges_the_epochs_writes_into_the_local_copy(folders: Folders) -> None:
    assert list(filled(folders).scan(b"1", b"7")) == [
        (b"1", b"old"), (b"4", b"new"), (b"5", b"old"), (b"5x", b"new"), (b"6", b"old"),
    ]


def test_a_scan_sees_rows_written_after_an_earlier_scan(folders: Folders) -> None:
    partition = filled(folders)
    list(partition.scan(b"1", b"7"))
    partition.put(b"4x", b"newer")
    partition.delete(b"5x")
    partition.put(b"2", b"again")
    assert [name for name, _ in partition.scan(b"1", b"7")] == [b"1", b"2", b"4", b"4x", b"5", b"6"]


def test_a_scan_that_deletes_each_row_it_meets_meets_them_all(folders: Folders) -> None:
    partition = filled(folders)
    met = []
    for name, _ in partition.scan(b"", b"z"):
        partition.delete(name)
        met.append(name)
    assert met == [b"0", b"1", b"4", b"5", b"5x", b"6", b"7", b"8", b"9"]
    assert list(partition.scan(b"", b"z")) == []


def test_a_row_changed_during_a_scan_does_not_vanish_from_it(folders: Folders) -> None:
    partition = filled(folders)
    met = []
    for name, value in partition.scan(b"", b"z"):
        if name == b"0":
            partition.put(b"8", b"changed")
            list(partition.scan(b"", b"1"))  # another scan meanwhile
        met.append((name, value))
    assert (b"8", b"changed") in met
    assert len(met) == 9


def test_a_row_deleted_during_a_scan_is_not_met_later(folders: Folders) -> None:
    partition = filled(folders)
    met = []
    for name, _ in partition.scan(b"", b"z"):
        if name == b"0":
            partition.delete(b"5x")
            partition.delete(b"8")
        met.append(name)
    assert met == [b"0", b"1", b"4", b"5", b"6", b"7", b"9"]


def test_taking_the_first_row_over_and_over_does_not_pass_the_dead_ones_each_time(
    folders: Folders,
) -> None:
    """A queue: a scan that begins where all before was deleted goes straight to the first row."""
    partition = folders.open(None)
    for number in range(2000):
        partition.put(number.to_bytes(2, "big"), b"v")
    partition = folders.open(partition.seal("e1"))
    looked = Counting(partition._dead)
    partition._dead = looked
    for number in range(2000):
        first = next(partition.scan(b"", b"\xff"))[0]
        assert first == number.to_bytes(2, "big")
        partition.delete(first)
    assert next(partition.scan(b"", b"\xff"), None) is None
    # Three questions a row: the one just deleted, and twice the one that is found.
    assert looked.asked < 4 * 2000


class Counting(set[bytes]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, name: object) -> bool:
        self.asked += 1
        return super().__contains__(name)


def test_a_put_in_front_of_what_was_passed_is_still_met(folders: Folders) -> None:
    partition = filled(folders)
    for name in (b"0", b"1"):
        partition.delete(name)
    assert next(partition.scan(b"", b"z"))[0] == b"4"
    partition.put(b"1", b"back")
    assert next(partition.scan(b"", b"z")) == (b"1", b"back")
    partition.delete(b"1")
    assert next(partition.scan(b"", b"z"))[0] == b"4"


def test_a_longer_scan_from_the_same_start_begins_where_the_dead_rows_end(folders: Folders) -> None:
    partition = filled(folders)
    partition.delete(b"7")
    assert list(partition.scan(b"7", b"8")) == []
    assert [name for name, _ in partition.scan(b"7", b"z")] == [b"8", b"9"]


# What opening reads.


def test_the_usual_next_epoch_reads_no_file(folders: Folders) -> None:
    chain = folders.epoch(None, "e0", a=b"0")
    for number in range(1, 40):  # merges on the way
        partition = folders.open(chain)
        assert (partition.fetched, partition.restored) == (0, number == 1)
        partition.put(b"a", b"%d" % number)
        chain = partition.seal(f"e{number}")


def test_another_process_reads_only_the_log_it_lacks(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    folders.open(chain).close()
    chain = folders.epoch(chain, "e2", a=b"2")
    forget_local()
    partition = folders.open(chain)
    assert (partition.fetched, partition.restored) == (1, False)
    assert partition.get(b"a") == b"2"


def test_a_lost_local_folder_is_restored_from_the_chain(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    chain = folders.epoch(chain, "e2", a=None, b=b"2")
    forget_local()
    shutil.rmtree(folders.local)
    partition = folders.open(chain)
    assert (partition.fetched, partition.restored) == (2, True)
    assert dict(partition.scan(b"", b"z")) == {b"b": b"2"}


def test_a_copy_a_few_epochs_behind_catches_up_through_merged_logs(
    folders: Folders, tmp_path: Path
) -> None:
    """Two executors take turns; the one that was away needs the merged log, not a restore."""
    chain = Chain()
    for number in range(3):
        chain = folders.epoch(chain, f"e{number}", a=b"%d" % number, **{f"n{number}": b"x"})
    elsewhere = Folders(tmp_path)
    elsewhere.local = tmp_path / "elsewhere"
    elsewhere.open(chain).close()
    for number in range(3, 18):
        chain = folders.epoch(chain, f"e{number}", a=b"%d" % number, n1=None)
    assert [link.tier for link in chain.logs] == [1, 1, 0, 0]
    forget_local()
    partition = elsewhere.open(chain)
    assert (partition.fetched, partition.restored) == (4, False)
    assert dict(partition.scan(b"", b"z")) == {b"a": b"17", b"n0": b"x", b"n2": b"x"}


# Compaction.


def test_logs_are_merged_by_eights_and_stay_few(folders: Folders) -> None:
    chain = Chain()
    for number in range(130):
        chain = folders.epoch(chain, f"e{number}", **{f"k{number % 7}": b"%d" % number})
    tiers = [link.tier for link in chain.logs]
    # 130 logs = 128 in two of the second tier, and two more.
    assert tiers == [2, 2, 0, 0]
    expected = {b"k%d" % (number % 7): b"%d" % number for number in range(130)}
    assert folders.rows(chain) == expected
    assert dict(read_chain(folders.files, chain, lambda _: True)) == expected


def test_a_merged_log_keeps_deletions_for_copies_within_its_span(folders: Folders) -> None:
    chain = Chain()
    for number in range(9):
        chain = folders.epoch(chain, f"e{number}", **{f"k{number}": b"v", f"k{number - 1}": None})
    assert [link.rows for link in chain.logs] == [8, 2]  # k0..k6 gone and k7; k7 gone and k8
    assert folders.rows(chain) == {b"k8": b"v"}


def test_a_snapshot_replaces_logs_that_outgrew_it(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain()
    for number in range(5):
        if number == 3:
            least = chain.log_bytes() - 1
            monkeypatch.setattr("headrace.state.compaction.SNAPSHOT_FROM_BYTES", least)
        chain = folders.epoch(chain, f"e{number}", **{f"k{number}": b"v", "k0": None})
    assert [link.name for link in chain.base] == ["state/1-0/e3-base0.snap"]
    assert [link.name for link in chain.logs] == ["state/1-0/e3.log", "state/1-0/e4.log"]
    assert chain.base[0].rows == 2  # k1 and k2: the state before e3
    everything = {b"k%d" % number: b"v" for number in range(1, 5)}
    assert folders.rows(chain) == everything
    shutil.rmtree(folders.local)
    assert folders.rows(chain) == everything


def test_a_restore_that_was_cut_off_between_two_parts_goes_on(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.compaction.SNAPSHOT_FROM_BYTES", 0)
    monkeypatch.setattr("headrace.state.compaction.PART_BYTES", 1)
    monkeypatch.setattr("headrace.state.compaction._BATCH_BYTES", 1)
    chain = folders.epoch(None, "e1", a=b"1", b=b"2", c=b"3")
    chain = folders.epoch(chain, "e2", d=b"4")
    assert len(chain.base) == 3
    forget_local()
    shutil.rmtree(folders.local)
    middle = chain.base[1].name
    data = folders.files.read(middle)
    folders.files.delete([middle])
    with pytest.raises(StateError, match="is not there"):
        folders.open(chain)
    folders.files.write(middle, data)
    partition = folders.open(chain)
    assert partition.fetched == 3  # the first part is there already
    assert dict(partition.scan(b"", b"z")) == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}


def test_old_files_stay_when_logs_are_merged_and_snapshots_written(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.state.compaction.SNAPSHOT_FROM_BYTES", 3000)
    chains = [Chain()]
    for number in range(30):
        chains.append(folders.epoch(chains[-1], f"e{number}", **{f"k{number}": b"v"}))
    there = set(folders.files.names(""))
    assert all(there.issuperset(chain.names()) for chain in chains)


# Full disks and bad files.


@pytest.mark.parametrize("which", ["log", "tier1.log", "snap"])
def test_a_full_disk_at_the_seal_leaves_the_old_version_usable(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    if which == "snap":
        monkeypatch.setattr("headrace.state.compaction.SNAPSHOT_FROM_BYTES", 1)
    chain = Chain()
    for number in range(8 if which != "snap" else 1):
        chain = folders.epoch(chain, f"e{number}", a=b"%d" % number)
    rows = folders.rows(chain)
    write = folders.files.write

    def full(name: str, data: bytes) -> None:
        if name.endswith(which):
            raise OSError(28, "No space left on device")
        write(name, data)

    monkeypatch.setattr(folders.files, "write", full)
    partition = folders.open(chain)
    partition.put(b"a", b"lost")
    with pytest.raises(StateError, match=f"{which} cannot be written"):
        partition.seal("bad")
    monkeypatch.setattr(folders.files, "write", write)
    assert folders.rows(chain) == rows
    assert folders.rows(folders.epoch(chain, "good", b=b"2")) == {**rows, b"b": b"2"}


def test_a_full_local_disk_is_an_error_with_advice_and_not_a_crash(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    monkeypatch.setattr("headrace.state.environments.RESERVE_BYTES", 1 << 60)
    with pytest.raises(StateError, match="make room"):
        folders.open(chain)
    monkeypatch.undo()
    assert folders.rows(chain) == {b"a": b"1"}


def test_a_damaged_log_fails_the_open_and_is_read_once_it_is_mended(folders: Folders) -> None:
    chain = folders.epoch(None, "e1", a=b"1")
    forget_local()
    data = folders.files.read("state/1-0/e1.log")
    folders.files.write("state/1-0/e1.log", data[:-1] + b"\0")
    with pytest.raises(StateError, match="e1.log cannot be used"):
        folders.open(chain)
    folders.files.write("state/1-0/e1.log", data)
    assert folders.rows(chain) == {b"a": b"1"}
