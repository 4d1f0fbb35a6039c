"""Has Spark start its Python workers while the driver is still getting a run ready.

The first task of a session waits for them: a second of processor time, most of it for importing
Beam. A job that does nothing has them start earlier, on a core that has nothing else to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.engine.spark.launch import numbers, numbers_type
from headrace.engine.spark.session import SparkTarget

_LOG = logging.getLogger(__name__)

#: The group of the job: it is none of the run's, whose tasks are counted and cancelled.
GROUP = "headrace-wakes"

_woken: set[str] = set()  # applications whose workers were woken; they stay


def wake_workers(target: SparkTarget) -> threading.Thread | None:
    """Have the workers start, once for each session's context; None: that was done.

    Only for workers of this machine: on a cluster nobody knows which of them a run will get.
    """
    name = target.session.sparkContext.applicationId if target.door.is_local else ""
    if not name or name in _woken:
        return None
    _woken.add(name)
    thread = threading.Thread(target=_wake, args=(target,), name=GROUP, daemon=True)
    thread.start()
    return thread


def _wake(target: SparkTarget) -> None:
    def imported(batches: Iterable[Any]) -> Iterator[Any]:
        import headrace.worker.entry  # noqa: F401 (a daemon that is not ours has not imported it)

        return iter(batches)

    try:
        target.door.name_jobs(GROUP, "headrace: workers start")
        rows = numbers(target.session, target.door.parallelism)
        rows.mapInArrow(imported, numbers_type()).collect()
    except Exception as error:  # noqa: BLE001 (the run's own first task meets it too, and says so)
        _LOG.debug("the workers could not be woken: %s", error)
