"""A disk that is full: the error names the folder, what was to be written and what is free."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from headrace.errors import DiskFullError, HeadraceError
from headrace.state.disk_space import free_bytes, is_full, space_for
from headrace.state.files import Files


def test_a_write_that_finds_no_room_names_the_folder_and_what_is_free(tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFullError) as failure,
        space_for(f"{tmp_path}/not/there/file", 12_345),
        open("/dev/full", "wb", buffering=0) as full,  # every write finds no room
    ):
        full.write(b"x")
    said = str(failure.value)
    assert f"{tmp_path}/not/there has " in said
    assert " bytes free, 12,345 bytes are to be written" in said
    assert "make room" in said
    assert isinstance(failure.value, HeadraceError)
    assert isinstance(failure.value, OSError)  # who cares for any failed write still hears of it
    assert failure.value.errno == errno.ENOSPC
    again = pickle.loads(pickle.dumps(failure.value))
    assert (type(again), str(again), again.errno) == (DiskFullError, said, errno.ENOSPC)


def test_another_failure_of_a_write_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), space_for(f"{tmp_path}/file", 1):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_an_exhausted_quota_is_no_room_too() -> None:
    assert is_full(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)))
    assert is_full(OSError("Error writing bytes to file. Detail: No space left on device"))
    assert not is_full(OSError(errno.EIO, os.strerror(errno.EIO)))


def test_free_room_is_that_of_the_next_folder_that_is_there(tmp_path: Path) -> None:
    assert free_bytes(f"{tmp_path}/a/b") == pytest.approx(free_bytes(str(tmp_path)), rel=0.5)
    assert free_bytes("nowhere/at/all") is not None  # a relative path: where we are


@pytest.mark.parametrize("way", ["write", "create"])
def test_files_tell_of_a_full_disk_and_leave_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = Files(str(tmp_path))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=f"{tmp_path}/incarnations has .*, 4 bytes are to be"):
        getattr(files, way)("incarnations/1.json", b"data")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
