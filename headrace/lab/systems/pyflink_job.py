"""The lab's question on PyFlink: a script for an environment of its own, where headrace is not.

Reads its task from the standard input, one line of JSON, and says on the standard output what
runs. Stands alone: it knows PyFlink, Arrow and the messages of a data engine.

PyFlink has no sources in Python, so a clock in Java, a table of numbers at a steady rate, drives a
function that takes what the engine has at each tick. What it gives enters the job as if a source
had read it, and no element crosses between Java and Python more often than a key and a window ask
for. After its job it waits for a line, so that whoever started it can see what it has used.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.job_status import JobStatus
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.functions import (
    AggregateFunction,
    FlatMapFunction,
    MapFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.version import __version__

#: How often the job is looked at.
LOOK_SECONDS = 0.05

EVENT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])  # key, number, milliseconds
ROW = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])


class Take(FlatMapFunction):  # type: ignore[misc]
    """Takes events from a data engine, some for each element."""

    def __init__(self, address: str, most: int, ended: str) -> None:
        self._address, self._most, self._told = address, most, ended
        self._at = 0
        self._file: Any = None
        self._ended = False

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect."""
        del runtime_context
        host, _, port = self._address.rpartition(":")
        connection = socket.create_connection((host, int(port)), 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rwb")

    def flat_map(self, value: Any) -> Iterator[tuple[int, int, int]]:
        """Give what there is, at most so many."""
        del value
        if self._ended:
            return
        head, body = self._ask(do="pull", **{"from": self._at}, most=self._most, wait=0.0)
        count = 0
        for batch in pa.ipc.open_stream(body) if body else ():
            count += batch.num_rows
            columns = (batch.column(name).to_pylist() for name in ("key", "number", "nanos"))
            for key, number, nanos in zip(*columns, strict=True):
                yield key, number, nanos // 1_000_000
        self._at += count
        if count:
            self._ask(do="acknowledge", until=self._at)
        elif head["ended"]:
            self._ended = True
            Path(self._told).touch()

    def _ask(self, **ask: Any) -> tuple[dict[str, Any], bytes]:
        self._file.write(json.dumps({**ask, "bytes": 0}).encode() + b"\n")
        self._file.flush()
        head = json.loads(self._file.readline())
        if "error" in head:
            raise OSError(head["error"])
        return head, self._file.read(head["bytes"])


class Millis(TimestampAssigner):  # type: ignore[misc]
    """The time of an event."""

    def extract_timestamp(self, value: tuple[int, int, int], record_timestamp: int) -> int:
        """Give its milliseconds."""
        del record_timestamp
        return value[2]


class CountAndLast(AggregateFunction):  # type: ignore[misc]
    """How many numbers there are, and the greatest of them."""

    def create_accumulator(self) -> tuple[int, int]:
        """Nothing yet."""
        return 0, -1

    def add(self, value: tuple[int, int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        """Take one event."""
        return accumulator[0] + 1, max(accumulator[1], value[1])

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give (how many, the greatest)."""
        return accumulator

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        """Take two together."""
        return a[0] + b[0], max(a[1], b[1])


class WithWindow(ProcessWindowFunction):  # type: ignore[misc]
    """Writes a count with its window."""

    def process(
        self, key: int, context: Any, elements: Any
    ) -> Iterator[tuple[int, int, int, int]]:
        """Give the row of a window."""
        for count, last in elements:
            yield context.window().start, key, count, last


class Leave(MapFunction):  # type: ignore[misc]
    """Writes rows to a file with the time at which they have left."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the file; one task writes to it."""
        del runtime_context
        self._file = open(self._path, "a", encoding="utf-8")

    def map(self, value: tuple[int, int, int, int]) -> int:
        """Write a line."""
        self._file.write(json.dumps([time.time(), *value]) + "\n")
        return 0

    def close(self) -> None:
        """Write what is held."""
        self._file.close()


def main() -> None:
    """Run the job to its end."""
    task = json.loads(sys.stdin.readline())
    settings = Configuration()
    settings.set_string("python.execution-mode", task["mode"])
    settings.set_string("python.executable", sys.executable)
    settings.set_string("python.client.executable", sys.executable)
    settings.set_string("python.fn-execution.bundle.time", str(task["bundle_ms"]))
    settings.set_string("execution.checkpointing.interval", f"{task['checkpoint_ms']} ms")
    settings.set_string("execution.checkpointing.dir", task["checkpoint"])
    settings.set_string("rest.bind-address", "127.0.0.1")
    settings.set_string("rest.address", "127.0.0.1")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(task["shards"])
    env.get_config().set_auto_watermark_interval(task["bundle_ms"])
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE ticks (tick BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '{task['ticks_per_second']}')"
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
    (
        tables.to_data_stream(tables.from_path("ticks"))
        .flat_map(Take(task["address"], task["per_tick"], task["ended"]), EVENT)
        .set_parallelism(1)
        .assign_timestamps_and_watermarks(times)
        .set_parallelism(1)
        .key_by(lambda event: event[0], Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(task["window_ms"])))
        .aggregate(
            CountAndLast(), WithWindow(), Types.TUPLE([Types.LONG(), Types.LONG()]), ROW
        )
        .map(Leave(task["rows"]), Types.LONG())
        .set_parallelism(1)
    )
    java = env._j_stream_execution_environment.getClass().getName()  # noqa: SLF001 (who ran)
    said = {"engine": f"PyFlink {__version__} DataStream, {task['mode']} mode", "class": java}
    print(json.dumps(said), flush=True)
    _until_drained(env.execute_async("headrace lab"), task)
    print(json.dumps({"done": True}), flush=True)
    sys.stdin.readline()


def _until_drained(job: Any, task: dict[str, Any]) -> None:
    """Let a job run until all events are taken; then end its time, which closes its windows."""
    while not Path(task["ended"]).exists():
        if job.get_job_status().result() not in (JobStatus.CREATED, JobStatus.RUNNING):
            job.get_job_execution_result().result()  # raises what has failed
            return
        time.sleep(LOOK_SECONDS)
    # PyFlink's own `stop_with_savepoint` calls a method that Flink 2 does not have any more.
    native = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.NATIVE
    job._j_job_client.stopWithSavepoint(True, task["savepoint"], native).get()  # noqa: SLF001
    job.get_job_execution_result().result()


if __name__ == "__main__":
    main()
