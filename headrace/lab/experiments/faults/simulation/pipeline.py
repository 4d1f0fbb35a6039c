"""The pipeline of most schedules: rows of two streams, counted per key in state, to two sinks.

The epoch loop, the commit, the fences, the stores and the sinks are headrace's own. The tasks are
not: a few lines count, on real state partitions, so that an epoch costs a millisecond; those with
headrace's own are in `real_tasks`. A row tells how often its key had come, so one that is lost or
doubled shows in every later one. The streams take turns, and not every driver begins with the same
one: what an epoch holds is not what the same epoch held for the driver before.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from zlib import crc32

import apache_beam as beam
from apache_beam.transforms import environments, trigger, window

from headrace.compiler.compile import compile_pipeline
from headrace.engine.host import Feeds
from headrace.engine.layouts import Layout
from headrace.engine.status import StreamOptions
from headrace.engine.stream import Stream
from headrace.engine.tasks import EpochTasks
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.io.frames import Frames
from headrace.lab.experiments.faults.simulation.places import Session, files_at
from headrace.lab.experiments.faults.simulation.schedule import Schedule
from headrace.lab.experiments.faults.simulation.world import Driver, World
from headrace.plan.settings import Settings
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.state.chain import Chain
from headrace.state.crash_points import Point, crash_point
from headrace.state.kept import KEPT
from headrace.state.lmdb_store import open_partition
from headrace.testing import ScriptedStream
from headrace.testing.frames import LocalFrame, table_of
from headrace.testing.streams import scripted_feeds, selected
from headrace.worker.entry import Epoch, ShardReport
from headrace.worker.protocol import to_row

SHARDS = 2
#: A stream's keys are its own: how often one came does not depend on how the streams interleave.
KEYS = {"Left": ("a", "b", "c"), "Right": ("x", "y")}
ROWS = 3  # in a batch
EVENTS = "key string, value bigint"
COUNTED = "key string, value bigint, times bigint"
#: Where the files of the sink lie.
OUTPUT = "/out"

Row = tuple[str, int, int]  # key, value, how often the key had come with it


def batches_of(schedule: Schedule, stream: str) -> list[list[tuple[str, int]]]:
    """Give the input of a stream: every value once."""
    keys = KEYS[stream]
    return [
        [(keys[(n * n + n // 3) % len(keys)], n) for n in range(b * ROWS, (b + 1) * ROWS)]
        for b in range(schedule.batches)
    ]


def streams(schedule: Schedule) -> dict[str, ScriptedStream]:
    """Give the streams, with all their batches."""
    found = {name: ScriptedStream(EVENTS) for name in KEYS}
    for name, stream in found.items():
        for batch in batches_of(schedule, name):
            stream.add(*batch)
    return found


def right_answer(schedule: Schedule) -> list[Row]:
    """Count by a plain loop: the oracle, which knows nothing of epochs."""
    times: dict[str, int] = {}
    found = []
    for stream in KEYS:
        for batch in batches_of(schedule, stream):
            for key, value in batch:
                times[key] = times.get(key, 0) + 1
                found.append((key, value, times[key]))
    return sorted(found)


@functools.cache
def plan() -> Plan:
    """Compile the pipeline, once."""
    pipeline = beam.Pipeline()
    reads = [pipeline | name >> ReadFromSpark(ScriptedStream(EVENTS)) for name in KEYS]
    rows = (
        reads
        | "Both" >> beam.Flatten()
        | "Pair" >> beam.Map(lambda row: (row.key, row.value)).with_output_types(tuple[str, int])
        | "Window" >> beam.WindowInto(
            window.GlobalWindows(), trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | "Group" >> beam.GroupByKey()
        | "Row" >> beam.Map(lambda pair: (*pair, 0))
    )
    _ = rows | "Files" >> WriteToSpark(OUTPUT, schema=COUNTED)
    _ = rows | "Table" >> WriteToSpark(function=print, schema=COUNTED)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    return compile_pipeline(proto, shards=SHARDS, name="simulated", streaming=True)


def frames(world: World, sources: Mapping[str, ScriptedStream], driver: Driver) -> Frames:
    """Give what one driver reads, in an order of its own, and writes."""
    names = sorted(sources, reverse=bool(driver.number % 2))
    reads = {name: ReadFromSpark(sources[name]) for name in names}

    def take(frame: Any, epoch: int, incarnation: int) -> None:
        world.take(epoch, incarnation, [tuple(row) for row in frame.collect()])

    return Frames(
        sources={name: read.frame for name, read in reads.items()},
        reads={name: read.read for name, read in reads.items()},
        sinks={
            "Files": WriteToSpark(OUTPUT, schema=COUNTED),
            "Table": WriteToSpark(function=take, schema=COUNTED),
        },
    )  # fmt: skip


def live(
    world: World, sources: Mapping[str, ScriptedStream], driver: Driver, *, drain: bool = False
) -> str:
    """Be a driver: read what is there, or drain; say how it ended."""
    KEPT.clear()  # another machine remembers nothing of what this one wrote
    options = StreamOptions(
        checkpoint=f"memory://{world.name}", state_dir=f"memory:{world.name}-{driver.number}",
        available_now=True,
    )
    host = CountingHost(world)
    stream = Stream(plan(), host, Settings(), frames(world, sources, driver), options)
    if drain:
        stream.drain()
    return "finished" if stream.run() else "stopped"


class CountedRows:
    """What the tasks of an epoch gave."""

    def __init__(self, session: Session, work: Callable[[], tuple[list[ShardReport], list[Row]]]):
        self._session = session
        self._work = work
        self._rows: list[Row] = []

    def keep(self) -> None:
        """Rows stay as long as this object does."""

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the tasks."""
        reports, self._rows = self._work()
        return [to_row(report) for report in reports]

    def output(
        self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0
    ) -> LocalFrame:
        """Give the rows; both sinks get the same."""
        del channel, schema, order_bytes
        return LocalFrame(self._session, table_of(self._rows, columns), columns)

    def forget(self) -> None:
        """Let the rows go."""


