"""Drivers whose tasks are headrace's own: `headrace.testing`'s host in a world of faults.

Drawn for each driver, by its dice: how many shards it has, whether each epoch is laid out as stages
or as one task, whether a failed epoch is tried again, where state has its copies. Stages that one
driver's tasks have built serve the next driver's tasks too: making them costs more than a schedule
has time for, and no epoch may rely on what an earlier one has left in them.
"""

from __future__ import annotations

import io
import logging
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine import epoch_run, retries
from headrace.engine.layouts import Layout
from headrace.engine.publishing import Publish, Publishing
from headrace.engine.status import StreamOptions
from headrace.engine.stream import Stream
from headrace.engine.tasks import EpochTasks
from headrace.errors import WorkerLostError
from headrace.io import WriteToSpark
from headrace.io.frames import Frames
from headrace.io.kafka import outbox, publish, sink
from headrace.io.storage import LocalStorage, Storage
from headrace.lab.experiments.faults.simulation.places import FaultyKafka, Session, files_at
from headrace.lab.experiments.faults.simulation.real_pipeline import (
    FOUND,
    Row,
    plan,
    reads,
    row_of,
)
from headrace.lab.experiments.faults.simulation.schedule import Schedule
from headrace.lab.experiments.faults.simulation.world import Driver, World
from headrace.plan.settings import Settings
from headrace.state.kept import KEPT
from headrace.testing import ManualClock, ScriptedStream
from headrace.testing.host import LocalHost, LocalRows
from headrace.worker import entry
from headrace.worker.entry import Epoch

MOST_SHARDS = 3
#: Of the schedules, those whose copies of state are LMDB's and whose files workers write on a disk.
ON_DISK = 0.1
TOPIC = "found"


def storage(schedule: Schedule, at_end: ExitStack) -> Storage | None:
    """Give a folder on a disk to some of the schedules, for as long as they run."""
    if crc32(str(schedule.seed).encode()) % 1000 >= ON_DISK * 1000:
        return None
    # One in memory, if there is one: what a power cut does is not asked here.
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="headrace-simulated-", dir=memory if memory.is_dir() else None)
    at_end.callback(shutil.rmtree, folder, ignore_errors=True)
    return LocalStorage(folder)


def live(
    world: World, sources: Mapping[str, ScriptedStream], driver: Driver, *, drain: bool = False
) -> str:
    """Be a driver: read what is there, or drain; say how it ended."""
    KEPT.clear()  # another machine remembers nothing of what this one wrote
    disk = world.storage if isinstance(world.storage, LocalStorage) else None
    name = f"{world.name}-{driver.number}"
    options = StreamOptions(
        checkpoint=f"memory://{world.name}",
        state_dir=f"memory:{name}" if disk is None else disk.location(f"state-{driver.number}"),
        available_now=True,
        max_retries=driver.dice.choice((0, 2)),
    )
    host = FaultyHost(world, driver, shares_disk=disk is not None)
    shards = driver.dice.randint(1, MOST_SHARDS)
    settings = Settings(run="simulated")  # the same for all: their tasks share stages
    clock = ManualClock(start=1_000 + driver.number)
    stream = Stream(plan(shards), host, settings, frames(world, sources, driver), options, clock)
    if drain:
        stream.drain()
    return "finished" if stream.run() else "stopped"


def frames(world: World, sources: Mapping[str, ScriptedStream], driver: Driver) -> Frames:
    """Give what one driver reads, in an order of its own, and writes."""
    made = reads(sources["Readings"], sources["Rates"])
    names = sorted(made, reverse=bool(driver.number % 2))

    def take(frame: Any, epoch: int, incarnation: int) -> None:
        world.take(epoch, incarnation, [tuple(row) for row in frame.collect()])

    return Frames(
        sources={name: made[name].frame for name in names},
        reads={name: made[name].read for name in names},
        sinks={
            "Files": WriteToSpark(_output(world), schema=FOUND),
            "Table": WriteToSpark(function=take, schema=FOUND),
            "Kafka/Publish": sink.KafkaSink(
                topic=TOPIC, options={"bootstrap.servers": "memory:1"}, prefix="simulated-",
                rules=publish.Rules(most=2), ordered=False,
            ),
        },
    )  # fmt: skip


