"""A process that runs jobs one after the other, and is told and tells of them in lines of JSON.

Systems whose engine needs another environment, or a process of its own, have one. What it starts
is its own too: it is the first of a group of processes, which ends with it. Its errors go to a log,
whose last words are told when it ends before its time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace.errors import TransportError

_PATIENCE_SECONDS = 60.0
_CAUSE = "Caused by: "


class JobProcess:
    """A process that is there once it has said that it is ready.

    Args:
        name: of the engine, as users know it.
        command: what is started.
        env: its environment variables.

    Raises:
        TransportError: it has ended instead; says its last words.
    """

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._name = name
        self._home = tempfile.TemporaryDirectory(
            prefix="headrace-lab-", ignore_cleanup_errors=True
        )
        self._log = Path(self._home.name) / "errors.log"
        self._busy = False
        with self._log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                cwd=self._home.name, env=dict(env), start_new_session=True,
            )
        threading.Thread(target=self._follow, daemon=True).start()
        self._heard("ready")

    def _follow(self) -> None:
        """When the process has ended, end what it has started, which may hold its output open."""
        self._process.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ran(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Let it run a job to its end, and give all that it said; it stays for the next one.

        Raises:
            TransportError: it has ended instead; says its last words.
        """
        assert self._process.stdin is not None
        self._busy = True
        with suppress(BrokenPipeError):  # its last words say why
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        told = self._heard("done")
        self._busy = False
        return told

    def _heard(self, word: str) -> dict[str, Any]:
        """Listen until it has said a word; give all that it said."""
        assert self._process.stdout is not None
        told: dict[str, Any] = {}
        for line in self._process.stdout:
            told |= json.loads(line) if line.startswith("{") else {}
            if told.get(word):
                return told
        self._process.wait()
        said = last_words(self._log.read_text(encoding="utf-8", errors="replace"))
        self.stop()
        msg = f"{self._name} ended with {self._process.returncode}: {said}"
        raise TransportError(msg)

    def stop(self) -> None:
        """End it, and whatever it has started; one that is at work is not waited for."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        if not self._busy:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()
        self._home.cleanup()


def last_words(log: str) -> str:
    """Give the cause that a log ends with: the last one that Java names, else its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(_CAUSE)]
    told = [line for line in lines if not line.startswith(("at ", "..."))]
    return causes[-1].removeprefix(_CAUSE) if causes else (told or ["no words"])[-1]
