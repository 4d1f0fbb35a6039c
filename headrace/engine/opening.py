"""Opens a streaming run on its checkpoint: takes the folder over, and finds where to go on.

Takes a plan, a host and options; gives what the first epoch needs. In this order: the checkpoint is
claimed, older drivers are shut out, the logs of streaming DataFrames are held against the manifest,
the sinks are made ready.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.identity import describe
from headrace.engine.checkpoint.manifests import LogRecord, Manifest
from headrace.engine.checkpoint.spark_log import problems
from headrace.engine.clock import Clock, WallClock
from headrace.engine.epoch_run import Run, first_status
from headrace.engine.held import Held
from headrace.engine.host import Host
from headrace.engine.leftovers import note_process
from headrace.engine.outputs import Outputs
from headrace.engine.positions import Positions, Sources
from headrace.engine.spark.folders import spark_folder
from headrace.engine.status import StreamOptions, StreamStatus
from headrace.engine.tasks import EpochTasks
from headrace.errors import CheckpointError
from headrace.io.frames import Frames
from headrace.plan.ids import StageId
from headrace.plan.supersteps import Plan
from headrace.state.files import shown
from headrace.state.local import EXECUTOR, LocalFolder, sweep_copies
from headrace.state.private import lets_in

#: The file of a checkpoint that names the run for its sinks.
WRITER = "writer"
#: The folder of a checkpoint for what sinks publish when its epoch counts.
OUTBOX = "outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a driver is started with."""

    plan: Plan
    host: Host
    tasks: EpochTasks
    outputs: Outputs
    frames: Frames
    options: StreamOptions
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A driver that may run epochs."""

    run: Run
    held: Held
    status: StreamStatus


class OwnFolder:
    """A checkpoint that ends with its run, for one that was given none."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="headrace-checkpoint-", ignore_cleanup_errors=True
        )
        self.location = self._folder.name
        note_process(Path(self.location))

    def remove(self) -> None:
        """Remove it with all that is in it."""
        self._folder.cleanup()


def claimed_checkpoint(start: Start, location: str) -> Checkpoint:
    """Take a checkpoint folder over for a driver; close it at the end."""
    if "://" not in location:
        location = os.path.abspath(location)  # Spark's own folder need not be the driver's
    start.host.check_checkpoint(location, feeds=bool(start.frames.streaming()))
    facts = start.plan.facts
    description = describe(
        start.plan, coders=facts.coders, windowings=facts.windowings,
        state={StageId(stage): cells for stage, cells in facts.state.items()},
        words=facts.words,
        inputs={
            name: start.host.input_of(start.frames.sources[name])
            for name in start.frames.streaming()
        },
    )
    return Checkpoint.open(location, description.to_json(), now=WallClock().now())


def opened(
    start: Start, checkpoint: Checkpoint, pause: Callable[[float], None] = time.sleep
) -> Opened:
    """Find where to go on, and make sinks and host ready for the first epoch.

    Args:
        start: what the driver is started with.
        checkpoint: the folder, claimed.
        pause: waits for so many seconds, or until the run is told to stop.
    """
    frames = start.frames
    bounded = [name for name, read in frames.reads.items() if not read.streaming]
    prepare_copies(start, local_of(checkpoint, start.options))
    # Kept before the first epoch is: sinks that took it before a crash must know us again. A new
    # one for each new checkpoint, even at an old path, else a sink would take the new run's epochs
    # for those it has.
    checkpoint.files.create(WRITER, uuid.uuid4().hex.encode())
    writer = checkpoint.files.read(WRITER).decode()
    clock = start.clock
    positions = Positions(clocks={name: read.clock() for name, read in frames.reads.items()},
                          steps={script.name: 0 for script in start.plan.scripts})

    def nothing_yet() -> Manifest:
        return checkpoint.manifest(
            partitions={}, watermarks={}, sources=positions.record(clock.now(), writer), batches={}
        )

    given_away = checkpoint.shut_out(nothing_yet)
    newest = checkpoint.newest
    held, status = Held(positions=positions), StreamStatus()
    if newest is not None:
        clock = clock.resumed(newest.sources.now)
        writer = newest.sources.writer
        positions = positions.restored(newest.sources, newest.batches, newest.logs, clock.now())
        held = Held.resumed(newest, start.plan, positions)
        status = first_status(newest, start.plan, held)
    logs = {name: log_of(frames, name) for name in frames.reads}
    check_logs(checkpoint, {name: logs[name] for name in frames.streaming()}, positions)
    run = Run(
        plan=start.plan, host=start.host, tasks=start.tasks,
        sources=Sources.of(start.plan, bounded), outputs=start.outputs, options=start.options,
        checkpoint=checkpoint, clock=clock, name=uuid.uuid4().hex, writer=writer, logs=logs,
        local=local_of(checkpoint, start.options), outbox=_outbox_of(checkpoint, start),
        reads=frames.reads, pause=pause,
    )
    fresh = not positions.begun
    start.outputs.prepare(run.handover(checkpoint.next_epoch, "", fresh=fresh))
    for epoch in given_away:
        start.outputs.deliver_nothing(run.handover(epoch, f"{run.token}.{epoch}", fresh=fresh))
    start.host.prepare_epochs(start.plan.shards)
    return Opened(run=run, held=held, status=status)


def _outbox_of(checkpoint: Checkpoint, start: Start) -> str:
    """Give the folder for what sinks publish after the commit, as Spark must be told of it."""
    files = checkpoint.files
    if files.has_memory_lock or not start.outputs.has_outbox:
        return ""
    if files.is_local:
        return str(files.path(OUTBOX))
    return spark_folder(start.host.session, files.below(OUTBOX))


def log_of(frames: Frames, name: str) -> str:
    """Give the folder, below the checkpoint, of the log of a streaming DataFrame."""
    return f"spark/{sorted(frames.reads).index(name)}"


def local_of(checkpoint: Checkpoint, options: StreamOptions) -> LocalFolder:
    """Say where the copies of the state partitions lie, on whichever machine."""
    files = checkpoint.files
    return LocalFolder(
        state_dir=options.state_dir,
        checkpoint=files.path("") if files.is_local else files.location,
    )


def prepare_copies(start: Start, local: LocalFolder) -> None:
    """Tidy up this machine's copies; where tasks run here, refuse a folder that is not safe."""
    state_dir = start.options.state_dir
    if start.host.is_local and EXECUTOR not in state_dir:  # else only executors know its name
        local.open("")
    for base in local.bases():
        if not lets_in(base):
            sweep_copies(base, shared=bool(state_dir))


def check_logs(
    checkpoint: Checkpoint, logs: Mapping[str, str], positions: Positions
) -> None:
    """See that Spark's logs are those that the manifest counts, before Spark reads them.

    Args:
        checkpoint: where they are.
        logs: their folders, by the names of the reads.
        positions: what the manifest counts.
    """
    found = []
    for name, folder in logs.items():
        batch = positions.batches.get(name, -1)
        # Without a record, as in a checkpoint of version 0.1 or a new one, the number must do.
        record = positions.logs.get(name, LogRecord(folder=folder, batch=batch, sums={}))
        found += [f"{name}: {problem}" for problem in problems(checkpoint.files, record)]
    if found:
        newest, location = checkpoint.newest, shown(checkpoint.files.location)
        which = "no manifest" if newest is None else f"the manifest of epoch {newest.epoch}"
        listed = "".join(f"\n  * {sentence}" for sentence in found)
        msg = (
            f"checkpoint {location} has {which}, and Spark's log in it does not fit; rows would "
            f"be lost or come twice:{listed}"
        )
        raise CheckpointError(msg)
