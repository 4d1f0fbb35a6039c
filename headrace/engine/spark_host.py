"""Spark as the host of a run: its jobs, its queries, its DataFrames.

Builds lazy DataFrames by `launch`, and asks for their rows. Decides nothing of epochs and commits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import StorageLevel

from headrace.engine.doors import Job
from headrace.engine.file_scans import scan_of
from headrace.engine.host import Feeds, TaskRows
from headrace.engine.inputs import input_of
from headrace.engine.launch import (
    EPOCH_PROPERTY,
    end_stages,
    launch,
    launch_epoch,
    output_frame,
    preferred_executors,
)
from headrace.engine.own_sources import own_feeds
from headrace.engine.queries import Brought, Queries
from headrace.engine.session import SparkTarget
from headrace.engine.spark_folders import see_that_spark_can_open, see_that_workers_see
from headrace.engine.status import StreamOptions
from headrace.engine.stream_plans import input_of_plan
from headrace.engine.tasks import EpochTasks
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.worker.entry import REPORT_CHANNEL, Epoch, to_text

_LOG = logging.getLogger(__name__)

#: The longest text of an epoch that travels as a property of its job: listeners and the event log
#: get the properties of a job and of each of its stages. A longer one travels in the plan.
MAX_PROPERTY_CHARS = 32 << 10


class SparkRows:
    """The rows of a lazy DataFrame of super tuples."""

    def __init__(self, rows: Any, target: SparkTarget) -> None:
        self._rows = rows
        self._target = target
        self._kept = False

    def keep(self) -> None:
        """Keep the rows: one job runs the tasks, another one writes."""
        self._rows = self._rows.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept = True

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the job; give the reports."""
        # Where no sink wants rows, nothing but reports is left after the last superstep.
        wanted = self._rows.where(f"channel = {REPORT_CHANNEL}") if self._kept else self._rows
        return [(row.seq, bytes(row.payload)) for row in wanted.collect()]

    def output(self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0) -> Any:
        """Give what was sent to an output channel, as a DataFrame."""
        session = self._target.door.leaving(self._target.session)
        return output_frame(session, self._rows, channel, columns, schema, order_bytes)

    def forget(self) -> None:
        """Let the rows go."""
        try:
            self._rows.unpersist()
        except Exception as error:  # noqa: BLE001 (the session may have been stopped, and its rows with it)
            _LOG.debug("the rows of a run could not be unpersisted: %s", error)


