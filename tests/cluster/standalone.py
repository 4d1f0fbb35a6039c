"""Starts a real Spark cluster on loopback: one master, workers of one core and 1 GB each.

Gives the master's address once all workers are registered, and ends every process it started, by
its id, whatever happened in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark

from headrace.engine.spark.class_archive import archive_options
from headrace.engine.spark.java import java_version

LOOPBACK = "127.0.0.1"
START_SECONDS = 120
STOP_SECONDS = 15
#: Nothing here runs long enough for the JVM's second compiler to pay; executors inherit this.
JAVA_OPTIONS = {
    "JAVA_TOOL_OPTIONS": " ".join(
        ["-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", archive_options(java_version(), {})]
    )
}
#: What the master logs about itself: its address, and where its page is.
MASTER_LINE = re.compile(r"Starting Spark master at (spark://\S+)")
PAGE_LINE = re.compile(r"Successfully started service 'MasterUI' on port (\d+)")


class Standalone:
    """The processes of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.master = ""
        self._web_address = ""
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        # The system gives the ports as the master binds them: one looked for beforehand may be
        # another's by then, and Spark would silently show its page on the next one.
        self._spawn(
            "master", "org.apache.spark.deploy.master.Master", "--host", LOOPBACK,
            "--port", "0", "--webui-port", "0",
        )
        self.master = self._from_master(MASTER_LINE, deadline)
        self._web_address = f"http://{LOOPBACK}:{self._from_master(PAGE_LINE, deadline)}"
        for number in range(workers):
            self._spawn(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK,
                "--cores", "1", "--memory", "1g", "--webui-port", "0",
                "--work-dir", str(self._folder / f"work-{number}"), self.master,
            )
        while len(self.alive_workers()) < workers:
            self._wait(deadline, "the workers never registered")

    def _from_master(self, line: re.Pattern[str], deadline: float) -> str:
        while True:
            found = line.search((self._folder / "master.log").read_text(errors="replace"))
            if found is not None:
                return found[1]
            self._wait(deadline, f"the master never logged {line.pattern}")

    def _wait(self, deadline: float, missed: str) -> None:
        dead = [process.pid for process in self._processes if process.poll() is not None]
        assert not dead, f"a process of the cluster ended: {self.logs()}"
        assert time.monotonic() < deadline, f"{missed}: {self.logs()}"
        time.sleep(0.2)

    def _spawn(self, name: str, *command: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            **JAVA_OPTIONS,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        # A tree of the project on the executors' path would hide that headrace must be sent.
        environment.pop("PYTHONPATH", None)
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=environment, cwd=self._folder, stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT,
                )
            )

    def alive_workers(self) -> list[Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self._web_address}/json/", timeout=5) as page:
                facts = json.load(page)
        except (OSError, ValueError):  # not there yet, or a page of HTML stands in for it
            return []
        return [worker for worker in facts["workers"] if worker["state"] == "ALIVE"]

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}"
            for log in sorted(self._folder.glob("*.log"))
        )

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Standalone]:
    """Run a cluster for the length of a block."""
    cluster = Standalone(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()
