"""A checkpoint folder: one driver, whole epochs, nothing damaged taken for good, nothing kept long.

The steps are those numbered in `headrace/engine/checkpoint/checkpoints.py`; each gap has its crash
test.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.checkpoint import checkpoints, fencing, manifests
from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.fencing import incarnations_of
from headrace.engine.checkpoint.manifests import (
    Manifest,
    SourceRecord,
    number_of,
    orphans,
    seal,
    unseal,
)
from headrace.engine.checkpoint.reading import (
    epochs_of,
    is_checkpoint,
    read_description,
    read_manifest,
)
from headrace.errors import CheckpointError
from headrace.plan.sources import ScriptOutput
from headrace.state.chain import Chain, Link
from headrace.state.files import Files

NOON = 1_893_499_200_000_000  # 2030-01-01T12:00:00Z

PIPELINE: dict[str, Any] = {
    "name": "auction",
    "fingerprint": "f00d",
    "shards": 2,
    "stages": [
        {
            "number": 0, "name": "Parse", "superstep": 0, "operators": ["Parse"], "state": {},
        },
        {
            "number": 1, "name": "Sum", "superstep": 1, "operators": ["Sum"],
            "state": {"key coder": "varint"},
        },
    ],
    "channels": [{"label": "Bids", "kind": "group", "coder": "kv", "windowing": "global"}],
}


def other_pipeline() -> dict[str, Any]:
    stages = [PIPELINE["stages"][0], {**PIPELINE["stages"][1], "state": {"key coder": "utf8"}}]
    return {**PIPELINE, "stages": stages}


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def opened(place: str, pipeline: dict[str, Any] | None = None) -> Checkpoint:
    return Checkpoint.open(place, pipeline or PIPELINE, now=NOON)


def link(name: str) -> Link:
    return Link(name=name, size=3, crc=0, rows=1, until=1)


def wrote(checkpoint: Checkpoint, partition: str, epoch: int, attempt: int = 0) -> Link:
    """What a task does: put a file below `state/` that carries epoch, incarnation and attempt."""
    name = f"state/{partition}/{epoch:08d}-{checkpoint.incarnation:08d}-{attempt}.log"
    checkpoint.files.write(name, b"log")
    return link(name)


def commit(
    checkpoint: Checkpoint, partitions: dict[str, Chain] | None = None, **more: Any
) -> Manifest:
    facts: dict[str, Any] = {"watermarks": {}, "sources": SourceRecord(), "batches": {}, **more}
    manifest = checkpoint.manifest(partitions=partitions or {}, **facts)
    checkpoint.commit(manifest)
    return manifest


def commit_epochs(checkpoint: Checkpoint, count: int, logs: int = 2) -> None:
    """Commit epochs whose state is made of the last few logs, and which leave a failed attempt."""
    chain = Chain()
    for _ in range(count):
        epoch = checkpoint.next_epoch
        wrote(checkpoint, "1-0", epoch, attempt=7)  # of a task that failed after writing
        chain = Chain(logs=(*chain.logs, wrote(checkpoint, "1-0", epoch))[-logs:])
        commit(checkpoint, {"1-0": chain})
        checkpoint.sweep()


def test_a_new_folder_begins_with_epoch_0_and_incarnation_1(place: str) -> None:
    with opened(place) as checkpoint:
        assert (checkpoint.incarnation, checkpoint.next_epoch) == (1, 0)
        assert checkpoint.newest is None
    (start,) = incarnations_of(Files(place))
    assert (start.host, start.pid) == (socket.gethostname(), os.getpid())
    assert start.started == "2030-01-01T12:00:00+00:00"


def test_what_was_committed_is_read_back_by_the_next_driver(place: str) -> None:
    chain = Chain(base=(link("state/1-0/a"),), logs=(link("state/1-0/b"), link("state/1-0/c")))
    facts: dict[str, Any] = {
        "watermarks": {"1": [5, -7]}, "metrics": bytes(range(256)),
        "sources": SourceRecord(now=1, clocks={"orders": {"at": [1, None, "x"]}}),
        "batches": {"orders": 41},
    }
    with opened(place) as first:
        commit(first)
        written = commit(first, {"1-0": chain, "1-1": Chain()}, **facts)
    with opened(place) as second:
        assert second.newest == written
        assert (second.incarnation, second.next_epoch) == (2, 2)
    assert written.partitions == {"1-0": chain, "1-1": Chain()}
    for field, value in facts.items():
        assert getattr(written, field) == value


# --- two drivers

HOLD = """
import sys
from headrace.engine.checkpoint.checkpoints import Checkpoint
from tests.engine.test_checkpoints import PIPELINE, NOON
with Checkpoint.open(sys.argv[1], PIPELINE, now=NOON):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def another_driver(place: str) -> Iterator[subprocess.Popen[str]]:
    """A second process that has the checkpoint open until it is told to end, or killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, place], cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def test_a_folder_that_a_live_process_holds_is_refused(
    place: str, another_driver: subprocess.Popen[str]
) -> None:
    with pytest.raises(CheckpointError) as caught:
        opened(place)
    said = str(caught.value)
    assert f"process {another_driver.pid} on host {socket.gethostname()}" in said
    assert "stop it, or use another checkpoint folder" in said
    assert len(incarnations_of(Files(place))) == 1, "a refused driver must not stop the other"


def test_a_folder_whose_driver_was_killed_is_taken_over(
    place: str, another_driver: subprocess.Popen[str]
) -> None:
    another_driver.kill()
    another_driver.wait()
    with opened(place) as checkpoint:
        assert checkpoint.incarnation == 2


def test_two_drivers_in_one_process_are_refused_too(place: str) -> None:
    with opened(place), pytest.raises(CheckpointError, match=f"process {os.getpid()} "):
        opened(place)
    opened(place).close()


def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system without locks: incarnations alone must do."""
    monkeypatch.setattr(checkpoints, "locked", lambda files: None)


