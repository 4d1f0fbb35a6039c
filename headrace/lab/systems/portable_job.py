"""Beam's portable runners: a process that keeps a job server, and hands pipelines to it.

Reads the paths of tasks from the standard input, a line of JSON each; says on the standard output
which engine runs, asked of the engine itself, and when a job is done. An empty line, or the end,
ends it, and with it the job server and all workers. The server listens on free ports of loopback;
what it logs lies beside this process, and says why a job has failed. Python steps run in processes
of this environment, which Beam starts for each job (LOOPBACK).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import apache_beam as beam
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_api
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.utils import proto_utils

from headrace.lab.endpoints.names import Source, SourceKind
from headrace.lab.endpoints.sources import beam_source
from headrace.lab.job_servers.parts import JOB_SERVERS, jars_of
from headrace.lab.systems.job_process import last_words
from headrace.lab.systems.left_rows import Leave
from headrace.lab.workload import Workload

#: A JVM on a busy machine.
START_SECONDS = 180.0
LOOK_SECONDS = 0.05
#: What Spark 3.5 and Flink 1.19 reach for in a Java of 17 or newer.
OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.text", "java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)
#: Of a log: where the server is, and what each engine says of itself.
_RUNNER = re.compile(r"\b(\w+PipelineRunner)\b")
_STARTED = re.compile(r"JobService started on (\S+)")
_SPARK = re.compile(r"Running Spark version (\S+)")
_FLINK = re.compile(r"Rest endpoint listening at (\S+:\d+)")
_LOG = "job-server.log"

#: How Spark's logging is told what to write: it takes a file.
_SPARK_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.spark.name = org.apache.spark.SparkContext
logger.spark.level = info
logger.beam.name = org.apache.beam.runners
logger.beam.level = info
"""
_FLINK_LOGGING = (
    "defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=HH:mm:ss",
    "log.org.apache.beam.runners=info",
    "log.org.apache.flink.runtime.dispatcher.DispatcherRestEndpoint=info",
)
_FLINK_CONFIGURATION = """\
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
jobmanager.rpc.address: 127.0.0.1
jobmanager.bind-host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pipeline to be run."""

    workload: Workload
    settings: Any
    streaming: bool
    source: Source
    readers: int
    pace: bool
    pull_seconds: float  # that one call takes events of a data engine for, before it gives way
    keeps: bool  # the rows; else they are counted
    rows: str  # the folder that they go to
    options: tuple[str, ...]  # of the runner


class Server:
    """A job server in a JVM.

    Args:
        system: whose.
        home: a folder for its files.
        cores: of Spark's.
    """

    def __init__(self, system: str, home: Path, cores: int) -> None:
        self.system = system
        self.log = home / _LOG
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command(system, home, cores), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=home, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self.address = self.said(_STARTED, START_SECONDS)

    def said(self, what: re.Pattern[str], seconds: float, since: int = 0) -> str:
        """Wait until the log has said something after a byte; give the part that is sought."""
        end = time.monotonic() + seconds
        while True:
            is_there = self.process.poll() is None
            text = self.log.read_bytes()[since:].decode(errors="replace")
            if found := what.search(text):
                return found[1]
            if not is_there or time.monotonic() > end:
                sys.exit(f"the job server has not said {what.pattern!r}: {last_words(text)}")
            time.sleep(LOOK_SECONDS)

    def engine(self, since: int) -> str:
        """Ask the engine that runs a job who it is; it has said nothing before this byte."""
        runner = self.said(_RUNNER, START_SECONDS, since)
        if self.system == "beam-spark":
            name = f"Spark {self.said(_SPARK, START_SECONDS, since)}"
        else:
            name = f"Flink {flink_version(self.said(_FLINK, START_SECONDS, since))}"
        return f"{name} by {runner} with Beam {beam.__version__} in Python"


