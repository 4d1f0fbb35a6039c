"""The door to a classic session: the SparkContext in this process."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.engine.spark.archives import ship
from headrace.engine.spark.doors import Job
from headrace.engine.spark.gateway import show_spark_log
from headrace.engine.spark.packages_here import installed_here
from headrace.engine.spark.probe import (
    REUSE,
    Answer,
    advice_on_reuse,
    ask_workers,
    check_executors,
    is_local,
)
from headrace.engine.spark.reused_plan import reused_plan

#: Whether Spark writes down what happens, with the properties of all jobs.
EVENT_LOG = "spark.eventLog.enabled"
#: So many plans are kept for later runs; each holds a session of ours and its nodes in the JVM.
MOST_KEPT = 16
_kept: dict[Hashable, Job] = {}  # the oldest first

#: Between two settings; no name and no value has it.
_BETWEEN = "\x00"


def _settings(session: Any) -> dict[str, str]:
    """Give all settings of a session; PySpark asks the JVM twice for each."""
    conf = session._jsparkSession.conf()  # noqa: SLF001 (no other door)
    pairs = conf.getAll().mkString(_BETWEEN).split(_BETWEEN)
    return dict(pair.split(" -> ", 1) for pair in pairs if pair)


class ClassicDoor:
    """A session with a SparkContext.

    Args:
        session: the user's.
    """

    has_queries = True
    sees_storage = True

    def __init__(self, session: Any) -> None:
        self._session = session
        self._context = session.sparkContext
        self._settings: dict[str, str] = {}  # of the session, when its child was made

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and in this folder, as children of this process."""
        return is_local(self._context.master)

    @property
    def is_one_machine(self) -> bool:
        """Whether all tasks run on one machine."""
        return self.is_local

    @property
    def shares_disk(self) -> bool:
        """Whether workers see the driver's disk, and a path without a scheme means that disk."""
        settings = self._context._jsc.hadoopConfiguration()  # noqa: SLF001 (no other door)
        return self.is_local and str(settings.get("fs.defaultFS")).startswith("file:")

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""
        return int(self._context.defaultParallelism)

    @property
    def lets_tasks_stay(self) -> bool:
        """Whether a socket of ours is one for the tasks, and another core is left for others."""
        return self.shares_disk and self.parallelism > 1

    def check(self) -> list[str]:
        """Ask the executors whether they fit; advise on workers that die with their task."""
        if not self.is_local:
            check_executors(self._context)
        conf = self._context._conf  # noqa: SLF001 (getConf() copies it, two calls for a setting)
        return advice_on_reuse(conf.get(REUSE, "true"))

    def child(self) -> Any:
        """Give a session that shares the context, with the same settings."""
        made = self._session.newSession()
        there = _settings(made)
        # A DataFrame read by the pipeline is planned here and must mean what it means there.
        self._settings = _settings(self._session)
        for name, value in self._settings.items():
            if there.get(name) != value and made.conf.isModifiable(name):
                made.conf.set(name, value)
        return made

    def in_child(self, frame: Any, child: Any) -> Any:  # noqa: ARG002 (the leftmost frame decides)
        """Give the frame: a plan may mix frames of sessions that share a context."""
        return frame

    def leaving(self, child: Any) -> Any:  # noqa: ARG002 (both find what either has kept)
        """Give the user's."""
        return self._session

    def prepared(self, child: Any, build: Callable[[], Any]) -> Job | None:
        """Keep the physical plan."""
        return reused_plan(child, build)

    def kept(self, child: Any, shape: Hashable, build: Callable[[], Any]) -> Job | None:
        """Keep the physical plan for as long as the application, its files and settings last.

        Not where an event log is written: options and functions are nobody else's business.
        """
        context = self._context
        if context._conf.get(EVENT_LOG, "false").lower() == "true":  # noqa: SLF001 (no other door)
            return None
        around = (
            context.applicationId, tuple(context._python_includes),  # noqa: SLF001 (no other door)
            frozenset(context.environment.items()), frozenset(self._settings.items()),
        )
        found = _kept.pop((around, shape), None) or reused_plan(child, build)
        if found is not None:
            _kept[around, shape] = found  # as the newest
            while len(_kept) > MOST_KEPT:
                _kept.pop(next(iter(_kept)))
        return found

    def distributions(self) -> Mapping[str, str]:
        """Give what is installed; a local master's workers are this Python."""
        return installed_here() if self.is_local else check_executors(self._context)

    def workers(self) -> Sequence[Answer]:
        """Ask the executors."""
        return ask_workers(self._context)

    def send(self, archive: Path) -> None:
        """Add a file to the context."""
        ship(self._context.applicationId, self._context.addPyFile, archive)

    def name_jobs(self, group: str, title: str) -> None:
        """Set the job group of this thread."""
        self._context.setJobGroup(group, title, interruptOnCancel=False)

    def cancel(self, group: str) -> None:
        """Cancel the jobs of the group."""
        self._context.cancelJobGroup(group)

    def tasks_done(self, group: str) -> int:
        """Ask Spark's status tracker."""
        tracker = self._context.statusTracker()
        done = 0
        for job_id in tracker.getJobIdsForGroup(group):
            job: Any = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                stage = tracker.getStageInfo(stage_id)
                done += stage.numCompletedTasks if stage else 0
        return done

    def show_log(self) -> None:
        """Let the JVM of this process say what it logs."""
        show_spark_log(self._session)

    def forget_child(self) -> None:
        """It is not held."""
