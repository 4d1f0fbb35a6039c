"""A physical plan of Spark's that is made once and run as often as one likes.

Spark analyses, optimises and plans every DataFrame anew, and wraps every `collect` in an execution
of its SQL page; for a job of four tiny tasks that is more than the job. What is kept here is what
all of it ends in. Each run takes a copy: a node remembers its shuffle files, and a plan that is run
twice would find those of its first run and skip the tasks that wrote them.

Takes a DataFrame of the classic kind, gives a function. Knows nothing of epochs. Reaches into the
JVM for what Spark's Python does not offer; where a Spark has it not, it says so by giving None.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headrace.engine.spark.doors import Job

_LOG = logging.getLogger(__name__)

#: While a plan is made. Code that is generated is generated and looked up again at each run, and
#: pays from some thousand rows on; the nodes of ours are shuffles and Python alone.
PLANNING = {"spark.sql.codegen.wholeStage": "false"}

#: So many rows take no longer one by one, at about a tenth of a millisecond for each value.
FEW_ROWS = 64


def reused_plan(session: Any, build: Callable[[], Any]) -> Job | None:
    """Plan a DataFrame, and give what runs its plan; None if this Spark does not let us.

    Args:
        session: of the DataFrame.
        build: makes it.
    """
    try:
        with _settings(session, PLANNING):
            plan = build()._jdf.queryExecution().executedPlan()  # noqa: SLF001 (no other door)
        copied, brought = _copier(session, plan), _bringer(session)
        copied()
    except Exception as error:  # noqa: BLE001 (a Spark of another make; the DataFrame itself will do)
        _LOG.debug("every epoch is planned anew: %s", error)
        return None
    context = session.sparkContext

    def run(properties: Mapping[str, str]) -> list[tuple[Any, ...]]:
        for name, value in properties.items():
            context.setLocalProperty(name, value)
        try:
            return brought(copied().executeCollectPublic())
        finally:
            for name in properties:  # this thread starts other jobs too
                context.setLocalProperty(name, None)

    return run


def _copier(session: Any, plan: Any) -> Callable[[], Any]:
    """Give what copies a plan: its nodes take the session that is active in their thread."""
    java = session._jsparkSession  # noqa: SLF001
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession  # noqa: SLF001

    def copied() -> Any:
        before = sessions.getActiveSession()
        sessions.setActiveSession(java)
        try:
            return plan.clone()
        finally:  # what the user's own code finds active in this thread is not for us to change
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    return copied


def _bringer(session: Any) -> Callable[[Any], list[tuple[Any, ...]]]:
    """Give what brings an array of rows here.

    An answer of the JVM's over 8 KB was seen to take 41 ms, whatever was in it: as if it went out
    in two parts, and the second waited for the receipt of the first. So few rows come value by
    value, and many of them together.
    """
    jvm = session._jvm  # noqa: SLF001
    jvm.org.apache.spark.sql.execution.python.EvaluatePython.registerPicklers()
    pickler = jvm.net.razorvine.pickle.Pickler  # looked up once: each part of the name is a call

    def brought(rows: Any) -> list[tuple[Any, ...]]:
        count = len(rows)
        if count > FEW_ROWS:
            return [tuple(row) for row in pickle.loads(bytes(pickler().dumps(rows)))]
        width = rows[0].size() if count else 0
        return [tuple(row.get(at) for at in range(width)) for row in rows]

    return brought


@contextmanager
def _settings(session: Any, wanted: Mapping[str, str]) -> Iterator[None]:
    """Let a session have other settings while a block runs."""
    before = {name: session.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)
