"""Starts Spark's JVM so that it is silent unless something is wrong.

Takes Spark's settings, gives them with what the JVM shall log. What the JVM and the workers below
it write comes here by two pipes and is written again through `sys.stdout` and `sys.stderr`, so that
it cannot fall into a line that is being shown. A JVM that somebody else has started is left alone.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from headrace.engine.leftovers import own_folder

OPTIONS = "spark.driver.extraJavaOptions"
#: The property that says which configuration log4j reads.
LOG4J = "log4j2.configurationFile"
#: Where a user may have given options to the JVM beside Spark's own settings.
JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")

#: Loggers of Spark that tell of a failure that headrace raises as an exception, or of what is no
#: failure: a folder of a sink that is not there yet, a broadcast that went with a cancelled job.
SAID_ELSEWHERE = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink",
    "org.apache.spark.sql.execution.streaming.runtime.StreamExecution",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    "org.apache.spark.storage.BlockManager",
    "org.apache.spark.util.Utils",
    "org.apache.spark.api.python.PythonRunner",
)

_CONFIGURATION = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = Spark: %p %c{1}: %m%n%ex
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""

#: What the JVM itself says at each start of Spark 4, and no option keeps it from saying.
_NOISE = (b"WARNING: Using incubator modules:",)
#: How a trace begins, and how one ends that says nothing: a stream was stopped while the process
#: that plans its batches was about to answer, and Spark's own daemon has nobody left to tell.
_TRACE = b"Traceback (most recent call last):"
_GONE = (b"BrokenPipeError", b"ConnectionResetError")
_DAEMON = b"pyspark/daemon.py"
#: Text without an end of line is shown after this many seconds: it may be a question.
_PARTIAL_SECONDS = 0.3


def log_options(given: Mapping[str, str]) -> str:
    """Give the JVM's options that make log4j read our configuration; none if a user has one."""
    if any(LOG4J in text for text in asked_of_java(given).values()) or _own_configuration():
        return ""
    path = own_folder("log") / "log4j2.properties"
    lines = [_CONFIGURATION]
    for number, name in enumerate(SAID_ELSEWHERE):
        lines.append(f"logger.n{number}.name = {name}\nlogger.n{number}.level = off\n")
    path.write_text("".join(lines), encoding="utf-8")
    return f"-D{LOG4J}=file:{path}"


def asked_of_java(given: Mapping[str, str]) -> dict[str, str]:
    """Give what a user asks of the JVM, by where he has said so."""
    said = {name: os.environ.get(name, "") for name in JAVA_VARIABLES}
    return {OPTIONS: given.get(OPTIONS, ""), **said}


def _own_configuration() -> bool:
    """Whether Spark's folder of settings has a configuration for log4j."""
    home = os.environ.get("SPARK_HOME", "")
    folders = [os.environ.get("SPARK_CONF_DIR", ""), os.path.join(home, "conf") if home else ""]
    return any(folder and list(Path(folder).glob("log4j2*.*")) for folder in folders)


def show_spark_log(session: Any) -> None:
    """Let Spark log its warnings and failures, Java's traces and all."""
    jvm = session._jvm  # noqa: SLF001 (Spark's Python has no door to single loggers)
    configurator = jvm.org.apache.logging.log4j.core.config.Configurator
    level = jvm.org.apache.logging.log4j.Level.WARN
    configurator.setRootLevel(level)
    for name in SAID_ELSEWHERE:
        configurator.setLevel(name, level)


def start_jvm(conf: SparkConf) -> None:
    """Start the JVM of this process, unless there is one; what it writes comes through here."""
    with SparkContext._lock:  # noqa: SLF001 (as Spark's own start does)
        if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:  # noqa: SLF001
            return
        ends = {}
        for name in ("stdout", "stderr"):
            reads, ends[name] = os.pipe()
            threading.Thread(
                target=_forward, args=(reads, name), name=f"headrace-spark-{name}", daemon=True
            ).start()
        try:
            gateway = launch_gateway(conf, popen_kwargs=dict(ends))
        finally:
            for end in ends.values():
                os.close(end)
        SparkContext._gateway = gateway  # noqa: SLF001
        SparkContext._jvm = gateway.jvm  # noqa: SLF001


class _Ending:
    """Whether Python is about to end: its streams then belong to the main thread alone."""

    said_so = False


@atexit.register
def _end() -> None:
    _Ending.said_so = True


def _forward(reads: int, name: str) -> None:
    """Write what comes by a pipe to this process' stream of the same name, line by line."""
    rest, worth = b"", _Worth()
    with suppress(OSError, ValueError):
        while True:
            waits = rest or worth.held
            ready = not waits or select.select([reads], [], [], _PARTIAL_SECONDS)[0]
            if not ready:
                _write(name, b"".join(line + b"\n" for line in worth.rest()) + rest)
                rest = b""
                continue
            data = os.read(reads, 65_536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            kept = [text for line in lines for text in worth.take(line)]
            if kept:
                _write(name, b"\n".join(kept) + b"\n")
        last = b"".join(line + b"\n" for line in worth.rest()) + rest
        if last:
            _write(name, last)
    os.close(reads)


class _Worth:
    """Decides which lines are worth showing; holds a trace until it is known how it ends."""

    def __init__(self) -> None:
        self.held: list[bytes] = []

    def take(self, line: bytes) -> list[bytes]:
        """Take a line; give those that can be shown now."""
        if line.startswith(_NOISE):
            return []
        if line == _TRACE:
            before, self.held = self.held, [line]
            return before
        if not self.held:
            return [line]
        self.held.append(line)
        if line.startswith(b" "):
            return []
        files = [each for each in self.held if each.startswith(b"  File ")]
        is_known = line.startswith(_GONE) and all(_DAEMON in each for each in files)
        trace = self.rest()
        return [] if is_known else trace

    def rest(self) -> list[bytes]:
        """Give what is held."""
        held, self.held = self.held, []
        return held


def _write(name: str, data: bytes) -> None:
    stream = getattr(sys, name, None)
    if _Ending.said_so or stream is None:
        os.write(1 if name == "stdout" else 2, data)
        return
    stream.write(data.decode("utf-8", "backslashreplace"))
    stream.flush()
