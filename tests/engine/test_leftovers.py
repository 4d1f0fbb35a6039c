"""Temporary folders end with their process, or with the next run after it was killed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headrace.engine.leftovers import NOTE, is_over, note_process, read_note, sweep_folders
from headrace.state.machine import Machine, Process, started, this_process

HERE = Process(
    machine=Machine(host="mill", boot="1"), pid=7, started="100", numbering="pid:[1]"
)


@pytest.mark.parametrize(
    ("process", "now", "over"),
    [
        (HERE, "100", False),
        (HERE, None, True),
        (HERE, "200", True),  # the number is another process's now
        (replace(HERE, machine=Machine(host="mill", boot="0")), "100", True),
        (replace(HERE, machine=Machine(host="barn", boot="0")), None, False),
        (replace(HERE, numbering="pid:[2]"), None, False),  # in a container: not to be seen
        (replace(HERE, started=""), "", False),  # where the kernel does not tell
    ],
)
def test_a_process_is_over_only_if_that_is_certain(
    process: Process, now: str | None, over: bool
) -> None:
    assert is_over(process, HERE, now) is over


def test_this_process_is_known_by_its_number_and_its_start() -> None:
    assert started(os.getpid()) == this_process().started
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert started(ended.pid) is None


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folder(temporary: Path, name: str, process: Process | None) -> Path:
    made = temporary / name
    made.mkdir(mode=0o700)
    (made / "data").touch()
    if process is not None:
        (made / NOTE).write_text(json.dumps(asdict(process)), encoding="utf-8")
    return made


def test_only_folders_of_dead_processes_of_ours_are_swept(temporary: Path) -> None:
    dead = replace(this_process(), started="1")
    folder(temporary, "headrace-checkpoint-dead", dead)
    living = folder(temporary, "headrace-checkpoint-living", this_process())
    foreign = folder(temporary, "other-checkpoint-dead", dead)
    silent = folder(temporary, "headrace-checkpoint-silent", None)
    opened = folder(temporary, "headrace-checkpoint-open", dead)
    opened.chmod(0o755)
    locked = folder(temporary, "headrace-checkpoint-locked", dead)
    (temporary / "headrace-link").symlink_to(living)
    with open(locked / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep_folders() == 1
    kept = {living, foreign, silent, opened, locked, temporary / "headrace-link"}
    assert set(temporary.iterdir()) == kept
    assert sweep_folders() == 1  # nobody holds the lock any more


MAKES_ONE = """
import os, signal, sys
from headrace.engine.leftovers import own_folder
print(own_folder("code"), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_ends_with_its_process_or_after_a_kill_with_the_next_sweep(
    temporary: Path,
) -> None:
    def run(how: str) -> tuple[Path, int]:
        done = subprocess.run(
            [sys.executable, "-c", MAKES_ONE, how], stdout=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.getcwd()},
        )
        return Path(done.stdout.strip()), done.returncode

    made, status = run("ends")
    assert (made.parent, made.exists(), status) == (temporary, False, 0)
    made, status = run("killed")
    assert status == -signal.SIGKILL
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert sweep_folders() == 1
    assert not made.exists()


def test_a_note_is_read_back_and_a_broken_one_says_nothing(tmp_path: Path) -> None:
    note_process(tmp_path)
    assert read_note(tmp_path) == this_process()
    for broken in ("", "{}", "[]", '{"machine": 1}'):
        (tmp_path / NOTE).write_text(broken, encoding="utf-8")
        assert read_note(tmp_path) is None
