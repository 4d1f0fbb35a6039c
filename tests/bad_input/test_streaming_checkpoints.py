"""Checkpoints that are damaged, taken, of another pipeline, or on a disk without room.

Each is met by one clear error that names the file or folder, or by a recovery that loses nothing.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.reading import epochs_of, read_manifest
from headrace.errors import CheckpointError, StateError
from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from headrace.state.disk import Disk
from headrace.state.files import Files
from tests.streaming.harness import Gathered, Inbox, checkpointed, finished

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

TOTAL = ReadModifyWriteStateSpec("total", coders.VarIntCoder())
TOTAL_PARAM = beam.DoFn.StateParam(TOTAL)
EVENTS = "key string, value long"


class Running(beam.DoFn):  # type: ignore[misc]
    """Gives the running total of each key; `meddle` may do harm before."""

    def __init__(self, meddle: Callable[[], None]) -> None:
        self._meddle = meddle

    def process(self, element: Any, total: Any = TOTAL_PARAM) -> Iterator[Any]:
        self._meddle()
        total.write((total.read() or 0) + element[1])
        yield element[0], total.read()


def nothing() -> None:
    """Do no harm."""


def pairs(p: Any, inbox: Inbox, value_type: type = int) -> Any:
    read = p | "Read" >> ReadFromSpark(inbox.frame(EVENTS))
    return read | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(
        tuple[str, value_type]  # type: ignore[valid-type]
    )


def run_totals(
    folder: Path, inbox: Inbox, gathered: Gathered, meddle: Callable[[], None] = nothing
) -> StreamResult:
    p = checkpointed(folder, "--available_now", shards=1)
    (
        pairs(p, inbox)
        | "Running" >> beam.ParDo(Running(meddle))
        | "Gather" >> gathered.sink("key string, total bigint")
    )
    return finished(p)


def row(key: str, value: int) -> dict[str, Any]:
    return {"key": key, "value": value}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Inbox, Gathered]:
    """A folder with the checkpoint of a run that has seen one file. Not to be changed."""
    folder = tmp_path_factory.mktemp("good")
    inbox, gathered = Inbox(folder / "in"), Gathered()
    inbox.put(row("a", 1))
    run_totals(folder, inbox, gathered)
    inbox.put(row("a", 2))
    return folder, inbox, gathered


@pytest.fixture
def copied(good: tuple[Path, Inbox, Gathered], tmp_path: Path) -> Path:
    """The same checkpoint elsewhere, without the local stores: they would hide what is damaged."""
    shutil.copytree(good[0] / "checkpoint", tmp_path / "checkpoint")
    return tmp_path


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Tear off the last byte of a file."""
    path.write_bytes(path.read_bytes()[:-1])


def newest_log(checkpoint: Path) -> Path:
    """The last file of state that the newest manifest names."""
    files = Files(str(checkpoint))
    manifest = read_manifest(files, epochs_of(files)[-1])
    return checkpoint / max(manifest.files())


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
def test_a_damaged_change_log_is_named_and_not_read(
    good: tuple[Path, Inbox, Gathered], copied: Path, harm: Callable[[Path], None]
) -> None:
    log = newest_log(copied / "checkpoint")
    whole = log.read_bytes()
    harm(log)
    with pytest.raises(StateError, match=log.name) as failure:
        run_totals(copied, good[1], Gathered())
    assert "cannot be used" in str(failure.value)
    assert "copy of the checkpoint" in str(failure.value)  # what to do
    log.write_bytes(whole)
    after = Gathered()
    run_totals(copied, good[1], after)
    assert after.rows == [("a", 3)]


@pytest.mark.parametrize("harm", [flip, cut])
def test_a_damaged_manifest_is_named_and_the_remedy_told(
    good: tuple[Path, Inbox, Gathered], copied: Path, harm: Callable[[Path], None]
) -> None:
    manifest = max((copied / "checkpoint" / "manifests").iterdir())
    harm(manifest)
    with pytest.raises(CheckpointError, match=manifest.name) as failure:
        run_totals(copied, good[1], Gathered())
    assert "is damaged: its checksum does not fit" in str(failure.value)
    assert "Restore the file" in str(failure.value)


def test_the_checkpoint_of_another_pipeline_is_refused_with_the_differences(
    good: tuple[Path, Inbox, Gathered], copied: Path
) -> None:
    p = checkpointed(copied, "--available_now", shards=1)
    (
        pairs(p, good[1])
        | "Other" >> beam.ParDo(Running(nothing))
        | "Gather" >> Gathered().sink("key string, total bigint")
    )
    with pytest.raises(CheckpointError) as failure:
        finished(p)
    told = str(failure.value)
    assert str(copied / "checkpoint") in told
    assert "step 'Other' is new" in told
    assert "step 'Running' is gone" in told
    assert "Use a new checkpoint folder, or restore the old pipeline" in told