class CountingHost:
    """Counts rows by key, on real state partitions; see `headrace.engine.host.Host`."""

    parallelism = SHARDS
    is_local = is_one_machine = True
    shares_disk = True

    def __init__(self, world: World) -> None:
        self.session = Session(world)
        self._world = world
        outputs = [
            (index, channel.label) for index, channel in enumerate(plan().channels)
            if channel.kind is ChannelKind.OUTPUT
        ]  # fmt: skip
        self._files = next(index for index, label in outputs if label == "Files")
        self._table = next(index for index, label in outputs if label == "Table")

    def run_batch(self, *unused: Any) -> CountedRows:
        """There is no batch here."""
        raise NotImplementedError

    def prepare_epochs(self, shards: int) -> None:
        """Nothing is needed."""

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str, layout: Layout = Layout.STAGES,
    ) -> CountedRows:
        """Run one epoch."""
        del tasks, whole, title, layout
        came = [] if frame is None else [(row.key, row.value) for row in frame.collect()]

        def work() -> tuple[list[ShardReport], list[Row]]:
            reports = []
            rows: list[Row] = []
            for superstep in range(1, len(plan().supersteps)):
                for shard in range(shards):
                    mine = [pair for pair in came if crc32(pair[0].encode()) % shards == shard]
                    found = self._task(epoch, superstep, shard, mine if superstep == 1 else [])
                    reports.append(found[0])
                    rows += found[1]
            return reports, rows

        return CountedRows(self.session, work)

    def _task(
        self, epoch: Epoch, superstep: int, shard: int, pairs: Iterable[tuple[str, int]]
    ) -> tuple[ShardReport, list[Row]]:
        assert epoch.local is not None and epoch.files is not None
        name = f"{superstep}-{shard}"
        partition = open_partition(
            epoch.local.open(""), epoch.files, name, epoch.chains.get(name, Chain()), run=epoch.run
        )
        rows: list[Row] = []
        for key, value in pairs:
            row = b"m" + key.encode()
            times = struct.unpack("<q", partition.get(row) or bytes(8))[0] + 1
            partition.put(row, struct.pack("<q", times))
            rows.append((key, value, times))
        crash_point(Point.BEFORE_SEAL, epoch.number, epoch.attempt, name)
        stem = f"{epoch.number:08d}-{epoch.incarnation}-{epoch.attempt}-{self._world.driver.number}"
        chain = partition.seal(stem)
        crash_point(Point.AFTER_SEAL, epoch.number, epoch.attempt, name)
        files = {}
        if rows and self._files in epoch.direct:
            files = {self._files: [self._write(epoch.direct[self._files], name, rows)]}
        return (
            ShardReport(
                superstep=superstep, shard=shard, partition=name, chain=chain, files=files,
                outputs={self._files: len(rows), self._table: len(rows)},
            ),
            rows,
        )

    def _write(self, folder: str, partition: str, rows: list[Row]) -> str:
        """Write rows aside, as a worker does: it makes the folder if that is gone."""
        storage = self.session.storage()
        storage.make_folder(folder)
        file = f"part-{partition}"
        storage.write(f"{folder}/{file}", json.dumps(rows).encode())
        return file

    def feeds(self, options: StreamOptions, wake: Callable[[], None]) -> Feeds:
        """Give what brings the batches of the scripted stream."""
        return scripted_feeds(options, wake)

    def input_of(self, frame: Any) -> str:
        """Say what the stream is."""
        return str(selected(frame).stream.schema.simpleString())

    def check_checkpoint(self, location: str, *, feeds: bool) -> None:
        """Any place will do."""

    def end_stages(self, run: str, confirmed: tuple[str, ...]) -> None:
        """There are no stages."""

    def watching(self, plan: Plan, style: str) -> AbstractContextManager[None]:
        """Show nothing."""
        del plan, style
        return nullcontext()

    def show_log(self) -> None:
        """There is no log."""

    def cancel(self) -> None:
        """Nobody cancels."""

    def close(self) -> None:
        """Nothing is held."""


def written(world: World) -> Mapping[str, list[Row]]:
    """Give the rows that a reader of each sink finds."""
    found: list[Row] = []
    for file in files_at(world.storage, OUTPUT):
        found += [tuple(row) for row in json.loads(world.storage.read(file))]
    table = [row for _, rows in world.table.values() for row in rows]
    return {"files": sorted(found), "table": sorted(table)}
