"""What a worker process keeps between the epochs of a stream: the stages of its shards.

Gives a shard's run to the task that has it next, makes it where there is none, and lets go of what
nobody has asked for in a long time. State is not here: it lies in state partitions.
"""

from __future__ import annotations

import pickle
import time
import zlib
from collections.abc import Sequence

from headrace.worker.protocol import SuperstepTask
from headrace.worker.task.shard import ShardRun
from headrace.worker.task.surroundings import prepare, settle

#: A run that had no task here for so long is over, or elsewhere. Others may share the session.
IDLE_SECONDS = 120.0

#: A run, a superstep, a shard.
Name = tuple[str, int, int]

_KEPT: dict[Name, ShardRun] = {}
_SEEN: dict[str, float] = {}  # when each run last had a task here


def name_of(run: str, blob: bytes, shard: int) -> Name:
    """Name what is kept for one shard of a pickled task."""
    return run, zlib.crc32(blob), shard


def taken(name: Name, blob: bytes) -> ShardRun:
    """Take a shard's run out; what fails in the middle of an epoch is not used again.

    Args:
        name: of the run, the superstep and the shard.
        blob: the pickled task, for a shard that was not here before.
    """
    kept = _KEPT.pop(name, None)
    if kept is not None:
        prepare(kept.settings)  # another run's task may have been here since
        return kept
    task: SuperstepTask = pickle.loads(blob)
    settle(task.settings)
    prepare(task.settings)
    return ShardRun.streaming(task, name[2])


def keep(name: Name, run: ShardRun) -> None:
    """Keep a shard's run for its next epoch."""
    _KEPT[name] = run


def forget_idle_runs(run: str) -> None:
    """Tear down what runs that are over left here; this one is not."""
    now = time.monotonic()
    _SEEN[run] = now
    idle = {name for name, seen in _SEEN.items() if now - seen > IDLE_SECONDS}
    for name in [name for name in _KEPT if name[0] in idle]:
        _KEPT.pop(name).tear_down()
    for other in idle:
        del _SEEN[other]


def end_run(run: str, confirmed: Sequence[str]) -> None:
    """Run the callbacks that still wait in this process; let every DoFn of the run tear down."""
    for name in [name for name in _KEPT if name[0] == run]:
        kept = _KEPT.pop(name)
        kept.finalise(confirmed)
        kept.tear_down()
