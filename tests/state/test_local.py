"""Where a machine keeps its copies of the state, and which of them are of no use any more."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from headrace.errors import StateError
from headrace.state import local
from headrace.state.local import NOTE, Copy, LocalFolder, copies, is_dead, sweep_copies
from headrace.state.machine import Machine, this_machine

HERE = Machine(host="mill", boot="b00710ad-1")
BEFORE = Machine(host="mill", boot="0ldb0071-9")
ELSEWHERE = Machine(host="barn", boot="ffff0000-3")
#: A checkpoint that is there wherever these tests run.
THERE = "/"
GONE = "/no/such/checkpoint"


@pytest.mark.parametrize(
    ("machine", "checkpoint", "dead"),
    [
        (HERE, THERE, False),
        (HERE, GONE, True),
        (HERE, "s3://bucket/checkpoint", False),  # nobody asks a store for this
        (HERE, "relative", False),
        (BEFORE, THERE, True),
        (BEFORE, "s3://bucket/checkpoint", True),
        (ELSEWHERE, THERE, False),  # two machines may share a folder
        (ELSEWHERE, GONE, False),  # and see different disks
    ],
)
@pytest.mark.parametrize("shared", [True, False])
def test_a_copy_is_dead_if_its_boot_is_over_or_its_checkpoint_gone(
    machine: Machine, checkpoint: str, dead: bool, shared: bool
) -> None:
    copy = Copy(folder=Path("x"), checkpoint=checkpoint, machine=machine)
    assert is_dead(copy, HERE, shared=shared) is dead


@pytest.mark.parametrize(
    ("folder", "shared", "dead"),
    [("b00710ad", False, False), ("0ldb0071", False, True), ("0ldb0071", True, False)],
)
def test_a_copy_without_a_note_is_dead_only_if_it_can_be_nobody_elses(
    folder: str, shared: bool, dead: bool
) -> None:
    assert is_dead(Copy(folder=Path(folder) / "t"), HERE, shared=shared) is dead


def place(root: Path, checkpoint: Path | str) -> LocalFolder:
    return LocalFolder(state_dir=str(root / "local"), checkpoint=str(checkpoint))


def test_the_default_is_a_folder_of_this_user_alone_below_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = LocalFolder(state_dir="", checkpoint=GONE).open("")
    base = tmp_path / f"headrace-state-{os.geteuid()}"
    assert found.parent.parent == base
    for folder in (base, found.parent, found):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_users_boots_and_checkpoints_have_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place(tmp_path, THERE).folder("")
    assert place(tmp_path, GONE).folder("").name != first.name
    assert place(tmp_path, THERE).folder("") == first
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert place(tmp_path, THERE).folder("").parent.parent.name == "headrace-state-4711"
    monkeypatch.setattr("headrace.state.local.this_machine", lambda: BEFORE)
    assert place(tmp_path, THERE).folder("").parent.name == "0ldb0071"


def test_an_open_folder_is_refused_at_each_level(tmp_path: Path) -> None:
    found = place(tmp_path, THERE).open("")
    for folder in (found, found.parent, found.parent.parent):
        folder.chmod(0o770)
        local._opened.clear()  # as a process finds it that has not looked before
        with pytest.raises(StateError, match=f"{folder} is not safe"):
            place(tmp_path, THERE).open("")
        folder.chmod(0o700)
    assert place(tmp_path, THERE).open("") == found


def test_a_process_that_has_looked_sees_when_the_folder_is_opened_or_replaced(
    tmp_path: Path,
) -> None:
    found = place(tmp_path, THERE).open("")
    base = found.parent.parent
    base.chmod(0o777)
    with pytest.raises(StateError, match=f"{base} is not safe.*0777"):
        place(tmp_path, THERE).open("")
    base.rename(tmp_path / "moved")
    assert place(tmp_path, THERE).open("") == found  # made anew, and empty but for its note
    assert os.listdir(found) == [NOTE]


def test_the_name_of_the_executor_is_put_in_and_all_executors_are_found(tmp_path: Path) -> None:
    told = LocalFolder(state_dir=f"{tmp_path}/[x]-{{executor}}", checkpoint=THERE)
    assert told.bases() == []
    one, two = told.open("one"), told.open("two")
    assert one.parts[: len(tmp_path.parts) + 1] == (*tmp_path.parts, "[x]-one")
    assert told.bases() == [one.parent.parent, two.parent.parent]
    told.remove()
    assert not one.exists() and not two.exists()


def test_a_sweep_removes_dead_copies_and_leaves_the_others(tmp_path: Path) -> None:
    live, doomed = tmp_path / "live", tmp_path / "doomed"
    for checkpoint in (live, doomed):
        checkpoint.mkdir()
        partition = place(tmp_path, checkpoint).open("") / "1-0" / "g1"
        partition.mkdir(parents=True)
        (partition / "data.mdb").touch()
    base = place(tmp_path, live).base("")
    old = base / "0ldb0071" / "t"
    old.mkdir(parents=True)
    note = {"checkpoint": str(live), "host": this_machine().host, "boot": "0ldb0071-9"}
    (old / NOTE).write_text(json.dumps(note), encoding="utf-8")
    assert sweep_copies(base, shared=True) == 1  # that of the earlier boot
    assert not old.parent.exists()
    doomed.rmdir()
    assert sweep_copies(base, shared=True) == 1
    assert [copy.checkpoint for copy in copies(base)] == [str(live)]
    assert list(base.rglob("data.mdb")) != []


def test_a_note_that_cannot_be_read_is_no_reason_to_remove_a_copy(tmp_path: Path) -> None:
    folder = place(tmp_path, GONE).open("")
    (folder / NOTE).write_text("{", encoding="utf-8")
    assert sweep_copies(folder.parent.parent, shared=False) == 0
    assert folder.exists()
