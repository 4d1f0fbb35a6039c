"""The lab's questions on PyFlink: a script for an environment of its own, where headrace is not.

Reads tasks from the standard input, a line of JSON each, and says on the standard output what runs
and when it is done; an empty line, or the end, ends it. Its JVM serves one task after the other.
Stands alone: it knows PyFlink, Arrow and the messages of a data engine.

PyFlink has no sources in Python, so a clock in Java, a table of numbers at a steady rate, drives a
function that takes what the engine has at each tick. What it gives enters the job as if a source
had read it, and no element crosses between Java and Python more often than a key and a window ask
for. How far it is lies in the state of Flink, so a job that was restarted reads on from its last
checkpoint; nothing is acknowledged, since nobody tells Python that a checkpoint is whole. Rows are
written with the attempt that wrote them: those of a later one stand in for the same of an earlier.
"""

from __future__ import annotations

import json
import os
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
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment
from pyflink.version import __version__

#: How often the job is looked at.
LOOK_SECONDS = 0.05

EVENT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])  # key, number, milliseconds
ROW = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG()])
SCORED = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
TOTALS = Types.TUPLE([Types.LONG(), Types.LONG()])
#: A job in one of these states is over.
OVER = (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED, JobStatus.SUSPENDED)


class Take(KeyedProcessFunction):  # type: ignore[misc]
    """Takes events from a data engine, some for each tick; all ticks have one key."""

    def __init__(self, address: str, most: int, ended: str) -> None:
        self._address, self._most, self._told = address, most, ended
        self._at: Any = None
        self._file: Any = None
        self._ended = False

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect."""
        self._at = runtime_context.get_state(ValueStateDescriptor("at", Types.LONG()))
        host, _, port = self._address.rpartition(":")
        connection = socket.create_connection((host, int(port)), 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rwb")

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        """Give what there is, at most so many."""
        del value, ctx
        if self._ended:
            return
        at = self._at.value() or 0
        head, body = self._ask(do="pull", **{"from": at}, most=self._most, wait=0.0)
        count = 0
        for batch in pa.ipc.open_stream(body) if body else ():
            count += batch.num_rows
            columns = (batch.column(name).to_pylist() for name in ("key", "number", "nanos"))
            for key, number, nanos in zip(*columns, strict=True):
                yield key, number, nanos // 1_000_000
        if count:
            self._at.update(at + count)
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


class Score(MapFunction):  # type: ignore[misc]
    """Gives an event its score."""

    def map(self, value: tuple[int, int, int]) -> tuple[int, int, int]:
        """Give (score, key, number)."""
        return value[1] * 31 + value[0], value[0], value[1]


class Divisible(FilterFunction):  # type: ignore[misc]
    """Keeps scores that can be divided."""

    def __init__(self, one_in: int) -> None:
        self._one_in = one_in

    def filter(self, value: tuple[int, int, int]) -> bool:
        """Say whether a row is kept."""
        return value[0] % self._one_in == 0


class Running(KeyedProcessFunction):  # type: ignore[misc]
    """Adds up the numbers of a key, with a row at every Nth event."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._so_far: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state."""
        self._so_far = runtime_context.get_state(ValueStateDescriptor("so_far", TOTALS))

    def process_element(
        self, value: tuple[int, int, int], ctx: Any
    ) -> Iterator[tuple[int, int, int, int]]:
        """Take one event."""
        del ctx
        count, total = self._so_far.value() or (0, 0)
        count, total = count + 1, total + value[1]
        self._so_far.update((count, total))
        if count % self._every == 0:
            yield value[0], count, total, value[1]


class Leave(MapFunction):  # type: ignore[misc]
    """Writes rows to a file with the time at which they have left, and the attempt."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = None
        self._attempt = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the file; one task writes to it, a line at a time, so that none is lost with it."""
        self._attempt = runtime_context.get_attempt_number()
        self._file = open(self._path, "a", buffering=1, encoding="utf-8")

    def map(self, value: tuple[int, ...]) -> int:
        """Write a line."""
        self._file.write(json.dumps([time.time(), self._attempt, *value]) + "\n")
        return 0

    def close(self) -> None:
        """Write what is held."""
        self._file.close()


def answered(events: Any, task: dict[str, Any]) -> Any:
    """Give the rows of a question, from events with their times."""
    if task["question"] == "filter":
        # Beside the function that takes the events: no element crosses for it.
        return events.map(Score(), SCORED).filter(Divisible(task["one_in"]))
    keyed = events.key_by(lambda event: event[0], Types.LONG())
    if task["question"] == "state":
        return keyed.process(Running(task["every"]), ROW).set_parallelism(task["shards"])
    period = Time.milliseconds(task["window_ms"])
    windows = TumblingEventTimeWindows.of(period)
    if task["question"] == "sliding":
        size = Time.milliseconds(task["window_ms"] * task["panes"])
        windows = SlidingEventTimeWindows.of(size, period)
    counted = keyed.window(windows).aggregate(CountAndLast(), WithWindow(), TOTALS, ROW)
    return counted.set_parallelism(task["shards"])


