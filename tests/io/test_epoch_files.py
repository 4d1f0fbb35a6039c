"""Folders of epochs made of files that workers wrote, and who may put them there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import CheckpointError, OptionError
from headrace.io.claims import Claim, Note, later_folders
from headrace.io.places import EpochFolders, Mode
from headrace.io.storage import LocalStorage
from headrace.io.write import WriteToSpark

FIRST = Claim(writer="w", incarnation=1, token="a")


def alone() -> None:
    """There is no other driver."""


def folders(path: Path, claim: Claim = FIRST, **more: Any) -> EpochFolders:
    made = EpochFolders(str(path), "parquet", {}, (), LocalStorage())
    made.claim(None, claim, more.pop("mode", Mode.ERROR),
               **{"fresh": False, "next_epoch": 0, **more})
    return made


def staged(made: EpochFolders, attempt: str, **files: str) -> tuple[str, list[str]]:
    place = Path(made.staging(attempt))
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name).write_text(text)
    return attempt, list(files)


def there(path: Path) -> dict[str, str]:
    """What a reader may find."""
    return {
        f"{file.parent.name}/{file.name}": file.read_text()
        for file in path.rglob("*")
        if file.is_file() and "_headrace" not in file.parts
    }


def set_aside(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file() and "-files" in str(file)]


def test_files_become_the_folder_of_their_epoch_and_nothing_else_is_left(tmp_path: Path) -> None:
    made = folders(tmp_path)
    attempt, names = staged(made, "1.1", a="rows", b="more")
    (Path(made.staging(attempt)) / "stray").write_text("of a task that failed")
    made.take(2, attempt, names, alone)
    assert there(tmp_path) == {"epoch=00000002/a": "rows", "epoch=00000002/b": "more"}
    assert set_aside(tmp_path) == []


def test_a_second_attempt_replaces_the_first(tmp_path: Path) -> None:
    made = folders(tmp_path)
    made.take(0, *staged(made, "1.1", a="old", b="old"), alone)
    made.take(0, *staged(made, "1.2", c="new"), alone)
    assert there(tmp_path) == {"epoch=00000000/c": "new"}


def test_what_an_attempt_that_failed_has_left_goes_with_the_next_epoch(tmp_path: Path) -> None:
    made = folders(tmp_path)
    staged(made, "1.1", a="of an epoch whose worker was lost")
    made.take(0, *staged(made, "1.2", b="rows"), alone)
    assert there(tmp_path) == {"epoch=00000000/b": "rows"}
    assert set_aside(tmp_path) == []


def test_a_second_attempt_without_rows_removes_those_of_the_first(tmp_path: Path) -> None:
    made = folders(tmp_path)
    made.take(0, *staged(made, "1.1", a="old"), alone)
    made.take(0, "1.2", [], alone)
    assert there(tmp_path) == {}


def test_readers_pass_over_files_that_are_not_in_place_yet(tmp_path: Path) -> None:
    place = Path(folders(tmp_path).staging("1.1"))
    assert place.relative_to(tmp_path).parts[0].startswith("_")


# --- two drivers


class Interrupted(LocalStorage):
    """Lets something happen before the n-th thing that is done to the disk, or after the last."""

    def __init__(self, turn: int, happens: Callable[[], None]) -> None:
        super().__init__()
        self._turn, self._happens = turn, happens
        self.count = 0

    def step(self) -> None:
        self.count += 1
        if self.count == self._turn:
            self._happens()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in {"exists", "names", "make_folder", "move", "remove", "read", "write"}:
            self.step()
        return found


@pytest.mark.parametrize("old_rows", [{"a": "of the old"}, {}], ids=["rows", "no_rows"])
def test_whenever_a_newer_driver_takes_over_its_rows_stay(
    tmp_path: Path, old_rows: dict[str, str]
) -> None:
    """The old driver sleeps before each of its steps in turn; the new one runs the epoch then."""
    outcomes = []
    turn = 0
    while True:
        turn += 1
        path = tmp_path / str(turn)
        newest = [1]

        def fence(newest: list[int] = newest) -> None:
            if newest[0] > 1:
                message = "a newer driver has taken the checkpoint over"
                raise CheckpointError(message)

        def overtake(path: Path = path, newest: list[int] = newest) -> None:
            newest[0] = 2  # the checkpoint is claimed before the sinks are
            made = folders(path, replace(FIRST, incarnation=2, token="b"), next_epoch=7)
            made.take(7, *staged(made, "2.1", b="of the new"), alone)

        storage = Interrupted(turn, overtake)
        before = folders(path)
        before.take(7, *staged(before, "0.1", x="of an attempt that failed"), alone)
        old = EpochFolders(str(path), "parquet", {}, (), LocalStorage())
        old.claim(None, FIRST, Mode.ERROR, fresh=False, next_epoch=7)
        old._storage = storage
        attempt, names = staged(old, "1.1", **old_rows)
        storage.count = 0  # what the test itself asked is no step of the driver
        try:
            old.take(7, attempt, names, fence)
            outcomes.append("done")
        except CheckpointError:
            outcomes.append("refused")
        if storage.count < turn:  # the old one was through before
            break
        assert there(path) == {"epoch=00000007/b": "of the new"}, f"step {turn}"
    assert "refused" in outcomes
    assert outcomes[-1] == "done"


def test_a_driver_that_comes_too_late_is_refused_and_takes_nothing_away(tmp_path: Path) -> None:
    new = folders(tmp_path, replace(FIRST, incarnation=2, token="b"))
    attempt, names = staged(new, "2.1", b="of the new")
    with pytest.raises(CheckpointError, match="start 2 of the pipeline has taken it over"):
        folders(tmp_path)
    new.take(0, attempt, names, alone)
    assert there(tmp_path) == {"epoch=00000000/b": "of the new"}


def test_two_drivers_on_two_copies_of_a_checkpoint_do_not_both_write(tmp_path: Path) -> None:
    one = folders(tmp_path, replace(FIRST, incarnation=5))
    one.take(0, *staged(one, "5.1", a="rows"), alone)
    other = folders(tmp_path, replace(FIRST, incarnation=5, token="copy"), next_epoch=1)
    with pytest.raises(CheckpointError, match=f"may not write to {tmp_path} any more"):
        one.take(1, *staged(one, "5.2", a="more"), alone)
    other.take(1, *staged(other, "5.1", b="mine"), alone)
    assert there(tmp_path) == {"epoch=00000000/a": "rows", "epoch=00000001/b": "mine"}


def test_a_run_whose_place_was_removed_says_so(tmp_path: Path) -> None:
    made = folders(tmp_path)
    attempt, names = staged(made, "1.1", a="rows")
    LocalStorage().remove(str(tmp_path / "_headrace"))
    with pytest.raises(CheckpointError, match="is gone: somebody has removed or replaced it"):
        made.take(0, attempt, names, alone)


# --- a checkpoint and a sink that do not belong together


def filled(path: Path, epochs: int) -> None:
    made = folders(path)
    for epoch in range(epochs):
        made.take(epoch, *staged(made, f"1.{epoch}", a=str(epoch)), alone)


def test_epochs_that_the_checkpoint_does_not_know_are_refused(tmp_path: Path) -> None:
    filled(tmp_path, 6)
    with pytest.raises(CheckpointError, match=r"2 folders \(epoch=4, 5\) after epoch 2") as caught:
        folders(tmp_path, next_epoch=3)  # epoch 3 itself may be left from a crash
    assert "--remove_later_epochs" in str(caught.value)
    assert len(there(tmp_path)) == 6
    folders(tmp_path, next_epoch=5)


def test_epochs_that_the_checkpoint_does_not_know_are_removed_on_request(tmp_path: Path) -> None:
    filled(tmp_path, 6)
    folders(tmp_path, next_epoch=3, remove_later=True)
    assert sorted(there(tmp_path)) == [f"epoch={epoch:08d}/a" for epoch in range(4)]


def test_folders_of_other_runs_at_the_same_path_are_nobody_s_later_epochs(tmp_path: Path) -> None:
    notes = [Note(writer="a", first=0), Note(writer="b", first=4), Note(writer="c", first=9)]
    numbers = range(12)
    assert later_folders(numbers, notes, "a", 1) == [2, 3]
    assert later_folders(numbers, notes, "b", 0) == [5, 6, 7, 8]
    assert later_folders(numbers, notes, "c", 2) == []
    assert later_folders(numbers, notes, "d", 0) == []


def test_a_run_whose_note_is_lost_does_not_guess_which_folders_are_its_own(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    LocalStorage().remove(str(tmp_path / "_headrace"))
    with pytest.raises(CheckpointError, match="no note of this run .* Restore the note"):
        folders(tmp_path, next_epoch=2)


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_note_that_was_changed_is_refused(tmp_path: Path, at: int) -> None:
    folders(tmp_path)
    (note,) = (tmp_path / "_headrace").glob("*.json")
    data = bytearray(note.read_bytes())
    data[at] ^= 1
    note.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{note.name} is damaged"):
        folders(tmp_path)


def test_a_copy_of_a_note_under_another_name_makes_no_difference(tmp_path: Path) -> None:
    filled(tmp_path, 2)
    (note,) = (tmp_path / "_headrace").glob("*.json")
    note.with_name("copy.json").write_bytes(note.read_bytes())
    made = folders(tmp_path, next_epoch=2)
    made.take(2, *staged(made, "1.9", a="rows"), alone)
    assert len(there(tmp_path)) == 3


def test_a_note_of_version_0_1_is_understood(tmp_path: Path) -> None:
    """It was a folder that Spark wrote, with neither checksum nor incarnation."""
    filled(tmp_path, 1)
    (note,) = (tmp_path / "_headrace").glob("*.json")
    earlier = note.with_suffix("")
    note.unlink()
    earlier.mkdir()
    (earlier / "_SUCCESS").touch()
    (earlier / "part-00000-x.txt").write_text('{"writer": "w", "first": 3}\n')
    made = folders(tmp_path)
    made.take(1, *staged(made, "1.1", b="rows"), alone)
    assert "epoch=00000004/b" in there(tmp_path)


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("mine")
    with pytest.raises(OptionError, match="is a file; give the path of a folder"):
        folders(tmp_path / "f", fresh=True)


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({"path": "/data/rows"}, True),
        ({"path": "file:///data/rows"}, True),
        ({"path": "/data/rows", "format": "Parquet"}, True),
        ({"path": "rows"}, False),  # Spark may have another idea of where it is
        ({"path": "hdfs://there/rows"}, False),
        ({"path": "/data/rows", "format": "json"}, False),
        ({"path": "/data/rows", "options": {"compression": "zstd"}}, False),
        ({"path": "/data/rows", "partition_by": ["day"]}, False),
        ({"table": "rows"}, False),
        ({"function": print}, False),
    ],
)
def test_workers_write_plain_parquet_on_a_local_disk_alone(
    arguments: dict[str, Any], taken: bool
) -> None:
    assert WriteToSpark(**arguments).takes_files is taken