def test_a_driver_that_was_overtaken_cannot_commit(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch)
    old = opened(place)
    commit(old)
    new = opened(place)
    with pytest.raises(CheckpointError) as caught:
        commit(old)
    said = str(caught.value)
    assert f"incarnation 2 (process {os.getpid()} on host {socket.gethostname()}" in said
    assert "started at 2030-01-01T12:00:00+00:00" in said
    assert "has taken checkpoint" in said
    assert epochs_of(old.files) == [0]
    commit(new)
    assert epochs_of(old.files) == [0, 1]


def test_a_driver_asleep_between_check_and_creation_never_replaces_an_epoch(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch)
    old = opened(place)
    new = opened(place)
    written = commit(new)
    monkeypatch.setattr(old.files, "exists", lambda name: False)  # what it saw before it slept
    with pytest.raises(CheckpointError, match="incarnation 2 .* has taken checkpoint"):
        commit(old)
    assert read_manifest(new.files, 0) == written


def test_an_older_driver_that_commits_last_makes_the_newer_one_start_again(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch)
    old = opened(place)
    new = opened(place)
    monkeypatch.setattr(old.files, "exists", lambda name: False)
    written = commit(old)
    with pytest.raises(CheckpointError, match="committed by an older driver .* start again"):
        commit(new)
    assert opened(place).newest == written


def nothing_yet(checkpoint: Checkpoint) -> Manifest:
    record = SourceRecord(begun=False)
    return checkpoint.manifest(partitions={}, watermarks={}, sources=record, batches={})


