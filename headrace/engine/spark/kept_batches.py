"""Spark's plans of batches, kept for the next batch of the same shape in the same session.

What Spark has to plan of a batch that no DataFrame feeds and no sink wants rows of is a chain of
supersteps: so many shards, so many exchanges, each sorted by so much. What the supersteps do is the
workers' affair, and travels as a property of the job. Beside `launch`, whose plans hold the tasks.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.engine.spark.doors import Job
from headrace.engine.spark.launch import MAX_PROPERTY_CHARS, exchanged, numbers, rows_type
from headrace.engine.spark.session import SparkTarget
from headrace.engine.tasks import first_parts, sorted_by, tasks_of
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.worker.entry import SuperstepTask, packed, run_superstep, unpacked

#: The property of a job that says what its tasks do.
TASKS_PROPERTY = "headrace.tasks"
#: By which columns the rows of each superstep but the first are sorted.
Sorted = tuple[tuple[str, ...], ...]


class KeptRows:
    """What the tasks of a batch put out that no sink wants rows of: reports."""

    def __init__(self, job: Job, tasks: str) -> None:
        self._job, self._tasks = job, tasks

    def keep(self) -> None:
        """Refuse: a sink has its plan made for its own rows."""
        msg = "reports are fetched once"
        raise AssertionError(msg)

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the job; give the reports."""
        return unpacked(bytes(part) for (part,) in self._job({TASKS_PROPERTY: self._tasks}))

    def output(self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0) -> Any:
        """Refuse: there is no output channel."""
        del columns, schema, order_bytes
        msg = f"no sink has asked for channel {channel}"
        raise AssertionError(msg)

    def forget(self) -> None:
        """Nothing was kept."""


def kept_rows(plan: Plan, settings: Settings, target: SparkTarget) -> KeptRows | None:
    """Give the rows of a batch by a plan that is there already, or is made for all of its shape.

    None: a DataFrame feeds it, its tasks are too long to be told, or Spark plans each time.
    """
    first, *later = tasks_of(plan, settings)
    parts = first_parts(plan, first)
    if parts.fed:
        return None
    tasks = tasks_text([parts.shards or first, *later])
    if len(tasks) > MAX_PROPERTY_CHARS:
        return None
    shape = plan.shards, tuple(sorted_by(plan, task) for task in later)
    job = target.door.kept(target.session, shape, partial(launch_any, target.session, *shape))
    return None if job is None else KeptRows(job, tasks)


def tasks_text(tasks: Sequence[SuperstepTask]) -> str:
    """Give the tasks of a batch, superstep by superstep, as text."""
    pickled = pickle.dumps(tuple(tasks), pickle.HIGHEST_PROTOCOL)
    return base64.b85encode(zlib.compress(pickled, 1)).decode()


@lru_cache(maxsize=4)
def tasks_from(text: str) -> tuple[SuperstepTask, ...]:
    """Read what `tasks_text` gave; a worker has tasks of several supersteps and shards."""
    tasks: tuple[SuperstepTask, ...] = pickle.loads(zlib.decompress(base64.b85decode(text)))
    return tasks


def launch_any(session: Any, shards: int, sorted_by: Sorted) -> Any:
    """Build the chain of supersteps of every batch of a shape; what it gives is reports, packed."""
    last = len(sorted_by)
    rows = numbers(session, shards)
    for index in range(last + 1):
        if index:
            rows = exchanged(rows, shards, sorted_by[index - 1])
        kind = _parts_type() if index == last else rows_type()
        rows = rows.mapInArrow(_superstep_of(index, last), kind)
    return rows


@cache
def _parts_type() -> Any:
    return StructType([StructField("part", BinaryType(), False)])


def _superstep_of(index: int, last: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function for `mapInArrow`: the partition's number is the shard's."""

    def superstep(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = tasks_from(context.getLocalProperty(TASKS_PROPERTY))[index]
        if index == 0:  # numbers that mean nothing
            for _ in batches:
                pass
            batches = ()
        made = run_superstep(task, context.partitionId(), batches)
        return packed(made) if index == last else made

    return superstep
