"""The door to a session of Spark Connect: a server elsewhere, and no SparkContext.

Workers are asked, and code is sent, by way of the session. A child session is a clone of the user's
on the server: the same settings, temporary views and functions, and settings of its own from there
on. A DataFrame is a plan, so the child can be asked for one of the user's; what leaves a pipeline
stays the child's, where its rows are kept. The clone stays on the server until that ends sessions
which nobody uses: with releases of ours, tasks of later pipelines did not find their archives.
"""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.engine.spark.archives import own_package, ship
from headrace.engine.spark.probe import (
    REUSE,
    Answer,
    advice_on_reuse,
    common,
    expected_here,
    explain,
    question,
    refuse,
)
from headrace.errors import SessionError
from headrace.io.connect_storage import is_one_machine, shares_disk

_lock = threading.Lock()
_checked: dict[str, Mapping[str, str]] = {}  # by session id


class ConnectDoor:
    """A session of Spark Connect.

    Args:
        session: the user's.
    """

    is_local = False
    sees_storage = False
    has_queries = False

    def __init__(self, session: Any) -> None:
        self._session = session
        self._child: Any = None
        self._done = _Done()
        self._parallelism = 0
        self._is_one_machine: bool | None = None

    @property
    def is_one_machine(self) -> bool:
        """Whether the server's own process runs the tasks; asked once, as every epoch asks here."""
        if self._is_one_machine is None:
            self._is_one_machine = is_one_machine(self._session)
        return self._is_one_machine

    @property
    def shares_disk(self) -> bool:
        """Whether paths mean the same here, on the server and on its workers."""
        return shares_disk(self._session)

    @property
    def parallelism(self) -> int:
        """How many partitions Spark gives a range that does not say; asked once."""
        if not self._parallelism:
            ranged = self._session.range(1 << 20).selectExpr("spark_partition_id() AS part")
            self._parallelism = max(1, int(ranged.distinct().count()))
        return self._parallelism

    @property
    def lets_tasks_stay(self) -> bool:
        """Whether a socket of ours is one for the tasks, and another core is left for others."""
        return self.is_one_machine and self.shares_disk and self.parallelism > 1

    def check(self) -> list[str]:
        """Ask the workers whether they fit; send them headrace if they have none."""
        self.distributions()
        return advice_on_reuse(str(self._session.conf.get(REUSE, "true")))

    def child(self) -> Any:
        """Give a clone of the session on the server."""
        self._child = self._session.cloneSession()
        self._child.registerProgressHandler(self._done.count)
        # Spark's client would hold the clone to the end of this process, and then ask the server to
        # forget its models: one that has ended is asked again and again, for minutes.
        atexit.unregister(self._child.client._on_exit)  # noqa: SLF001 (no other door)
        return self._child

    def in_child(self, frame: Any, child: Any) -> Any:
        """Ask the child for the plan of a frame."""
        return type(frame)(frame._plan, child)  # noqa: SLF001 (a frame is a plan and a session)

    def leaving(self, child: Any) -> Any:
        """Give the child: a plan with functions is found again in its own session only."""
        return child

    def prepared(self, child: Any, build: Callable[[], Any]) -> None:
        """Give nothing: what is asked of the server is a plan each time."""
        del child, build

    def kept(self, child: Any, shape: Hashable, build: Callable[[], Any]) -> None:
        """Give nothing, for the same reason."""
        del child, shape, build

    def distributions(self) -> Mapping[str, str]:
        """Give what every worker has installed; the answer is kept for the life of the session."""
        key = self._session.session_id
        with _lock:
            if key not in _checked:
                _checked[key] = self._ask_until_they_fit()
            return _checked[key]

    def workers(self) -> Sequence[Answer]:
        """Ask the server's workers."""
        return self._ask()

    def _ask_until_they_fit(self) -> Mapping[str, str]:
        expected, answers = expected_here(), self._ask()
        if any(answer.headrace is None for answer in answers):
            refuse(answers, expected, may_send=True)
            self.send(own_package())
            answers = self._ask()
        refuse(answers, expected)
        return common(answers)

    def _ask(self) -> list[Answer]:
        asked = question()

        def answer(batches: Iterable[Any]) -> Iterator[Any]:
            # Named here so that the function travels by value: the workers may not have headrace.
            import json

            import pyarrow as pa

            for _ in batches:
                pass
            texts = [json.dumps(each) for each in asked(())]
            yield pa.RecordBatch.from_pydict({"answer": pa.array(texts, pa.string())})

        tasks = 2 * self.parallelism
        try:
            rows = self._session.range(0, tasks, 1, tasks).mapInArrow(answer, "answer string")
            found = [Answer(**json.loads(row.answer)) for row in rows.collect()]
        except Exception as error:
            raise SessionError(explain(str(error))) from error
        return list({(each.host, each.folder): each for each in found}.values())

    def send(self, archive: Path) -> None:
        """Add a file to the session, and to its child if there is one already."""
        for session in (self._session, self._child):
            if session is not None:
                ship(session.session_id, partial(session.addArtifacts, pyfile=True), archive)

    def name_jobs(self, group: str, title: str) -> None:
        """Tag what this thread asks for; Connect shows no titles."""
        del title
        for session in (self._session, self._child):
            if session is not None:
                session.clearTags()
                session.addTag(group)

    def cancel(self, group: str) -> None:
        """Interrupt what has the tag, in both sessions."""
        for session in (self._session, self._child):
            if session is not None:
                session.interruptTag(group)

    def tasks_done(self, group: str) -> int:
        """Count what the server has told of the child's operations; the run has it alone."""
        del group
        return self._done.total()

    def show_log(self) -> None:
        """Nothing is to be shown: the server has its log to itself."""

    def forget_child(self) -> None:
        """Hold the clone no longer."""
        self._child = None


class _Done:
    """Tasks that have ended, by operation, as the server tells them."""

    def __init__(self) -> None:
        self._tasks: dict[str, int] = {}

    def count(
        self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        """Hear of an operation; called by Spark's client."""
        del inflight_tasks, done
        if stages is not None:
            self._tasks[operation_id or ""] = sum(stage.num_completed_tasks for stage in stages)

    def total(self) -> int:
        """Give how many there are."""
        return sum(self._tasks.values())
