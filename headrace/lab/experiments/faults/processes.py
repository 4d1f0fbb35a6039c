"""Starts the driver that is tortured; kills, stops and continues it or a part of it.

Touches only processes that descend from a driver started here; they are found by the tree of
processes at the moment of the kill.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import psutil

from headrace.lab.commands import python_path

#: What is tortured.
DRIVER = "headrace.lab.experiments.faults.run"
#: How Spark starts its daemon of Python workers; the workers are forked from it. The JVM's own
#: command line has the module's name too, but not so.
DAEMON = "-m headrace.worker.daemon"
#: A JVM whose driver is gone ends by itself, usually at once.
LINGER_SECONDS = 30.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The folders of one run."""

    source: Path
    folder: Path

    @property
    def output(self) -> Path:
        """Where the rows go."""
        return self.folder / "out"

    @property
    def checkpoint(self) -> Path:
        """Where the run is resumed from."""
        return self.folder / "checkpoint"

    @property
    def state(self) -> Path:
        """Where the stores are, which may be lost at any time."""
        return self.folder / "state"

    @property
    def log(self) -> Path:
        """What the drivers said, one after the other."""
        return self.folder / "driver.log"

    @property
    def trace(self) -> Path:
        """Which faults took effect inside the drivers."""
        return self.folder / "inside.log"


class Part(Enum):
    """A part of a run that can be hit alone."""

    DRIVER = "driver"  # the driver's Python
    JVM = "JVM"
    DAEMON = "daemon"  # from which Python workers are forked
    WORKER = "worker"  # one Python worker


class Driver:
    """A driver, from its start to its end."""

    def __init__(
        self, home: Home, *, shards: int, crash: str = "", master: str = "local[2]",
        variant: str = "plain", inside: str = "", log: Path | None = None,
        state: Path | None = None,
    ) -> None:
        scratch = home.folder / "scratch"  # a killed JVM leaves its temporary files
        scratch.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "HEADRACE_CRASH": crash,
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts sooner
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": python_path(),
            "SPARK_LOCAL_DIRS": str(scratch),
            "TMPDIR": str(scratch),
        }
        command = [
            sys.executable, "-m", DRIVER, "--input", str(home.source), "--output", str(home.output),
            "--checkpoint", str(home.checkpoint),
            "--state_dir", str(state or home.state), "--shards", str(shards), "--master", master,
            "--variant", variant, "--inside", inside,
        ]
        self.started = time.time()
        self.log = log or home.log
        with self.log.open("ab") as opened:
            self._said_before = opened.tell()
            self._process = subprocess.Popen(
                command, cwd=home.folder, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=opened, stderr=subprocess.STDOUT,
            )
        self._all: set[int] = set()  # processes of its that were seen when it was frozen

    @property
    def ended(self) -> int | None:
        """How the driver ended; None: it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """What this driver has said so far."""
        with self.log.open("rb") as opened:
            opened.seek(self._said_before)
            return opened.read().decode(errors="replace")

    def wait(self, seconds: float) -> int:
        """Wait for the end, and for that of all its children; give how it ended."""
        deadline = time.monotonic() + seconds
        known: set[int] = set()
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                self.tell_stacks()
                self.kill_all()
                msg = f"the driver did not end within {seconds:.0f} s; see {self.log}"
                raise TimeoutError(msg)
            known |= descendants(self._process.pid)
            time.sleep(4 * POLL_SECONDS)
        end(known)
        return self._process.returncode

    def tell_stacks(self) -> None:
        """Have the driver write what its threads do to the log."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(1)

    def kill_all(self) -> None:
        """Kill driver, JVM and workers, as a machine that crashes does."""
        children = descendants(self._process.pid)
        self._process.kill()
        end(children, linger=0)
        self._process.wait()

    def kill_driver(self) -> None:
        """Kill the driver's Python; JVM and workers find out, and end a little later."""
        children = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        end(children)

    def kill_jvm(self, seconds: float) -> int | None:
        """Kill the JVM; give how the driver's Python ended, or None if it did not in time.

        A driver that has just been started has none yet: then it is waited for.
        """
        deadline = time.monotonic() + seconds
        while True:
            children = descendants(self._process.pid)
            if self._signal(Part.JVM, signal.SIGKILL, random.Random(0)):
                break
            if self._process.poll() is not None or time.monotonic() > deadline:
                return self._process.poll()
            time.sleep(POLL_SECONDS)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.tell_stacks()
            return None
        end(children)
        return self._process.returncode

    def kill_part(self, part: Part, drawn: random.Random) -> bool:
        """Kill a part without which the driver goes on; say whether there was one."""
        return self._signal(part, signal.SIGKILL, drawn) is not None

    def pause(self, part: Part, seconds: float, drawn: random.Random) -> bool:
        """Stop a part and continue it later; say whether there was one."""
        pid = self._signal(part, signal.SIGSTOP, drawn)
        if pid is None:
            return False
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        return True

    def freeze(self) -> None:
        """Stop all of it, as a machine that hangs does."""
        self._process.send_signal(signal.SIGSTOP)
        self._all = descendants(self._process.pid)
        for pid in self._all:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let all of it go on."""
        for pid in (*self._all, self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _signal(self, part: Part, number: int, drawn: random.Random) -> int | None:
        """Send a signal to a part; give its id, or None if there is none."""
        pids = sorted(parts_of(self._process.pid, _table())[part])
        if not pids:
            return None
        pid = drawn.choice(pids)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return pid


def parts_of(driver: int, table: dict[int, tuple[int, str]]) -> dict[Part, set[int]]:
    """Find the processes of a run among all.

    Args:
        driver: the id of its Python.
        table: for each process its parent and its command.
    """
    ours = _below(driver, table)
    daemons = {pid for pid in ours if DAEMON in table[pid][1]}
    workers = {pid for pid in daemons if table[pid][0] in daemons}
    return {
        Part.DRIVER: {driver},
        # The launcher, another JVM, is the child of a shell.
        Part.JVM: {
            pid for pid in ours
            if table[pid][0] == driver and "java" in table[pid][1].partition(" ")[0]
        },
        Part.DAEMON: daemons - workers,
        Part.WORKER: workers,
    }


def descendants(pid: int) -> set[int]:
    """Give the ids of all processes below one."""
    return _below(pid, _table())


def end(pids: Iterable[int], linger: float = LINGER_SECONDS) -> None:
    """See that processes end: let them do so by themselves for a while, then kill them."""
    left = set(pids)
    deadline = time.monotonic() + linger
    while left := left & set(_table()):
        if time.monotonic() >= deadline:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _table() -> dict[int, tuple[int, str]]:
    """Give for each process its parent and its command; the dead that nobody buried are none."""
    found = {}
    for process in psutil.process_iter(["pid", "ppid", "status", "cmdline"]):
        told = process.info
        if told["status"] != psutil.STATUS_ZOMBIE:
            found[told["pid"]] = (told["ppid"], " ".join(told["cmdline"] or ()))
    return found


def _below(pid: int, table: dict[int, tuple[int, str]]) -> set[int]:
    found: set[int] = set()
    edge = {pid}
    while edge:
        edge = {child for child, (parent, _) in table.items() if parent in edge} - found
        found |= edge
    return found