def _output(world: World) -> str:
    return world.storage.location("out") if isinstance(world.storage, LocalStorage) else "/out"


class FaultyHost(LocalHost):
    """Runs tasks by the worker's own door; workers die, and others stand still in a task.

    Args:
        world: where that happens.
        driver: whose tasks they are.
        shares_disk: workers write files of sinks themselves.
    """

    def __init__(self, world: World, driver: Driver, *, shares_disk: bool) -> None:
        # The world lets one task go on at a time, and others stand still in the middle of theirs.
        super().__init__(Session(world), in_turn=nullcontext())
        self._driver = driver
        self.shares_disk = shares_disk

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str, layout: Layout = Layout.STAGES,
    ) -> LocalRows:
        """Run one epoch, laid out as the dice say."""
        layout = self._driver.dice.choice(list(Layout))
        return super().run_epoch(
            tasks, epoch, shards, frame, whole=whole, title=title, layout=layout
        )

    def _task(self, made: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        try:
            return super()._task(made)
        except Exception as error:
            if not self._driver.lost_worker:
                raise
            self._driver.lost_worker = False
            KEPT.clear()  # the next one remembers nothing
            msg = "the worker was killed"
            raise WorkerLostError(msg) from error


class TurnsPublishing(Publishing):
    """Publishes while the next epoch runs: both take turns, so that a schedule is a schedule."""

    def __init__(self, driver: Driver, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self._driver = driver

    def begin(self, publish: Publish) -> Mapping[str, float]:
        """Begin the next one, once the last one has ended; give what that took, by sink."""
        self.wait()
        took, self._seconds = self._seconds, {}
        self._driver.do_aside(lambda: self._run(publish))
        return took

    def _join(self) -> None:
        self._driver.join_aside()


class TurnsLock:
    """A lock between the threads of a driver, which take turns."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._held = False

    def __enter__(self) -> None:
        while self._held:
            self._driver.take_turns()
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False


@contextmanager
def around(world: World, kafka: FaultyKafka) -> Iterator[None]:
    """Let the engine's threads take turns, and find the world's broker; nobody waits for time."""

    def name_of(run: str, blob: bytes, shard: int) -> tuple[str, int, int]:
        del run
        return "simulated", crc32(blob), shard

    with ExitStack() as patches:
        # Tasks that stand still set these back in an order that is none.
        patches.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        patches.callback(logging.getLogger().setLevel, logging.getLogger().level)
        patches.enter_context(warnings.catch_warnings())
        for target, name, instead in (
            (epoch_run, "Publishing", lambda wake: TurnsPublishing(world.driver, wake)),
            (outbox, "threading", SimpleNamespace(Lock=lambda: TurnsLock(world.driver))),
            (sink, "TransactionalProducer", kafka.producer),
            (entry, "name_of", name_of),
            (publish, "_PAUSES", (0.0,)),
            (retries, "FIRST_PAUSE_SECONDS", 0.0),
        ):
            patches.enter_context(mock.patch.object(target, name, instead))
        yield


def written(world: World, kafka: FaultyKafka) -> Mapping[str, list[Row]]:
    """Give the rows that a reader of each sink finds."""
    files: list[Row] = []
    for file in files_at(world.storage, _output(world)):
        found = pq.read_table(io.BytesIO(world.storage.read(file))).to_pylist()
        files += [tuple(row.values()) for row in found]
    table = [row for _, rows in world.table.values() for row in rows]
    messages = [row_of(message) for message in kafka.topics.get(TOPIC, ())]
    return {"files": sorted(files), "table": sorted(table), "kafka": sorted(messages)}
