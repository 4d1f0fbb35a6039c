"""Folders whose content is decoded: whose they are, and whom they let in."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from headrace.errors import CheckpointError, StateError
from headrace.state import private
from headrace.state.files import Files
from headrace.state.private import Facts, Guard, fault, make_below, make_folder, private_folder
from headrace.state.trust import check_trusted

ME, ROOT, OTHER, GROUP = 1000, 0, 1001, 50
FOLDER, LINK, FILE = stat.S_IFDIR, stat.S_IFLNK, stat.S_IFREG

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def facts(mode: int, owner: int = ME, group: int = 7) -> Facts:
    return Facts(owner=owner, group=group, mode=mode)


SAFE = [
    (facts(FOLDER | 0o700), Guard.PRIVATE),
    (facts(FOLDER | 0o2700), Guard.PRIVATE),  # a set-group bit comes from the folder above
    (facts(FOLDER | 0o1777, ROOT), Guard.PARENT),  # as /tmp is
    (facts(FOLDER | 0o1777), Guard.PARENT),
    (facts(FOLDER | 0o755, ROOT), Guard.PARENT),
    (facts(FOLDER | 0o755), Guard.UNWRITTEN),
    (facts(FILE | 0o644, ROOT), Guard.UNWRITTEN),
    (facts(LINK | 0o777), Guard.UNWRITTEN),
]


@pytest.mark.parametrize(("found", "guard"), SAFE)
def test_what_nobody_else_can_change_is_safe(found: Facts, guard: Guard) -> None:
    assert fault(found, ME, guard) is None


UNSAFE = [
    (facts(FOLDER | 0o700, OTHER), Guard.PRIVATE, "belongs to user 1001, and .* runs as user 1000"),
    (facts(FOLDER | 0o700, ROOT), Guard.PRIVATE, "belongs to user 0"),
    (facts(FOLDER | 0o750), Guard.PRIVATE, "its mode 0750 lets others in"),
    (facts(FOLDER | 0o701), Guard.PRIVATE, "its mode 0701 lets others in"),
    (facts(LINK | 0o777), Guard.PRIVATE, "a symbolic link"),
    (facts(FILE | 0o600), Guard.PRIVATE, "not a folder"),
    (facts(FOLDER | 0o777, ROOT), Guard.PARENT, "its mode 0777 lets others write"),
    (facts(FOLDER | 0o1777, OTHER), Guard.PARENT, "belongs to user 1001"),
    (facts(FOLDER | 0o775), Guard.UNWRITTEN, "its mode 0775 lets others write"),
    (facts(FOLDER | 0o1777), Guard.UNWRITTEN, "its mode 1777 lets others write"),
    (facts(FILE | 0o602), Guard.UNWRITTEN, "its mode 0602 lets others write"),
    (facts(FILE | 0o600, OTHER), Guard.UNWRITTEN, "belongs to user 1001"),
    (facts(LINK | 0o777, OTHER), Guard.UNWRITTEN, "belongs to user 1001"),
]


@pytest.mark.parametrize(("found", "guard", "told"), UNSAFE)
def test_what_another_made_or_can_change_is_not(found: Facts, guard: Guard, told: str) -> None:
    reason = fault(found, ME, guard)
    assert reason is not None
    assert re.search(told, reason)


def test_root_does_not_trust_the_folders_of_users() -> None:
    found = fault(facts(FOLDER | 0o700, ME), ROOT, Guard.UNWRITTEN)
    assert found == "it belongs to user 1000, and this process runs as user 0"


def test_a_group_is_trusted_only_where_it_is_named_and_never_the_rest() -> None:
    shared = facts(FOLDER | 0o2770, OTHER, GROUP)
    assert fault(shared, ME, Guard.UNWRITTEN, GROUP) is None
    assert fault(shared, ME, Guard.UNWRITTEN, GROUP + 1) is not None
    assert fault(facts(FOLDER | 0o2777, ME, GROUP), ME, Guard.UNWRITTEN, GROUP) is not None


# -- folders of ours


def test_a_private_folder_is_made_with_its_parent_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "own"
    before = os.umask(0o000)
    try:
        private_folder(path)
        private_folder(path)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)]
    assert modes == [0o700, 0o700, 0o755]


def test_an_open_folder_a_link_and_a_file_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.mkdir(mode=0o700)
    path.chmod(0o755)
    with pytest.raises(StateError, match=f"{path} is not safe.*0755 lets others in") as told:
        private_folder(path)
    assert "Remove it, or name another folder by --state_dir" in str(told.value)
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(StateError, match="link is not safe.*symbolic link"):
        private_folder(tmp_path / "link")
    (tmp_path / "file").touch(mode=0o600)
    with pytest.raises(StateError, match="file is not safe.*not a folder"):
        private_folder(tmp_path / "file")


def test_a_parent_in_which_others_can_replace_our_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StateError, match=f"{tmp_path} is not safe.*could replace what is in it"):
        private_folder(tmp_path / "own")
    tmp_path.chmod(0o1777)
    private_folder(tmp_path / "own")


@needs_root
def test_a_folder_that_another_made_first_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, -1)
    with pytest.raises(StateError, match="belongs to user 65534, and this process runs as user 0"):
        private_folder(path)
    assert os.listdir(path) == []


def test_another_user_gets_words_and_no_bare_permission_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StateError, match="own cannot be used.*Permission denied.*--state_dir"):
        private_folder(tmp_path / "own")


# -- file systems with rules of their own


def test_a_file_system_that_keeps_no_modes_is_warned_of_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on many mounts of foreign disks: all is shown as 0777 and as one owner's."""
    path = tmp_path / "checkpoint"
    Files(str(path)).write("manifests/1", b"")
    (path / "manifests" / "1").chmod(0o777)
    path.chmod(0o777)
    device = path.stat().st_dev
    shown = Facts(owner=os.geteuid(), group=0, mode=FILE | 0o777, device=device)
    monkeypatch.setattr(private, "_sample", lambda folder: shown)
    check_trusted(path)
    assert f"{path} is on a file system that keeps no modes" in caplog.text


