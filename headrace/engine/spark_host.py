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

from headrace.engine.host import Feeds, TaskRows
from headrace.engine.layouts import Layout
from headrace.engine.resident import ResidentEpochs, ResidentRows
from headrace.engine.scans.choose import scan_of
from headrace.engine.sources.inputs import input_of
from headrace.engine.sources.own_batches import OwnBatch
from headrace.engine.sources.own_sources import own_feeds, plain_feeds
from headrace.engine.sources.queries import Brought, Queries
from headrace.engine.sources.stream_plans import input_of_plan
from headrace.engine.spark.doors import Job, is_connect
from headrace.engine.spark.folders import see_that_spark_can_open, see_that_workers_see
from headrace.engine.spark.kept_batches import kept_rows
from headrace.engine.spark.launch import (
    EPOCH_PROPERTY,
    MAX_PROPERTY_CHARS,
    Reads,
    end_stages,
    known,
    launch,
    launch_epoch,
    output_frame,
    preferred_executors,
    rows_type,
)
from headrace.engine.spark.one_task import (
    launch_in_one_task,
    launch_reports,
    launch_resident,
    request,
)
from headrace.engine.spark.session import SparkTarget
from headrace.engine.status import StreamOptions, WhoAsks
from headrace.engine.tasks import EpochTasks
from headrace.plan.scans import Scan
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.worker.entry import REPORT_CHANNEL, Epoch, to_text, unpacked