def test_a_second_driver_on_the_same_checkpoint_is_refused_and_told_who_has_it(
    good: tuple[Path, Inbox, Gathered], copied: Path
) -> None:
    files = Files(str(copied / "checkpoint"))
    description = read_description_json(files)
    before = len(list((copied / "checkpoint" / "incarnations").iterdir()))
    with Checkpoint.open(str(copied / "checkpoint"), description, now=0):
        with pytest.raises(CheckpointError, match=f"is in use by process {os.getpid()}"):
            run_totals(copied, good[1], Gathered())
        # The refused one has claimed nothing, so the first can still commit.
        assert len(list((copied / "checkpoint" / "incarnations").iterdir())) == before + 1
    after = Gathered()
    run_totals(copied, good[1], after)
    assert after.rows == [("a", 3)]


def read_description_json(files: Files) -> dict[str, Any]:
    from headrace.engine.checkpoint.reading import read_description

    found = read_description(files)
    assert found is not None
    return found.to_json()


class NoRoom:
    """While a flag lies there, this worker's disk is full."""

    def __init__(self, flag: Path) -> None:
        self._flag = str(flag)

    def __call__(self) -> None:
        put, flag = Disk._put, self._flag

        def refuse(self: Disk, path: str, data: bytes) -> None:
            if os.path.exists(flag):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            put(self, path, data)

        Disk._put = refuse  # type: ignore[method-assign]


def test_a_change_log_that_finds_no_room_fails_the_epoch_and_nothing_else(
    good: tuple[Path, Inbox, Gathered], copied: Path
) -> None:
    flag = copied / "flag"
    flag.touch()
    after = Gathered()
    with pytest.raises(StateError, match="No space left on device") as failure:
        run_totals(copied, good[1], after, NoRoom(flag))
    assert "make room" in str(failure.value)
    assert str(copied / "checkpoint" / "state") in str(failure.value)
    assert after.rows == []
    assert list((copied / "checkpoint").rglob(".writing-*")) == []
    flag.unlink()
    run_totals(copied, good[1], after)
    assert after.rows == [("a", 3)]


def test_a_manifest_that_finds_no_room_fails_the_epoch_and_nothing_else(
    good: tuple[Path, Inbox, Gathered], copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Files.create

    def refuse(self: Files, name: str, data: bytes) -> bool:
        if name.startswith("manifests/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path(name))
        return create(self, name, data)

    after = Gathered()
    with monkeypatch.context() as patch:
        patch.setattr(Files, "create", refuse)
        with pytest.raises(CheckpointError, match="No space left on device") as failure:
            run_totals(copied, good[1], after)
    assert str(copied / "checkpoint" / "manifests") in str(failure.value)
    assert "make room" in str(failure.value)
    # The sink has the epoch, the checkpoint not yet: the same epoch comes again and replaces it.
    assert after.rows == [("a", 3)]
    run_totals(copied, good[1], after)
    assert after.rows == [("a", 3)]


def test_a_folder_for_local_stores_that_cannot_be_used_is_named(
    good: tuple[Path, Inbox, Gathered], copied: Path
) -> None:
    (copied / "local").write_text("a file, not a folder", encoding="utf-8")
    with pytest.raises(StateError, match=str(copied / "local")):
        run_totals(copied, good[1], Gathered())
    (copied / "local").unlink()
    after = Gathered()
    run_totals(copied, good[1], after)
    assert after.rows == [("a", 3)]


class Killed:
    """The first time, this worker dies in the middle of writing its change log."""

    def __init__(self, flag: Path) -> None:
        self._flag = str(flag)

    def __call__(self) -> None:
        put, flag = Disk._put, self._flag

        def die(self: Disk, path: str, data: bytes) -> None:
            if os.path.exists(flag):
                os.unlink(flag)
                Path(path).write_bytes(data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            put(self, path, data)

        Disk._put = die  # type: ignore[method-assign]


def test_an_epoch_whose_worker_was_killed_while_it_wrote_is_run_again(
    good: tuple[Path, Inbox, Gathered], copied: Path
) -> None:
    flag = copied / "flag"
    flag.touch()
    after = Gathered()
    result = run_totals(copied, good[1], after, Killed(flag))
    assert not flag.exists()
    assert result.state == "DONE"
    assert after.rows == [("a", 3)]


def test_another_input_folder_is_refused_before_spark_looks_into_its_log(
    copied: Path, tmp_path: Path
) -> None:
    other = Inbox(tmp_path / "elsewhere")
    other.put(row("a", 2))
    with pytest.raises(CheckpointError, match=r"'Read' reads FileSource\[.*elsewhere\], and"):
        run_totals(copied, other, Gathered())
