"""A system in a process of its own, which is given up when it takes too long for an answer.

Asks for workloads at their default settings and tells what the system gave. A refusal and a
failure are answers too.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.lab.catalog import CATALOG
from headrace.lab.ending import Ending
from headrace.lab.reference import digest_of
from headrace.lab.run import expected, run_workload
from headrace.lab.systems.choose import choose
from headrace.lab.systems.system import Request, System
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode, Workload

#: How long a process may take to end by itself.
_FAREWELL_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a system said to a workload."""

    system: str
    mode: Mode
    ending: Ending
    engine: str = ""  # what really ran
    digest: str = ""  # of its rows
    told: str = ""  # the reason, or what is wrong
    seconds: float | None = None


class Asked:
    """A system to be asked, one workload after the other.

    Args:
        system: its name.
        cores: of its Spark session.
        limit_seconds: after which it is given up; its process is ended, and the next question
            starts another.
    """

    def __init__(self, system: str, *, cores: int, limit_seconds: float) -> None:
        self.system = system
        self._cores = cores
        self._limit = limit_seconds
        self._process: Any = None
        self._line: Any = None

    def ask(self, suite: str, name: str, mode: Mode) -> Answer:
        """Ask for a workload and wait for the answer."""
        if self._process is None:
            self._start()
        try:
            self._line.send((suite, name, mode))
            if self._line.poll(self._limit):
                answer: Answer = self._line.recv()
                return answer
            ending, told = Ending.LATE, f"took more than {self._limit:g} s"
        except (EOFError, OSError):
            ending, told = Ending.FAILED, "its process died"
        self._process.kill()
        self._forget()
        return Answer(system=self.system, mode=mode, ending=ending, told=told)

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._line.send(None)
        self._process.join(_FAREWELL_SECONDS)
        if self._process.is_alive():
            self._process.kill()
        self._forget()

    def _start(self) -> None:
        # A fresh interpreter: threads and gateways of this one must not be copied.
        fresh = multiprocessing.get_context("spawn")
        self._line, theirs = fresh.Pipe()
        self._process = fresh.Process(target=_serve, args=(theirs, self.system, self._cores))
        self._process.start()
        theirs.close()

    def _forget(self) -> None:
        self._process.join()
        self._line.close()
        self._process = None


def _serve(line: Connection, name: str, cores: int) -> None:
    """Answer until there is nothing more to answer."""
    logging.getLogger().setLevel(logging.ERROR)  # Beam warns about packages no workload needs
    system = choose(name, master=f"local[{cores}]")
    try:
        while (question := line.recv()) is not None:
            suite, workload, mode = question
            line.send(answer(CATALOG.workload(suite, workload), system, mode, cores))
    finally:
        system.stop()


def answer(workload: Workload, system: System, mode: Mode, cores: int) -> Answer:
    """Run a workload at its default settings, and see whether the oracle gives the same."""

    def ended(ending: Ending, told: str = "", **more: Any) -> Answer:
        return Answer(system=system.name, mode=mode, ending=ending, told=told, **more)

    with tempfile.TemporaryDirectory(
        prefix="headrace-reference-", ignore_cleanup_errors=True
    ) as folder:
        try:
            request = Request(
                workload=workload, settings=workload.settings(), mode=mode, folder=Path(folder),
                shards=cores, readers=2 * cores,
            )
            # Not judged there: the reference that is shipped now may be the one to be made anew.
            outcome = run_workload(request, system, check=False).outcome
            assert outcome.rows is not None
            rows = outcome.rows.read(workload.columns)
            verdict = judge(rows, expected(request), workload.rule)
        except (OptionError, UnsupportedTransformError) as refusal:
            return ended(Ending.REFUSED, str(refusal))
        except Exception as failure:  # noqa: BLE001 (a row of the report says so)
            first = (str(failure).strip().splitlines() or [""])[0]
            return ended(Ending.FAILED, f"{type(failure).__name__}: {first}")
    return ended(
        Ending.RIGHT if verdict.right else Ending.WRONG,
        "" if verdict.right else " ".join(verdict.lines()),
        engine=outcome.engine, digest=digest_of(rows, workload.rule), seconds=outcome.seconds,
    )
