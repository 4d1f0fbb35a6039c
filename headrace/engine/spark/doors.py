"""One door to a session, behind which classic Spark and Spark Connect stand.

What all sessions can (DataFrames, `mapInArrow`, `repartitionById`) is asked of the session itself.
What each does in its own way is asked of its door: how many tasks run side by side, what the
workers have, how code gets there, how jobs are named, counted and cancelled. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.engine.spark.probe import Answer

#: Runs a job whose tasks see the given properties; gives its rows as tuples.
Job = Callable[[Mapping[str, str]], list[tuple[Any, ...]]]


class Door(Protocol):
    """What of a session the engine uses and Spark offers in two ways."""

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine and in this folder, as children of this process."""

    @property
    def shares_disk(self) -> bool:
        """Whether workers see the driver's disk, and a path without a scheme means that disk."""

    @property
    def sees_storage(self) -> bool:
        """Whether this process can look at the file systems that Spark writes to."""

    @property
    def parallelism(self) -> int:
        """How many tasks run side by side."""

    @property
    def is_one_machine(self) -> bool:
        """Whether all tasks run on one machine, this one or another."""

    @property
    def has_queries(self) -> bool:
        """Whether Structured Streaming can hand its batches to this process (`foreachBatch`)."""

    @property
    def lets_tasks_stay(self) -> bool:
        """Whether a task may stay for many small epochs: it is near, and not all that can run."""

    def check(self) -> list[str]:
        """Give advice on a session that works but could work better.

        Raises:
            SessionError: it, or its workers, cannot run a pipeline.
        """

    def child(self) -> Any:
        """Give a session with SQL settings of its own and all that the user's has."""

    def in_child(self, frame: Any, child: Any) -> Any:
        """Give a DataFrame of the user's session as one of the child's."""

    def leaving(self, child: Any) -> Any:
        """Give the session of the DataFrames that leave a pipeline.

        Rows that the pipeline has kept must be found there, or its functions would run again.
        """

    def prepared(self, child: Any, build: Callable[[], Any]) -> Job | None:
        """Plan a DataFrame once, for many jobs; None: Spark plans it anew for each.

        Args:
            child: the session of the DataFrame.
            build: makes it; the less it is to compute, the more the planning is of it.
        """

    def kept(self, child: Any, shape: Hashable, build: Callable[[], Any]) -> Job | None:
        """Plan a DataFrame once for all runs of this session, under the name of its shape.

        None, as for `prepared`: Spark plans it anew for each.
        """

    def distributions(self) -> Mapping[str, str]:
        """Give name and version of what every worker has installed."""

    def workers(self) -> Sequence[Answer]:
        """Ask every worker what it has, whether it fits or not.

        Raises:
            SessionError: none answers.
        """

    def send(self, archive: Path) -> None:
        """Bring a zip of Python to every worker and put it on its path."""

    def name_jobs(self, group: str, title: str) -> None:
        """Let the jobs that this thread starts be known by these names."""

    def cancel(self, group: str) -> None:
        """Cancel the jobs of a group that are running now."""

    def tasks_done(self, group: str) -> int:
        """Count the tasks of a group's jobs that have ended."""

    def show_log(self) -> None:
        """Let Spark's own log be seen."""

    def forget_child(self) -> None:
        """Hold the child no longer: it ends with the last DataFrame that belongs to it."""


def is_connect(thing: Any) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect; loads nothing of it."""
    return type(thing).__module__.startswith("pyspark.sql.connect")
