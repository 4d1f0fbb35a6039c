"""Runs modules in a few processes, each with a session of its own, whatever the tests do to them.

A process that says nothing for too long is killed; one that ended is replaced, and the next goes on
behind the test that was its end. Everything is in files of lines, so a run can be taken up again.
Which results are good is judged elsewhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.lab.commands import python_path
from headrace.lab.experiments.beam_suites.results import (
    Result,
    forget_begun,
    read_folder,
    read_lines,
)
from headrace.lab.experiments.beam_suites.suite import Suite

WORKER = "headrace.lab.experiments.beam_suites.worker"
#: A test has this long before pytest interrupts it, unless told otherwise.
TEST_SECONDS = 600
#: A process has so much longer before it is killed.
PATIENCE_SECONDS = 120
#: A module whose tests end the process is given up after this many starts.
STARTS = 6


@dataclass
class Share:
    """One process, its part of the modules, and what is left of them."""

    results: Path
    modules: list[str]
    process: subprocess.Popen[bytes] | None = None
    starts: dict[str, int] = field(default_factory=dict)

    def left(self) -> list[str]:
        """Modules that are not gone through."""
        done = {result.module for result in read_lines(self.results) if not result.test}
        return [m for m in self.modules if m not in done and self.starts.get(m, 0) < STARTS]

    def is_silent(self, now: float, seconds: int) -> bool:
        """Whether the process has said nothing for too long."""
        return now - self.results.stat().st_mtime > seconds


def run(
    suite: Suite, modules: Sequence[str], runner: str, folder: Path, jobs: int,
    say: Callable[[str], None], seconds: int = TEST_SECONDS,
) -> list[Result]:  # fmt: skip
    """Run what the folder has no results of yet, each test so long at most; give all results."""
    folder.mkdir(parents=True, exist_ok=True)
    forget_begun(folder)
    known = {result.module for result in read_folder(folder) if not result.test}
    open_ones = [module for module in modules if module not in known]
    shares = [
        Share(folder / f"{os.getpid()}-{index}.jsonl", open_ones[index::jobs])
        for index in range(jobs)
    ]
    try:
        while any([_keep_going(share, suite, runner, folder, say, seconds) for share in shares]):
            time.sleep(0.5)
    finally:
        for share in shares:
            _end(share)
    return read_folder(folder)


def _keep_going(
    share: Share, suite: Suite, runner: str, folder: Path, say: Callable[[str], None], seconds: int
) -> bool:
    process = share.process
    if process is not None and process.poll() is None:
        silence = seconds + PATIENCE_SECONDS
        if share.is_silent(time.time(), silence):
            say(f"{share.results.name}: silent for {silence} s, killed")
            _end(share)
        return True
    left = share.left()
    if not left:
        return False
    share.starts[left[0]] = share.starts.get(left[0], 0) + 1
    say(f"{share.results.name}: {len(left)} modules left, from {left[0]}")
    share.results.touch()
    with (folder / f"{share.results.stem}.log").open("ab") as log:
        share.process = subprocess.Popen(
            [
                suite.python, "-m", WORKER, suite.as_text(), runner, str(share.results),
                str(seconds), *left,
            ],
            cwd=suite.folder, env=_environment(suite), stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return True


def _end(share: Share) -> None:
    if share.process is not None:
        try:
            os.killpg(share.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        share.process.wait()


def _environment(suite: Suite) -> dict[str, Any]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*suite.path, python_path()]),
        "PYSPARK_PYTHON": suite.python,
        # Two environments may be on the path, and a plugin of one need not fit pytest of the other.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