class PreparedRows:
    """The rows of an epoch whose plan is there already; they cannot be kept.

    Args:
        job: runs the plan.
        told: the epoch, as its tasks are told of it.
        build: gives the same rows by a plan of their own, for sinks that want them.
    """

    def __init__(self, job: Job, told: str, build: Callable[[], SparkRows]) -> None:
        self._job, self._told, self._build = job, told, build
        self._kept: SparkRows | None = None

    def keep(self) -> None:
        """Keep the rows, by a plan of their own."""
        self._kept = self._build()
        self._kept.keep()

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the job; give the reports."""
        if self._kept is not None:
            return self._kept.reports()
        rows = self._job({EPOCH_PROPERTY: self._told})
        return [(number, bytes(payload)) for number, payload in rows]

    def output(self, channel: int, columns: Any, schema: bytes, order_bytes: int = 0) -> Any:
        """Give what was sent to an output channel, as a DataFrame."""
        assert self._kept is not None, "sinks have not asked for rows"
        return self._kept.output(channel, columns, schema, order_bytes)

    def forget(self) -> None:
        """Let the rows go."""
        if self._kept is not None:
            self._kept.forget()


class SparkHost:
    """A session of Spark's.

    Args:
        target: the session, and the child of it in which we work.
        group: names the run's jobs, so that they can be cancelled together.
    """

    def __init__(self, target: SparkTarget, group: str) -> None:
        self.target = target
        self._group = group
        self._preferred_executors: Any = None  # cached while a stream goes on
        # Of epochs that no DataFrame feeds, by whether they begin with superstep 0.
        self._prepared: dict[bool, Job | None] = {}

    @property
    def session(self) -> Any:
        """The user's session."""
        return self.target.parent

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""
        return self.target.door.parallelism

    @property
    def is_local(self) -> bool:
        """Whether all tasks run on the driver's machine."""
        return self.target.door.is_local

    @property
    def shares_disk(self) -> bool:
        """Whether tasks see the driver's disk."""
        return self.target.door.shares_disk

    def run_batch(
        self,
        plan: Plan,
        settings: Settings,
        sources: Mapping[str, Any],
        schemas: Mapping[int, bytes],
        title: str,
    ) -> SparkRows:
        """Build the job of a plan."""
        self._name_jobs(title)
        target = self.target
        ours = {
            name: target.door.in_child(frame, target.session) for name, frame in sources.items()
        }
        rows = launch(plan, target.session, settings, ours, schemas)
        return SparkRows(rows, target)

    def prepare_epochs(self, shards: int) -> None:
        """Give every shard a home; where all workers share a machine, it is everywhere."""
        if not self.target.door.is_one_machine:
            self._preferred_executors = preferred_executors(self.target.session, shards).persist()
            self._preferred_executors.count()

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str,
    ) -> TaskRows:
        """Build the job of an epoch; of one that no DataFrame feeds, the plan is there already."""
        self._name_jobs(title)
        build = partial(self._build_epoch, tasks, epoch, shards, frame, whole=whole)
        if frame is not None or self._preferred_executors is not None:
            return build()
        job = self._job(tasks, shards, whole=whole)
        told = to_text(epoch) if job is not None else ""
        if job is None or len(told) > MAX_PROPERTY_CHARS:
            return build()
        return PreparedRows(job, told, build)

    def _job(self, tasks: EpochTasks, shards: int, *, whole: bool) -> Job | None:
        """Give what runs the plan of epochs that no DataFrame feeds; made for the first of them."""
        if whole not in self._prepared:
            session = self.target.session

            def build() -> Any:
                rows = launch_epoch(tasks, session, None, shards, None, whole)
                return rows.select("seq", "payload")  # of a report

            self._prepared[whole] = self.target.door.prepared(session, build)
        return self._prepared[whole]

    def _build_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool
    ) -> SparkRows:
        scan = None
        if isinstance(frame, Brought):
            frame, scan = frame.rows, frame.scan
        elif frame is not None:
            scan = scan_of(frame)
        session = self.target.session if frame is None else frame.sparkSession
        sticky = self._preferred_executors is not None
        rows = launch_epoch(tasks, session, epoch, shards, frame, whole, sticky, scan)
        return SparkRows(rows, self.target)

    def feeds(self, options: StreamOptions, wake: Callable[[], None]) -> Feeds:
        """Give the queries of a run, which have threads of their own, or what our loop asks."""
        del wake
        if self.target.door.has_queries:
            return Queries(self.target, options)
        return own_feeds(self.target, options)

    def input_of(self, frame: Any) -> str:
        """Say what a streaming DataFrame reads."""
        return input_of(frame) if self.target.door.has_queries else input_of_plan(frame)

    def check_checkpoint(self, location: str, *, feeds: bool) -> None:
        """Refuse a checkpoint that workers cannot see, or below which Spark could keep no log."""
        if not self.target.door.has_queries:
            if not self.shares_disk:
                see_that_workers_see(self.target.session, location, 2 * self.parallelism)
        elif feeds:
            see_that_spark_can_open(self.target.session, location)

    def end_stages(self, run: str, confirmed: tuple[str, ...]) -> None:
        """Run the callbacks that still wait in the workers, and tear the stages down."""
        end_stages(self.target.session, run, confirmed, 2 * self.parallelism)

    def watching(self, plan: Plan, style: str) -> AbstractContextManager[None]:
        """Show how far a batch is, by Spark's status tracker."""
        from headrace.engine.progress import watching

        return watching(self.target, self._group, plan, style)

    def show_log(self) -> None:
        """Let Spark's own log be seen."""
        self.target.door.show_log()

    def cancel(self) -> None:
        """Cancel the run's jobs that are running now; one that is about to start is not."""
        self.target.door.cancel(self._group)

    def close(self) -> None:
        """Forget the preferred_executors of the shards, and the child session."""
        try:
            if self._preferred_executors is not None:
                self._preferred_executors.unpersist()
        except Exception as error:  # noqa: BLE001 (the session may be gone)
            _LOG.debug("the preferred_executors of the shards could not be forgotten: %s", error)
        self._preferred_executors = None
        self._prepared = {}
        self.target.door.forget_child()
        self.target = replace(self.target, session=None)

    def _name_jobs(self, title: str) -> None:
        self.target.door.name_jobs(self._group, title)
