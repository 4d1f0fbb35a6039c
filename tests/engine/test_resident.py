"""A task that stays answers what it is asked, fails as any task, and makes room for others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headrace.engine import resident
from headrace.engine.resident import ResidentEpochs
from headrace.worker.task import resident as task

SECONDS = 20.0  # that a busy machine may take


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause of a busy machine makes a task leave."""
    for module in (resident, task):
        monkeypatch.setattr(module, "IDLE_SECONDS", SECONDS)
    monkeypatch.setattr(task, "STAY_SECONDS", SECONDS)


class Jobs:
    """Threads in place of Spark's jobs."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.begun = self.over = 0
        self.answer = answer

    def start(self, path: str) -> None:
        self.begun += 1
        try:
            task.serve(path, self.answer)
        finally:
            self.over += 1


def reversed_bytes(request: bytes) -> bytes:
    if request == b"fail":
        msg = "user code"
        raise ValueError(msg)
    return request[::-1]


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(reversed_bytes)


@pytest.fixture
def epochs(jobs: Jobs) -> Iterator[ResidentEpochs]:
    made = ResidentEpochs(jobs.start)
    made.ended()  # an epoch by a job of its own
    yield made
    made.leave(wait=True)
    assert resident._only.acquire(timeout=SECONDS)
    resident._only.release()


def eventually(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.usefixtures("patient")
def test_one_job_answers_many_requests_of_any_size(epochs: ResidentEpochs, jobs: Jobs) -> None:
    for request in (b"", b"abc", bytes(range(256)) * 20_000, b"again"):
        assert epochs.answer(request) == request[::-1]
        epochs.ended()
    assert jobs.begun == 1


@pytest.mark.usefixtures("patient")
def test_a_failure_is_that_of_the_job_and_the_next_request_has_a_job_of_its_own(
    epochs: ResidentEpochs, jobs: Jobs
) -> None:
    assert epochs.answer(b"ab") == b"ba"
    with pytest.raises(ValueError, match="user code"):
        epochs.answer(b"fail")
    assert epochs.answer(b"cd") == b"dc"
    assert (jobs.begun, jobs.over) == (2, 1)


@pytest.mark.usefixtures("patient")
def test_a_task_leaves_when_it_is_told_and_when_it_has_stayed_long(
    epochs: ResidentEpochs, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert epochs.answer(b"ab") == b"ba"
    epochs.leave()
    eventually(lambda: jobs.over == 1)
    monkeypatch.setattr(task, "STAY_SECONDS", 0.0)
    assert epochs.answer(b"ab") == b"ba"
    eventually(lambda: jobs.over == 2)
    eventually(lambda: not resident._only.locked())
    assert epochs.answer(b"cd") == b"dc"
    assert jobs.begun == 3


def test_a_task_that_nobody_asks_leaves_and_one_request_does_not_bring_it_back(
    epochs: ResidentEpochs, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "IDLE_SECONDS", SECONDS)
    monkeypatch.setattr(task, "IDLE_SECONDS", 0.02)
    assert epochs.answer(b"ab") == b"ba"
    eventually(lambda: jobs.over == 1)
    assert epochs.answer(b"cd") is None, "it has left: the caller runs a job of its own"
    epochs.ended()
    monkeypatch.setattr(resident, "IDLE_SECONDS", 0.0)
    assert epochs.answer(b"ef") is None, "epochs are far apart: no core is held for the next one"
    assert jobs.begun == 1


@pytest.mark.usefixtures("patient")
def test_a_second_run_of_the_process_gets_no_task_while_the_first_has_one(
    epochs: ResidentEpochs, jobs: Jobs
) -> None:
    other = ResidentEpochs(jobs.start)
    other.ended()
    assert epochs.answer(b"ab") == b"ba"
    assert other.answer(b"cd") is None
    epochs.leave(wait=True)
    assert other.answer(b"cd") == b"dc"
    other.leave(wait=True)


def test_a_driver_that_is_slow_to_take_an_answer_gets_it_whole(
    tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a pause of the driver's is an epoch that is done, not a task that idles."""
    monkeypatch.setattr(task, "IDLE_SECONDS", 0.2)
    with ThreadPoolExecutor(1) as pool, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        door.listen(1)
        job = pool.submit(jobs.start, str(tmp_path / "door"))
        link, _ = door.accept()
        with link:
            link.settimeout(SECONDS)
            large = bytes(8 << 20)
            threading.Thread(target=link.sendall, args=(task.framed(large),), daemon=True).start()
            time.sleep(1.0)
            found = bytearray()
            while task.unframed(found) is None and (part := link.recv(1 << 20)):
                found += part
        assert task.unframed(found) == task.STAYS + large
        job.result(SECONDS)


def test_where_tasks_do_not_find_the_socket_it_is_tried_once() -> None:
    begun: list[str] = []
    epochs = ResidentEpochs(begun.append)  # a job that ends without a task that asks
    for _ in range(3):
        epochs.ended()
        assert epochs.answer(b"ab") is None
    assert len(begun) == 1


@pytest.mark.usefixtures("patient")
def test_a_task_that_is_killed_in_a_request_is_a_failure_not_an_answer(
    epochs: ResidentEpochs, jobs: Jobs
) -> None:
    """Its end of the socket closes in the middle; what Spark says of it comes later."""
    working = threading.Event()

    def dies(_: bytes) -> bytes:
        working.set()
        time.sleep(0.05)
        msg = "Python worker exited unexpectedly"
        raise RuntimeError(msg)

    jobs.answer = dies
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        epochs.answer(b"ab")
    assert working.is_set()