def flink_version(address: str) -> str:
    """Ask a Flink that is starting, and says so to whoever asks too early."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://{address}/config", timeout=60) as answer:
                return str(json.load(answer)["flink-version"])
        except urllib.error.HTTPError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_SECONDS)


def command(system: str, home: Path, cores: int) -> list[str]:
    """Give the command that starts a job server."""
    java = Path(os.environ.get("JAVA_HOME", ""), "bin", "java")
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    spark = system == "beam-spark"
    if spark:
        (home / "log4j2.properties").write_text(_SPARK_LOGGING, encoding="utf-8")
        told = ["-Dspark.ui.enabled=false", f"-Dlog4j2.configurationFile={home}/log4j2.properties"]
        master = [f"--spark-master-url=local[{cores}]"]
    else:
        (home / "flink-conf.yaml").write_text(_FLINK_CONFIGURATION, encoding="utf-8")
        told = [f"-Dorg.slf4j.simpleLogger.{name}" for name in _FLINK_LOGGING]
        master = ["--flink-master=[local]", f"--flink-conf-dir={home}"]
    return [
        str(java) if java.is_file() else shutil.which("java") or "java",
        "-Xmx2g", *opened, *told, "-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={home}",
        "-cp", f"{jars_of(system)}/*", JOB_SERVERS[system].driver, *master,
        "--job-host=localhost", "--job-port=0", "--artifact-port=0", "--expansion-port=0",
        f"--artifacts-dir={home}/artifacts",
    ]


def run(task: Task, server: Server, say: Any) -> None:
    """Run a pipeline to its end."""
    options = PipelineOptions([
        "--runner=PortableRunner", f"--job_endpoint={server.address}",
        "--environment_type=LOOPBACK", "--experiments=use_loopback_process_worker",
        *(["--streaming"] if task.streaming else []), *task.options,
    ])
    pipeline = beam.Pipeline(runner=PortableRunner(), options=options)
    build(task, pipeline)
    since = server.log.stat().st_size
    start = time.perf_counter()
    result = pipeline.run()
    asked: list[str] = []
    asking = threading.Thread(target=lambda: asked.append(server.engine(since)), daemon=True)
    asking.start()
    try:
        result.wait_until_finish()
    except RuntimeError as error:
        log = server.log.read_bytes()[since:].decode(errors="replace")
        sys.exit(f"{str(error).splitlines()[0]}\nCaused by: {last_words(log)}")
    seconds = time.perf_counter() - start
    asking.join(START_SECONDS)
    (engine,) = asked or ["an engine that has not said who it is"]
    say(done=True, seconds=seconds, state=str(result.state), engine=engine)


def build(task: Task, pipeline: beam.Pipeline) -> None:
    """Put the steps of a task into a pipeline."""
    events = pipeline | "Events" >> source_of(task)
    rows = events | "Query" >> task.workload.build(task.settings)
    rows | "Sink" >> beam.ParDo(Leave(task.rows, keeps=task.keeps, at_once=task.streaming))


def asks_for_the_clock(task: Task) -> bool:
    """Whether a step of a task waits for a time of the clock: by a trigger, or by a timer."""
    pipeline = beam.Pipeline(runner=PortableRunner())
    build(task, pipeline)
    components = pipeline.to_runner_api().components
    for strategy in components.windowing_strategies.values():
        if "after_processing_time" in str(strategy.trigger):
            return True
    for transform in components.transforms.values():
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
            payload = proto_utils.parse_Bytes(transform.spec.payload, beam_api.ParDoPayload)
            for timer in payload.timer_family_specs.values():
                if timer.time_domain == beam_api.TimeDomain.PROCESSING_TIME:
                    return True
    return False


def source_of(task: Task) -> beam.PTransform:
    """Give the source of a task's events."""
    generator: Any = task.workload.generator(task.settings)
    if task.source.kind is SourceKind.ENGINE:
        from headrace.lab.data_engine.beam_reader import ReadFromEngine
        from headrace.lab.data_engine.launch import Feed

        return ReadFromEngine(
            Feed.read(task.source.path), generator.from_batch, give_way=task.pull_seconds
        )
    return beam_source(
        task.source, generator, streaming=task.streaming, readers=task.readers, pace=task.pace
    )


def main() -> None:
    """Run one task after the other."""
    system, cores = sys.argv[1], int(sys.argv[2])
    take_python(Path.cwd())
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints is no answer

    def say(**words: Any) -> None:
        print(json.dumps(words), file=out, flush=True)

    server = Server(system, Path.cwd(), cores)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=listen, args=(sys.stdin, lines), daemon=True).start()
    say(ready=True)
    while line := lines.get():
        task = Path(json.loads(line)["task"])
        run(cloudpickle_pickler.loads(task.read_bytes()), server, say)
    end()


def take_python(home: Path) -> None:
    """See to it that `python`, by which Beam starts workers, is the interpreter of this process."""
    script = home / "bin" / "python"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    os.environ["PATH"] = os.pathsep.join([str(script.parent), os.environ.get("PATH", "")])


def listen(stdin: IO[str], lines: SimpleQueue[str]) -> None:
    """Take lines; when there are no more nobody waits for this process, so it ends at once."""
    for line in stdin:
        lines.put(line.strip())
    end()


def end() -> None:
    """End this process and all that it has started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