_LOG = logging.getLogger(__name__)


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
        if not is_connect(wanted):
            return [(row.seq, bytes(row.payload)) for row in wanted.collect()]
        # `collect` there asks the server for a setting each time, and for columns it does not know.
        table = known(wanted, rows_type()).toArrow()
        return list(zip(table["seq"].to_pylist(), table["payload"].to_pylist(), strict=True))

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
        epoch_text: the epoch, as its tasks get it.
        build: gives the same rows by a plan of their own, for sinks that want them.
        layout: how its tasks are laid out; the reports of one task come packed.
    """

    def __init__(
        self, job: Job, epoch_text: str, build: Callable[[], SparkRows], layout: Layout
    ) -> None:
        self._job, self._epoch_text, self._build, self._layout = job, epoch_text, build, layout
        self._kept: SparkRows | None = None

    def keep(self) -> None:
        """Keep the rows, by a plan of their own."""
        self._kept = self._build()
        self._kept.keep()

    def reports(self) -> list[tuple[int, bytes]]:
        """Run the job; give the reports."""
        if self._kept is not None:
            return self._kept.reports()
        rows = self._job({EPOCH_PROPERTY: self._epoch_text})
        if self._layout is Layout.ONE_TASK:
            return unpacked(bytes(part) for (part,) in rows)
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
        # Of epochs that no DataFrame feeds: whether they begin with superstep 0, how they are laid
        # out, and which channel is fed by what tasks read themselves.
        self._prepared: dict[tuple[bool, Layout, int | None], Job | None] = {}
        self._scans: dict[int, Scan] = {}  # what tasks read themselves, by the channel that is fed
        self._resident: ResidentEpochs | None = None  # made for the first small epoch

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
    def is_one_machine(self) -> bool:
        """Whether all tasks run on one machine, the driver's or another."""
        return self.target.door.is_one_machine

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
    ) -> TaskRows:
        """Build the job of a plan; of a batch without DataFrames, Spark's plan may be there."""
        self._name_jobs(title)
        target = self.target
        ours = {
            name: target.door.in_child(frame, target.session) for name, frame in sources.items()
        }
        if not sources and not schemas and (kept := kept_rows(plan, settings, target)) is not None:
            return kept
        rows = launch(plan, target.session, settings, ours, schemas)
        return SparkRows(rows, target)

    def prepare_epochs(self, shards: int) -> None:
        """Give every shard a preferred executor, unless all workers share a machine."""
        if not self.target.door.is_one_machine:
            self._preferred_executors = preferred_executors(self.target.session, shards).persist()
            self._preferred_executors.count()

    def run_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        title: str, layout: Layout = Layout.STAGES,
    ) -> TaskRows:
        """Build the job of an epoch, or ask a task that stays for small ones."""
        self._name_jobs(title)
        if isinstance(frame, OwnBatch):
            epoch, frame = self._named(epoch, frame), None
        job = partial(self._epoch_job, tasks, epoch, shards, frame, whole=whole, layout=layout)
        fed = frame is not None or self._reads(epoch.feeding) is not None
        if not fed and not tasks.any_without_rows(whole=whole):
            return self._no_rows(tasks, epoch, shards)
        if frame is None and layout is Layout.ONE_TASK and self.target.door.lets_tasks_stay:
            asked = request(to_text(epoch), whole=whole)
            return ResidentRows(self._resident_epochs(tasks, shards), asked, job)
        self._make_room()
        return job()

    def _no_rows(self, tasks: EpochTasks, epoch: Epoch, shards: int) -> TaskRows:
        """Give what an epoch without tasks puts out; such is the first one of many a stream."""
        build = partial(
            self._build_epoch, tasks, epoch, shards, None, whole=False, layout=Layout.STAGES
        )
        return PreparedRows(lambda _: [], "", build, Layout.STAGES)

    def _named(self, epoch: Epoch, batch: OwnBatch) -> Epoch:
        """Let an epoch name what its tasks are to read."""
        assert epoch.feeding is not None
        if epoch.feeding not in self._scans:
            self._make_room()  # a task that stays would not know how
            self._scans[epoch.feeding] = batch.scan
        return replace(epoch, parts=batch.parts)

    def _reads(self, feeding: int | None) -> Reads | None:
        """Say what tasks read of a channel that no DataFrame feeds."""
        if feeding is None or feeding not in self._scans:
            return None
        return Reads(feeding, self._scans[feeding], self.parallelism)

    def _epoch_job(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        layout: Layout,
    ) -> TaskRows:
        """Build the job of an epoch; of one that no DataFrame feeds, the plan is there already."""
        build = partial(self._build_epoch, tasks, epoch, shards, frame, whole=whole, layout=layout)
        if frame is not None or self._preferred_executors is not None:
            return build()
        job = self._job(tasks, shards, epoch.feeding, whole=whole, layout=layout)
        epoch_text = to_text(epoch) if job is not None else ""
        if job is None or len(epoch_text) > MAX_PROPERTY_CHARS:
            return build()
        return PreparedRows(job, epoch_text, build, layout)

    def _resident_epochs(self, tasks: EpochTasks, shards: int) -> ResidentEpochs:
        """Give what has small epochs run by a task that stays; it runs in a thread of its own."""
        if self._resident is None:
            target, name_jobs = self.target, partial(self._name_jobs, "headrace: small epochs")

            def start(path: str) -> None:
                name_jobs()  # names belong to a thread
                scans = dict(self._scans)
                launch_resident(tasks, target.session, shards, path, scans).toArrow()

            self._resident = ResidentEpochs(start)
        return self._resident

    def _make_room(self) -> None:
        """Let a task that stays leave: another job is to have all cores."""
        if self._resident is not None:
            self._resident.leave()

    def _job(
        self, tasks: EpochTasks, shards: int, feeding: int | None, *, whole: bool, layout: Layout
    ) -> Job | None:
        """Give what runs the plan of epochs that no DataFrame feeds; made for the first of them."""
        kind = (whole, layout, feeding)
        if kind not in self._prepared:
            session, reads = self.target.session, self._reads(feeding)

            def build() -> Any:
                match layout:
                    case Layout.ONE_TASK:
                        return launch_reports(tasks, session, shards, whole, reads)
                    case Layout.STAGES:
                        rows = launch_epoch(
                            tasks, session, None, shards, None, whole, False, None, reads
                        )
                        return rows.select("seq", "payload")  # of a report

            self._prepared[kind] = self.target.door.prepared(session, build)
        return self._prepared[kind]

    def _build_epoch(
        self, tasks: EpochTasks, epoch: Epoch, shards: int, frame: Any | None, *, whole: bool,
        layout: Layout,
    ) -> SparkRows:
        scan = None
        if isinstance(frame, Brought):
            frame, scan = frame.rows, frame.scan
        elif frame is not None:
            scan = scan_of(frame)
        session = self.target.session if frame is None else frame.sparkSession
        reads = self._reads(epoch.feeding) if frame is None else None
        if layout is Layout.ONE_TASK:
            rows = launch_in_one_task(tasks, session, epoch, shards, frame, whole, scan, reads)
        else:
            sticky = self._preferred_executors is not None
            rows = launch_epoch(tasks, session, epoch, shards, frame, whole, sticky, scan, reads)
        return SparkRows(rows, self.target)

    def feeds(self, options: StreamOptions, wake: Callable[[], None]) -> Feeds:
        """Give the queries of a run, which have threads of their own, or what our loop asks."""
        if not self.target.door.has_queries:
            return own_feeds(self.target, options)
        queries = Queries(self.target, options, wake)
        if options.who_asks is WhoAsks.SPARK:
            return queries
        return plain_feeds(self.target, options, queries)

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
        if self._resident is not None:
            self._resident.leave(wait=True)  # its worker has stages too
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
        """Forget the preferred executors of the shards, and the child session."""
        if self._resident is not None:
            self._resident.leave(wait=True)
            self._resident = None
        try:
            if self._preferred_executors is not None:
                self._preferred_executors.unpersist()
        except Exception as error:  # noqa: BLE001 (the session may be gone)
            _LOG.debug("the preferred executors of the shards could not be forgotten: %s", error)
        self._preferred_executors = None
        self._prepared = {}
        self.target.door.forget_child()
        self.target = replace(self.target, session=None)

    def _name_jobs(self, title: str) -> None:
        self.target.door.name_jobs(self._group, title)
