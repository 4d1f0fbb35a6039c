"""Small epochs by a task of Spark's that stays for many of them.

Starting a job costs a server of Spark Connect more than a small epoch takes: the plan travels, is
analysed, optimised, planned and scheduled each time. So a task stays for the next epoch while small
ones follow closely, and is asked by a socket in a folder that only this user can enter. It leaves
by itself soon (`worker/task/resident.py`), and at once before any other job of the run.

Gives None where no task answers; the epoch then has not begun, and is run by a job of its own. A
task that fails fails its job, and what Spark says of that is raised, as for any epoch.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.engine.host import TaskRows
from headrace.engine.leftovers import own_folder
from headrace.engine.listening import PATH_BYTES
from headrace.engine.spark.one_task import reports_of
from headrace.worker.entry import IDLE_SECONDS, LEAVES, framed, unframed

_LOG = logging.getLogger(__name__)

#: Runs the job of a task that is told where to find the driver; comes back when the job is over.
Start = Callable[[str], None]

#: One for the process: pipelines side by side would else wait for each other's cores.
_only = threading.Lock()
#: How long a run that ends waits for its task to be gone.
_PATIENCE_SECONDS = 10.0


class ResidentTask:
    """A task of Spark's, and the way to it.

    Args:
        path: where to listen.
        start: starts the job.
        over: called when the job is over.
    """

    def __init__(self, path: str, start: Start, over: Callable[[], None]) -> None:
        self._path, self._start, self._over = path, start, over
        self._failure: BaseException | None = None
        self._link: socket.socket | None = None
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(path)
        self._door.listen(1)
        self._ended, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="headrace-resident", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._start(self._path)
        except BaseException as failure:  # noqa: BLE001 (raised where an answer is waited for)
            self._failure = failure
        finally:
            self._end.close()  # wakes whoever waits
            self._over()

    def ask(self, request: bytes) -> tuple[bytes | None, bool]:
        """Give the answer, and whether the task stays; no answer: the request has not begun.

        Raises:
            Exception: what Spark says of a task that has failed.
        """
        try:
            answer = self._answer(request)
        except OSError:  # it has left, or died: its job says which
            answer = None
        if answer is not None:
            return answer[1:], answer[:1] != LEAVES
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return None, False

    def _answer(self, request: bytes) -> bytes | None:
        if self._link is None:
            if not self._is_ready(self._door):
                return None
            self._link, _ = self._door.accept()
        self._link.sendall(framed(request))
        data = bytearray()
        while (message := unframed(data)) is None:
            part = self._link.recv(1 << 20) if self._is_ready(self._link) else b""
            if not part:
                return None
            data += part
        return message

    def _is_ready(self, awaited: socket.socket) -> bool:
        """Wait until there is something to read, or the job is over and there will be nothing."""
        with selectors.DefaultSelector() as selector:
            for each in (awaited, self._ended):
                selector.register(each, selectors.EVENT_READ)
            return any(key.fileobj is awaited for key, _ in selector.select())

    def leave(self) -> None:
        """Ask no more, in the thread that asks: the task leaves."""
        if self._link is not None:
            with suppress(OSError):  # it may have left
                self._link.shutdown(socket.SHUT_RDWR)  # a fork of this process may hold it too
            self._link.close()
        for each in (self._door, self._ended):
            each.close()

    def wait(self, seconds: float) -> None:
        """Wait until the job is over."""
        self._thread.join(seconds)


class ResidentEpochs:
    """The small epochs of one run, as far as a task that stays runs them.

    Args:
        start: starts the job of such a task.
    """

    def __init__(self, start: Start) -> None:
        self._start = start
        self._folder = own_folder("resident")
        self._task: ResidentTask | None = None
        self._count = 0
        self._was_answered = False
        self._last = float("-inf")  # when the last small epoch ended
        self._is_possible = len(str(self._folder / "0000000")) <= PATH_BYTES

    def answer(self, request: bytes) -> bytes | None:
        """Let a task that stays do what is asked; None: there is none, and nothing has begun."""
        now = time.monotonic()
        # It is about to leave by itself.
        if now - self._last > IDLE_SECONDS / 2:
            self.leave()
        task = self._task or self._next(now)
        if task is None:
            return None
        stays = False
        try:
            answer, stays = task.ask(request)
        finally:
            if not stays:
                self.leave()
        if answer is None and not self._was_answered:
            _LOG.debug("no task finds this driver's socket: each epoch is a job of its own")
            self._is_possible = False
        self._was_answered = self._was_answered or answer is not None
        return answer

    def ended(self) -> None:
        """Hear that a small epoch of the run has ended, whoever has run it."""
        self._last = time.monotonic()

    def _next(self, now: float) -> ResidentTask | None:
        """Start a task, if epochs follow closely and no other run of this process has one."""
        if not self._is_possible or now - self._last > IDLE_SECONDS / 2:
            return None
        if not _only.acquire(blocking=False):
            return None
        self._count += 1
        try:
            self._task = ResidentTask(
                str(self._folder / str(self._count)), self._start, _only.release
            )
        except OSError as error:
            _only.release()
            self._is_possible = False
            _LOG.debug("each epoch is a job of its own: %s", error)
        return self._task

    def leave(self, *, wait: bool = False) -> None:
        """Let the task leave: another job is about to start, or none will for some time."""
        task, self._task = self._task, None
        if task is not None:
            task.leave()
            if wait:
                task.wait(_PATIENCE_SECONDS)


class ResidentRows:
    """The rows of an epoch that a task which stays may run.

    Args:
        epochs: what asks such a task.
        asked: what it is asked.
        build: gives the same rows by a job of their own, where there is no such task.
    """

    def __init__(
        self, epochs: ResidentEpochs, asked: bytes, build: Callable[[], TaskRows]
    ) -> None:
        self._epochs, self._asked, self._build = epochs, asked, build
        self._built: TaskRows | None = None

    def keep(self) -> None:
        """Keep the rows, by a job: a task that stays has reports alone."""
        self._epochs.leave()
        self._built = self._build()
        self._built.keep()

    def reports(self) -> list[tuple[int, bytes]]:
        """Ask the task that stays, or run a job."""
        if self._built is None:
            answer = self._epochs.answer(self._asked)
            if answer is not None:
                self._epochs.ended()
                return reports_of(answer)
            self._built = self._build()
        found = self._built.reports()
        self._epochs.ended()
        return found

    def output(self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0) -> Any:
        """Give what was sent to an output channel, as a DataFrame."""
        assert self._built is not None, "sinks have not asked for rows"
        return self._built.output(channel, columns, schema, order_bytes)

    def forget(self) -> None:
        """Let the rows go."""
        if self._built is not None:
            self._built.forget()