#: The questions in SQL, over a table `events` of key, number and `at`, the event's time.
SQL = {
    "filter": (
        "SELECT `number` * 31 + `key`, `key`, `number` FROM events "
        "WHERE MOD(`number` * 31 + `key`, {one_in}) = 0"
    ),
    "count": (
        "SELECT CAST(EXTRACT(EPOCH FROM window_start) AS BIGINT) * 1000 "
        "+ EXTRACT(MILLISECOND FROM window_start), `key`, COUNT(*), MAX(`number`) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`at`), INTERVAL '{window}' SECOND(6, 3))) "
        "GROUP BY window_start, window_end, `key`"
    ),
    "sliding": (
        "SELECT CAST(EXTRACT(EPOCH FROM window_start) AS BIGINT) * 1000 "
        "+ EXTRACT(MILLISECOND FROM window_start), `key`, COUNT(*), MAX(`number`) "
        "FROM TABLE(HOP(TABLE events, DESCRIPTOR(`at`), INTERVAL '{window}' SECOND(6, 3), "
        "INTERVAL '{size}' SECOND(6, 3))) "
        "GROUP BY window_start, window_end, `key`"
    ),
    # In the order in which events arrive, as the question wants its rows: at once.
    "state": (
        "SELECT `key`, `count`, `total`, `number` FROM (SELECT `key`, `number`, "
        "COUNT(*) OVER so_far AS `count`, SUM(`number`) OVER so_far AS `total` FROM events "
        "WINDOW so_far AS (PARTITION BY `key` ORDER BY `now` "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) WHERE MOD(`count`, {every}) = 0"
    ),
}


def in_sql(tables: Any, events: Any, task: dict[str, Any]) -> Any:
    """Give the rows of a question, answered by Flink SQL, from events with their times."""
    tables.create_temporary_view("events", events, (
        Schema.new_builder()
        .column_by_expression("key", "f0")
        .column_by_expression("number", "f1")
        .column_by_expression("at", "CAST(TO_TIMESTAMP_LTZ(f2, 3) AS TIMESTAMP_LTZ(3))")
        .column_by_expression("now", "PROCTIME()")
        .watermark("at", "SOURCE_WATERMARK()")
        .build()
    ))
    period = task["window_ms"]
    query = SQL[task["question"]].format(
        one_in=task["one_in"], every=task["every"], window=f"{period / 1_000:.3f}",
        size=f"{period * task['panes'] / 1_000:.3f}",
    )
    tables.get_config().set("table.exec.resource.default-parallelism", str(task["shards"]))
    tables.get_config().set("table.local-time-zone", "UTC")
    rows = tables.to_data_stream(tables.sql_query(query))
    return rows.map(Plain(), SCORED if task["question"] == "filter" else ROW)


class Plain(MapFunction):  # type: ignore[misc]
    """Makes a tuple of a row of a table."""

    def map(self, value: Any) -> tuple[int, ...]:
        """Give its values."""
        return tuple(value)


def run(task: dict[str, Any]) -> None:
    """Run a job to its end."""
    settings = Configuration()
    for name, value in {
        "python.execution-mode": task["mode"],
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
        "python.fn-execution.bundle.time": task["bundle_ms"],
        "python.fn-execution.bundle.size": task["bundle_events"],
        "execution.checkpointing.interval": f"{task['checkpoint_ms']} ms",
        "execution.checkpointing.dir": task["checkpoint"],
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        "restart-strategy.fixed-delay.delay": "100 ms",
        "rest.bind-address": "127.0.0.1",
        "rest.address": "127.0.0.1",
    }.items():
        settings.set_string(name, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    # What runs side by side says so itself. The function with which `key_by` finds keys cannot be
    # told; two of them would take turns with the events, and change the order of a key's.
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(task["bundle_ms"])
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TEMPORARY TABLE ticks (tick BIGINT) WITH ('connector' = 'datagen', "
        f"'rows-per-second' = '{task['ticks_per_second']}')"
    )
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Millis())
    events = (
        tables.to_data_stream(tables.from_path("ticks"))
        .key_by(lambda _tick: 0, Types.INT())
        .process(Take(task["address"], task["per_tick"], task["ended"]), EVENT)
        .assign_timestamps_and_watermarks(times)
    )
    sql = task["api"] == "sql"
    rows = in_sql(tables, events, task) if sql else answered(events, task)
    rows.map(Leave(task["rows"]), Types.LONG())
    java = env._j_stream_execution_environment.getClass().getName()  # noqa: SLF001 (who ran)
    api = "SQL" if sql else "DataStream"
    said = {"engine": f"PyFlink {__version__} {api}, {task['mode']} mode", "class": java}
    print(json.dumps(said), flush=True)
    _until_drained(env.execute_async("headrace lab"), task)


def _until_drained(job: Any, task: dict[str, Any]) -> None:
    """Let a job run until all events are taken; then end its time, which closes its windows."""
    while not Path(task["ended"]).exists():
        if job.get_job_status().result() in OVER:
            job.get_job_execution_result().result()  # raises what has failed
            return
        time.sleep(LOOK_SECONDS)
    # PyFlink's own `stop_with_savepoint` calls a method that Flink 2 does not have any more.
    native = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.NATIVE
    job._j_job_client.stopWithSavepoint(True, task["savepoint"], native).get()  # noqa: SLF001
    job.get_job_execution_result().result()


def main() -> None:
    """Run one task after the other."""
    # Without this PyFlink runs all functions in threads of this process, under one lock, as long as
    # the job is local; on a cluster they have processes of their own, and so they are measured.
    os.environ["_python_worker_execution_mode"] = "process"
    get_gateway()  # starts the JVM
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        if not line.strip():
            return
        run(json.loads(line))
        print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