@pytest.mark.parametrize("committed", [0, 2])
def test_without_a_lock_a_driver_that_sleeps_in_its_commit_finds_the_epoch_given_away(
    place: str, monkeypatch: pytest.MonkeyPatch, committed: int
) -> None:
    unlocked(monkeypatch)
    old = opened(place)
    chain = Chain(logs=(link("state/1-0/a"),), version=1, past=(1,))
    for _ in range(committed):
        commit(old, {"1-0": chain}, sources=SourceRecord(now=1), batches={"orders": 7})
    new = opened(place)
    assert new.shut_out(lambda: nothing_yet(new)) == [committed]
    monkeypatch.setattr(old, "check_newest", lambda: None)  # what it saw before it slept
    with pytest.raises(CheckpointError, match="incarnation 2 .* has taken checkpoint"):
        commit(old)
    taken = new.newest
    assert taken is not None and taken.takeover and taken.epoch == committed
    if committed:
        assert (taken.partitions, taken.batches) == ({"1-0": chain}, {"orders": 7})
    commit(new)
    assert epochs_of(new.files) == list(range(committed + 2))


def test_without_a_lock_an_epoch_committed_a_moment_ago_counts(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked(monkeypatch)
    old = opened(place)
    commit(old)
    new = opened(place)
    monkeypatch.setattr(old, "check_newest", lambda: None)
    written = commit(old, sources=SourceRecord(now=2))
    assert new.shut_out(lambda: nothing_yet(new)) == [2]
    assert new.newest is not None and new.newest.sources == written.sources


def test_epochs_given_away_by_drivers_that_died_at_once_are_all_told(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sinks must be told that they have no rows, and nobody knows who came to do that."""
    unlocked(monkeypatch)
    commit(opened(place))
    for start in range(5):
        driver = opened(place)
        assert driver.shut_out(lambda: nothing_yet(driver)) == list(range(1, start + 2))  # noqa: B023
    commit(driver)
    assert opened(place).shut_out(lambda: nothing_yet(driver)) == [7]


def test_with_a_lock_no_epoch_is_given_away(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    with opened(place) as checkpoint:
        assert checkpoint.is_locked
        assert checkpoint.shut_out(lambda: nothing_yet(checkpoint)) == []
        assert checkpoint.next_epoch == 1


def test_a_folder_whose_file_system_has_no_locks_is_not_called_locked(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fencing.fcntl, "flock", refuse)  # type: ignore[attr-defined]
    with opened(place) as checkpoint:
        assert not checkpoint.is_locked


def test_a_number_claimed_at_the_same_moment_is_passed_over(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(place).close()
    files = Files(place)
    for number in (2, 3):
        files.write(f"incarnations/{number:08d}.json", b"{}")
    monkeypatch.setattr(fencing, "numbers", lambda files, folder: [1])
    assert fencing.claimed(files, NOON) == 4


class FarFiles(Files):
    """Files as on an object store: there is nothing to lock."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.is_local = False


def test_a_folder_that_is_not_local_works_the_same_without_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "Files", FarFiles)
    place = tmp_path.as_uri()
    with opened(place) as old, opened(place) as new:
        with pytest.raises(CheckpointError, match="incarnation 2 .* has taken checkpoint"):
            commit(old)
        commit_epochs(new, 11)
    assert not (tmp_path / "lock").exists()
    torn = tmp_path / "state" / "1-0" / ".writing-0a1b-00000001-x.log"
    torn.write_text("torn")
    with opened(place) as third:
        assert (third.incarnation, third.next_epoch) == (3, 11)
        third.sweep()
        assert set(third.files.names("state")) == expected_after_sweep(third.files)
    assert not torn.exists()


def test_only_the_next_epoch_of_this_driver_can_be_committed(place: str) -> None:
    with opened(place) as checkpoint:
        manifest = commit(checkpoint)
        with pytest.raises(CheckpointError, match="epoch 0 .* where epoch 1 .* is next"):
            checkpoint.commit(manifest)


# --- crashes, one for each gap


def test_crash_after_the_claim_costs_a_number_and_nothing_else(place: str) -> None:
    opened(place).close()
    with opened(place) as checkpoint:
        assert (checkpoint.incarnation, checkpoint.next_epoch) == (2, 0)


def test_crash_between_claim_and_description_leaves_a_folder_that_opens(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: Files, name: str, data: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Files, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            opened(place)
    with opened(place) as checkpoint:
        assert checkpoint.incarnation == 2
    assert read_description(Files(place)) is not None


def test_crash_after_the_tasks_wrote_redoes_the_epoch(place: str) -> None:
    with opened(place) as first:
        kept = wrote(first, "1-0", 0)
        commit(first, {"1-0": Chain(logs=(kept,))})
        wrote(first, "1-0", 1)
    with opened(place) as second:
        assert second.next_epoch == 1
        assert second.newest is not None and second.newest.files() == {kept.name}


def test_crash_inside_the_commit_leaves_no_manifest(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as first:
        commit(first)

        def crash(*paths: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(os, "link", crash)
            patch.setattr(os, "unlink", crash)  # the machine is gone: nobody tidies up
            with pytest.raises(KeyboardInterrupt):
                commit(first)
    left = [path.name for path in Path(place, "manifests").iterdir()]
    assert len(left) == 2 and any(name.startswith(".writing-") for name in left)
    with opened(place) as second:
        assert second.next_epoch == 1


def test_crash_after_the_commit_keeps_the_epoch(place: str) -> None:
    with opened(place) as first:
        commit(first)
    with opened(place) as second:
        assert second.next_epoch == 1


def test_crash_in_the_middle_of_a_sweep_leaves_every_manifest_with_its_files(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as first:
        monkeypatch.setattr(first, "sweep", lambda: 0)
        commit_epochs(first, 9)
    with opened(place) as second:
        real, calls = second.files.delete, []

        def crash_later(names: Sequence[str]) -> None:
            calls.append(names)
            if len(calls) > 1:
                raise KeyboardInterrupt
            real(names)

        monkeypatch.setattr(second.files, "delete", crash_later)
        with pytest.raises(KeyboardInterrupt):
            second.sweep()
    files = Files(place)
    assert epochs_of(files) == [6, 7, 8]
    for epoch in epochs_of(files):
        assert all(files.exists(name) for name in read_manifest(files, epoch).files())
    with opened(place) as third:
        third.sweep()
        assert set(files.names("state")) == expected_after_sweep(files)


# --- damage


def damaged(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))


def test_a_damaged_newest_manifest_is_named_with_what_its_removal_means(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
        commit(checkpoint)
    path = Path(place, "manifests", "00000001.json")
    damaged(path, 10, 0)
    with pytest.raises(CheckpointError) as caught:
        opened(place)
    said = str(caught.value)
    assert str(path) in said
    assert "checksum" in said
    assert "goes back to epoch 0, and is safe only if no sink has taken epoch 1 yet" in said
    assert "Spark has not logged its batch (spark/*/commits)" in said
    assert len(incarnations_of(Files(place))) == 1
    path.unlink()
    with opened(place) as checkpoint:
        assert checkpoint.next_epoch == 1


def test_a_damaged_older_manifest_does_not_stop_the_pipeline_but_the_deleting(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(place) as checkpoint:
        commit_epochs(checkpoint, 4)
    damaged(Path(place, "manifests", "00000002.json"), 10, 0)
    files = Files(place)
    before = files.names("state")
    with opened(place) as checkpoint:
        assert "00000002.json is damaged" in caplog.text
        assert "not needed as long as the manifest of epoch 3 is good" in caplog.text
        assert checkpoint.sweep() == 0
        assert files.names("state") == before
        commit_epochs(checkpoint, 2)  # now it is none of the last three
        assert epochs_of(files) == [3, 4, 5]
        assert set(files.names("state")) == expected_after_sweep(files)


def test_a_manifest_under_another_epochs_name_is_not_taken_for_it(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    Path(place, "manifests", "00000000.json").rename(Path(place, "manifests", "00000005.json"))
    with pytest.raises(CheckpointError, match="it is the manifest of epoch 0"):
        opened(place)


def test_files_with_foreign_names_are_no_manifests(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    for name in ("00000007.json~", "7.json", ".00000007.json.crc", "notes.txt"):
        Path(place, "manifests", name).write_text("x")
    with opened(place) as checkpoint:
        assert checkpoint.next_epoch == 1


SAMPLE = Manifest(
    epoch=3, incarnation=2, shards=2, pipeline="0123456789abcdef",
    partitions={
        "1-0": Chain(base=(link("state/1-0/00000001-x.snap"),), logs=(link("state/1-0/b"),))
    },
    watermarks={"1": [0, 5]}, metrics=b"\x00\xffabc", batches={"a": 3},
    sources=SourceRecord(
        now=7, clocks={"a": {"floor": 1}}, read=("b",), steps={"s": 2}, wakeup=9, drained=True,
        marks={ScriptOutput("a: s", "left"): 5}, writer="w",
    ),
).to_bytes()


def test_a_sealed_manifest_is_read_back() -> None:
    assert Manifest.from_bytes(SAMPLE).to_bytes() == SAMPLE


def test_a_manifest_of_the_time_before_typed_sources_is_read() -> None:
    told = {
        "now": 7, "clocks": {"orders": {"floor": 1}}, "read": ["b"], "steps": {"s": 2},
        "marks": {"script:a: s:left": 5}, "wakeup": None, "drained": False, "writer": "w",
    }
    data = seal(
        {"epoch": 3, "incarnation": 2, "shards": 2, "pipeline": "p", "units": {}, "watermarks": {},
         "sources": told, "metrics": "", "done": False, "batches": {}, "takeover": False}
    )
    assert Manifest.from_bytes(data).sources == SourceRecord(
        now=7, clocks={"orders": {"floor": 1}}, read=("b",), steps={"s": 2},
        marks={ScriptOutput("a: s", "left"): 5}, writer="w", begun=True,
    )


def test_a_manifest_with_a_field_of_sources_that_nobody_knows_is_no_manifest() -> None:
    data = seal(
        {"epoch": 3, "incarnation": 2, "shards": 2, "pipeline": "p", "units": {}, "watermarks": {},
         "sources": {"tides": 1}, "metrics": "", "batches": {}}
    )
    with pytest.raises(ValueError, match="not a manifest .*tides"):
        Manifest.from_bytes(data)


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
@settings(max_examples=500)
def test_a_manifest_with_any_byte_changed_is_never_accepted(at: int, by: int) -> None:
    data = bytearray(SAMPLE)
    data[at] ^= by
    with pytest.raises(ValueError, match="checksum"):
        Manifest.from_bytes(bytes(data))


@given(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=3))
def test_a_manifest_cut_short_or_continued_is_never_accepted(length: int, more: bytes) -> None:
    if SAMPLE[:length] + more != SAMPLE:  # what was cut off may come back
        with pytest.raises(ValueError, match="checksum"):
            Manifest.from_bytes(SAMPLE[:length] + more)
    if more:
        with pytest.raises(ValueError, match="checksum"):
            Manifest.from_bytes(SAMPLE + more)


def test_a_file_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unseal(seal({"x": 1})) == {"x": 1}
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "FORMAT", 99)
        newer = seal({"x": 1})
    with pytest.raises(ValueError, match=r"a newer version of headrace \(format 99, this one"):
        unseal(newer)
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "FORMAT", 0)
        older = seal({"x": 1})
    with pytest.raises(ValueError, match=r"by another version of headrace \(format 0, this one"):
        unseal(older)


@pytest.mark.parametrize("name", ["pipeline.json", "manifests/00000000.json"])
def test_a_file_of_a_newer_version_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """To restore or to remove it, the advice for damage, would be the wrong thing to do."""
    files = Files(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "FORMAT", 99)
        files.write(name, seal({"x": 1}))
    read = read_description if name == "pipeline.json" else partial(read_manifest, epoch=0)
    with pytest.raises(CheckpointError) as told:
        read(files)
    assert str(told.value) == (
        f"{tmp_path}/{name} was written by a newer version of headrace (format 99, this one reads "
        f"up to {manifests.FORMAT}): run the pipeline with the version that wrote the checkpoint, "
        "or a later one"
    )


def test_a_sealed_file_that_is_no_manifest_is_refused() -> None:
    for content in ({}, {"metrics": "", "units": []}, {"metrics": "", "units": {}, "epoch": 1}):
        with pytest.raises(ValueError, match="not a manifest"):
            Manifest.from_bytes(seal(content))


@pytest.mark.parametrize("bit", range(8))
def test_a_damaged_description_is_named_and_can_be_written_anew(place: str, bit: int) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    path = Path(place, "pipeline.json")
    damaged(path, 20, bit)
    with pytest.raises(CheckpointError) as caught:
        opened(place)
    assert str(path) in str(caught.value)
    assert "Restore the file, or remove it" in str(caught.value)
    path.unlink()
    with pytest.raises(CheckpointError, match="belongs to another pipeline, and pipeline.json"):
        opened(place, other_pipeline())
    opened(place).close()
    assert read_description(Files(place)) is not None


# --- another pipeline


def test_a_pipeline_whose_state_does_not_fit_is_refused_with_the_differences(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    with pytest.raises(CheckpointError) as caught:
        opened(place, other_pipeline())
    said = str(caught.value)
    assert "\n  * stage 1 (Sum): key coder was varint, is now utf8\n" in said
    assert said.endswith("Use a new checkpoint folder, or restore the old pipeline")
    assert len(incarnations_of(Files(place))) == 1, "a refused pipeline must not stop another"
    opened(place).close()


def test_before_the_first_commit_another_pipeline_may_have_the_folder(place: str) -> None:
    opened(place).close()
    with opened(place, other_pipeline()) as checkpoint:
        commit(checkpoint)
    with pytest.raises(CheckpointError, match="key coder was utf8, is now varint"):
        opened(place)


def test_another_number_of_shards_is_offered_until_an_epoch_was_committed_with_it(
    place: str,
) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    for _ in range(2):  # a crash before the commit changes nothing
        with opened(place, {**PIPELINE, "shards": 5}) as checkpoint:
            assert checkpoint.newest is not None and checkpoint.newest.shards == 2
    with opened(place, {**PIPELINE, "shards": 5}) as checkpoint:
        commit(checkpoint)
    with opened(place, {**PIPELINE, "shards": 3}) as checkpoint:
        assert checkpoint.newest is not None and checkpoint.newest.shards == 5


def test_changed_code_is_noted_and_accepted(place: str) -> None:
    with opened(place) as checkpoint:
        commit(checkpoint)
    opened(place, {**PIPELINE, "fingerprint": "beef"}).close()
    found = read_description(Files(place))
    assert found is not None and found.fingerprint == "beef"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="file/below cannot be a checkpoint folder"):
        opened(str(tmp_path / "file" / "below"))


def test_a_folder_is_a_checkpoint_once_a_driver_has_opened_it(place: str) -> None:
    Path(place).mkdir()
    assert not is_checkpoint(Files(place))
    with opened(place) as checkpoint:
        commit(checkpoint)
    assert is_checkpoint(Files(place))
    Path(place, "pipeline.json").unlink()
    assert is_checkpoint(Files(place))


# --- sweep


def expected_after_sweep(files: Files) -> set[str]:
    """By hand: what the manifests name, and what may belong to an epoch not committed yet."""
    epochs = epochs_of(files)
    assert len(epochs) == 3
    named = set().union(*(read_manifest(files, epoch).files() for epoch in epochs))
    young = {name for name in files.names("state") if number_of(name) in range(epochs[0], 10**8)}
    return named | young


def test_sweep_keeps_exactly_what_the_last_three_manifests_name(place: str) -> None:
    with opened(place) as checkpoint:
        commit_epochs(checkpoint, 1)  # swept at once: from here on every ten commits
        commit_epochs(checkpoint, 9)
        assert epochs_of(checkpoint.files) == list(range(10))
        commit_epochs(checkpoint, 1)
        assert epochs_of(checkpoint.files) == [8, 9, 10]
        # A state partition is its last two logs, so epoch 8 needs those of 7 and 8. Failed attempts
        # of epochs before 8 are looked for at the next start only.
        logs = [name for name in checkpoint.files.names("state") if name.endswith("-0.log")]
        assert [number_of(name) for name in logs] == [7, 8, 9, 10]
    with opened(place) as checkpoint:
        checkpoint.sweep()
        names = checkpoint.files.names("state")
        good = [number_of(name) for name in names if name.endswith("-0.log")]
        failed = [number_of(name) for name in names if name.endswith("-7.log")]
        assert (good, failed) == ([7, 8, 9, 10], [8, 9, 10])


def test_a_file_named_long_ago_stays_as_long_as_it_is_named(place: str) -> None:
    with opened(place) as checkpoint:
        base = wrote(checkpoint, "1-0", 0)
        for _ in range(40):
            commit(checkpoint, {"1-0": Chain(base=(base,))})
            checkpoint.sweep()
    with opened(place) as checkpoint:
        checkpoint.sweep()
        assert checkpoint.files.names("state") == [base.name]


def test_unfinished_files_of_old_epochs_go_and_those_of_young_ones_stay(place: str) -> None:
    with opened(place) as checkpoint:
        commit_epochs(checkpoint, 5)
        folders = Path(place, "state", "1-0"), Path(place, "manifests")
        for folder in folders:
            (folder / ".writing-0a1b-00000001-x.log").write_text("torn")
            (folder / ".writing-0a1b-00000004-x.log").write_text("being written")
    with opened(place) as checkpoint:
        checkpoint.sweep()
        for folder in folders:
            left = [path.name for path in folder.iterdir() if path.name.startswith(".writing-")]
            assert left == [".writing-0a1b-00000004-x.log"]


def test_sweeping_lists_no_folder_but_at_the_start(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place) as checkpoint:
        listed: list[str] = []
        real = checkpoint.files.names
        monkeypatch.setattr(
            checkpoint.files, "names", lambda folder: listed.append(folder) or real(folder)  # type: ignore[func-returns-value]
        )
        commit_epochs(checkpoint, 200)
        assert listed == ["state"]


def test_a_sweep_that_fails_is_told_and_made_up_for(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(place) as checkpoint:

        def refuse(names: Sequence[str]) -> None:
            message = "read-only"
            raise OSError(message)

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.files, "delete", refuse)
            commit_epochs(checkpoint, 5)
        assert "could not be deleted: read-only" in caplog.text
        commit_epochs(checkpoint, 10)
        assert len(epochs_of(checkpoint.files)) <= 3 + checkpoints.SWEEP_COMMITS
        assert min(number_of(name) or 0 for name in checkpoint.files.names("state")) > 5


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=30),
    st.integers(0, 9),
)
def test_orphans_are_exactly_the_old_files_that_nothing_names(
    kept: list[list[int]], there: list[tuple[int, int]], first: int
) -> None:
    def named(epoch: int, partition: int = 0) -> str:
        return f"state/1-{partition}/{epoch:08d}-00000001-0.log"

    present = [
        Manifest(
            epoch=first + place, incarnation=1, shards=1, pipeline="",
            partitions={"1-0": Chain(logs=tuple(link(named(epoch)) for epoch in logs))},
        )
        for place, logs in enumerate(kept)
    ]
    found = orphans([named(*file) for file in there], present)
    needed = {epoch for logs in kept for epoch in logs}
    assert found == [
        named(epoch, partition)
        for epoch, partition in there
        if epoch < first and not (partition == 0 and epoch in needed)
    ]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("state/1-0/00000042-00000001-3.log", 42),
        ("00000042.json", 42),
        ("state/1-0/.writing-00ff00ff00ff-00000042-1.log", 42),
        ("123456789.json", 123456789),
        ("state/1-0/42.log", None),
        ("pipeline.json", None),
        ("state/00000042/readme", None),
    ],
)
def test_the_number_of_a_file_stands_at_the_beginning_of_its_name(
    name: str, number: int | None
) -> None:
    assert number_of(name) == number