def test_where_a_file_system_gives_us_another_owner_that_owner_is_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root meets it on a network mount that maps root to nobody."""
    device, elsewhere = tmp_path.stat().st_dev, os.geteuid() + 1
    squashed = Facts(owner=elsewhere, group=0, mode=FILE | 0o600, device=device)
    monkeypatch.setattr(private, "_sample", lambda folder: squashed)
    judge = private.Judge()
    mapped = Facts(owner=elsewhere, group=0, mode=FOLDER | 0o700, device=device)
    assert judge.fault(tmp_path, mapped, Guard.UNWRITTEN) is None
    another = Facts(owner=elsewhere + 1, group=0, mode=FOLDER | 0o700, device=device)
    assert judge.fault(tmp_path, another, Guard.UNWRITTEN) is not None


def test_looking_whether_modes_are_kept_leaves_nothing_behind(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert private.Judge().fault(tmp_path, Facts.of(tmp_path.stat()), Guard.PRIVATE) is not None
    assert os.listdir(tmp_path) == []


# -- checkpoints


def checkpoint(path: Path) -> Path:
    """A folder with the shape of a checkpoint; the user can read, others too."""
    path.mkdir(mode=0o755)
    path.chmod(0o755)
    files = Files(str(path))
    files.write("manifests/00000001", b"m")
    files.write("state/1-0/log", b"s")
    files.write("pipeline.json", b"p")
    return path


def test_a_checkpoint_that_is_made_can_be_read_by_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0o002)  # as many systems have it
    try:
        check_trusted(tmp_path / "checkpoint")
        Files(str(tmp_path / "checkpoint")).write("state/1-0/log", b"s")
        check_trusted(tmp_path / "checkpoint")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "checkpoint").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "checkpoint" / "state").stat().st_mode) == 0o700


def test_what_we_write_into_an_existing_checkpoint_is_never_refused_later(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        path = checkpoint(tmp_path / "checkpoint")
        check_trusted(path)
        # As Spark does, which knows nothing of us, and as the lock is made.
        (path / "spark" / "0" / "offsets").mkdir(parents=True)
        (path / "spark" / "0" / "offsets" / "0").touch()
        (path / "lock").touch()
        Files(str(path)).write("state/1-1/log", b"s")
        check_trusted(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755  # its readers keep what they had
    assert stat.S_IMODE((path / "state" / "1-1" / "log").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "name", ["", "manifests", "state/1-0", "state/1-0/log", "pipeline.json", "manifests/00000001"]
)
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_checkpoint_that_others_can_write_to_is_refused(
    tmp_path: Path, name: str, mode: int
) -> None:
    path = checkpoint(tmp_path / "checkpoint")
    check_trusted(path)
    (path / name).chmod((path / name).stat().st_mode | mode)
    with pytest.raises(CheckpointError, match="lets others write") as told:
        check_trusted(path)
    assert f"chmod -R go-w {path}" in str(told.value)
    assert (str(path / name) if name else "because of it") in str(told.value)


def test_what_others_cannot_reach_may_have_any_mode(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "checkpoint")
    (path / "state" / "1-0" / "log").chmod(0o666)
    path.chmod(0o700)
    check_trusted(path)


@needs_root
@pytest.mark.parametrize("name", ["", "state", "state/1-0/log"])
def test_what_another_has_put_there_is_refused_even_after_the_folder_was_closed(
    tmp_path: Path, name: str
) -> None:
    path = checkpoint(tmp_path / "checkpoint")
    os.chown(path / name, 65534, -1)
    path.chmod(0o700)
    with pytest.raises(CheckpointError, match="belongs to user 65534") as told:
        check_trusted(path)
    assert "chown" in str(told.value)


def test_a_link_of_ours_is_followed_and_what_it_leads_to_is_looked_at(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "checkpoint")
    (path / "state").rename(tmp_path / "elsewhere")
    (path / "state").symlink_to(tmp_path / "elsewhere")
    (path / "round").symlink_to(path)
    check_trusted(path)
    (tmp_path / "elsewhere" / "1-0").chmod(0o777)
    with pytest.raises(CheckpointError, match="state/1-0: its mode 0777"):
        check_trusted(path)
    path.chmod(0o700)  # closes one way to it, and not the other
    with pytest.raises(CheckpointError, match="state/1-0: its mode 0777"):
        check_trusted(path)


def test_a_group_can_be_declared_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = checkpoint(tmp_path / "checkpoint")
    for one in (path, *path.rglob("*")):
        one.chmod(one.stat().st_mode | 0o020)
    with pytest.raises(CheckpointError, match="HEADRACE_TRUST_GROUP=1"):
        check_trusted(path)
    monkeypatch.setenv("HEADRACE_TRUST_GROUP", "1")
    check_trusted(path)
    path.chmod(0o777)
    with pytest.raises(CheckpointError, match="0777 lets others write"):
        check_trusted(path)


def test_folders_are_made_no_more_open_than_what_they_lie_in(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        make_folder(tmp_path / "closed")
        make_below(tmp_path / "closed" / "a" / "b")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "closed" / "a" / "b").stat().st_mode) == 0o700
