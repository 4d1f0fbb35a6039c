"""Two drivers on one checkpoint that cannot be locked: numbers and conditions keep them apart.

On an S3, and on a folder whose file system has no locks. The drivers are processes of their own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.engine.checkpoint.fencing import incarnations_of
from headrace.engine.checkpoint.reading import epochs_of, read_manifest
from headrace.state.files import Files
from tests.engine.driver_process import NO_LOCKS, STOP_EPOCH, committed, opened
from tests.s3 import S3

ROOT = Path(__file__).parents[2]
DRIVERS = 4
ROUNDS = {"s3": 50 if "HEADRACE_SLOW" in os.environ else 12, "no_locks": 50}


@pytest.fixture(params=["s3", "no_locks"])
def place(request: pytest.FixtureRequest, s3: S3, tmp_path: Path) -> str:
    return s3.place(tmp_path.name) if request.param == "s3" else str(tmp_path / "checkpoint")


@contextmanager
def driver(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.driver_process", *arguments], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, NO_LOCKS: "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def below(place: str, name: str) -> str:
    base, mark, options = place.partition("?")
    return f"{base}/{name}{mark}{options}"


@pytest.mark.timeout(300)
def test_of_drivers_that_start_at_once_each_gets_a_number_and_an_epoch_has_one_manifest(
    place: str, request: pytest.FixtureRequest
) -> None:
    drivers = [driver("race") for _ in range(DRIVERS)]
    with drivers[0] as a, drivers[1] as b, drivers[2] as c, drivers[3] as d:
        processes = (a, b, c, d)
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        commits = 0
        for number in range(ROUNDS[request.node.callspec.params["place"]]):
            folder = below(place, str(number))
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{folder}\n")
                process.stdin.flush()
            answers = [json.loads(p.stdout.readline()) for p in processes if p.stdout is not None]
            files = Files(folder)
            assert sorted(number for number, _ in answers) == [1, 2, 3, 4]
            assert [start.number for start in incarnations_of(files)] == [1, 2, 3, 4]
            said = {epoch: mine for mine, epochs in answers for epoch in epochs}
            assert len(said) == sum(len(epochs) for _, epochs in answers), "one epoch, two commits"
            # One that was overtaken right after its creation may be told so instead.
            assert said.keys() <= set(epochs_of(files))
            assert said == {epoch: read_manifest(files, epoch).incarnation for epoch in said}
            commits += len(said)
        assert commits, "no driver came to commit anything: nothing was shown"


@pytest.mark.parametrize("when", ["begun", "looked", "created"])
def test_a_driver_that_was_stopped_in_its_commit_never_replaces_what_the_next_one_wrote(
    place: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)  # the other one has the folder open too
    with driver("stop", place, when) as old:
        assert os.WIFSTOPPED(os.waitpid(old.pid, os.WUNTRACED)[1])
        with opened(place) as new:
            counted = STOP_EPOCH + (when == "created")
            assert (new.incarnation, new.next_epoch) == (2, counted)
            mine = committed(new, 40)
            assert mine == list(range(counted, counted + 40))
            kept = {epoch: new.files.read(f"manifests/{epoch:08d}.json") for epoch in mine[-3:]}
            assert STOP_EPOCH not in epochs_of(new.files), "the sweep is a part of this"
            os.kill(old.pid, signal.SIGCONT)
            told, complaint = old.communicate(timeout=60)
            assert json.loads(told) == list(range(STOP_EPOCH))
            assert "incarnation 2" in complaint and "has taken checkpoint" in complaint
            assert {epoch: new.files.read(f"manifests/{epoch:08d}.json") for epoch in kept} == kept
            assert committed(new, 1) == [mine[-1] + 1]
    with opened(place) as third:
        assert third.newest is not None
        assert (third.newest.incarnation, third.next_epoch) == (2, mine[-1] + 2)
