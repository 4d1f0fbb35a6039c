"""Places in the commit of an epoch at which a test can end the process, as a crash would.

`HEADRACE_CRASH` names them, separated by commas, each as `point:when` or `point:when:partition`.
`when` is the number of an epoch, `*` for the next one, whichever it is, or the name of an attempt
(`1.8`: incarnation 1, its 8th try), which an epoch that is run again does not meet a second time.
Without the variable, which is read once, a point costs a comparison. A test in the same process may
look on by `observed`, and end a driver by an exception. Knows nothing of the protocol but the names
of its gaps.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

VARIABLE = "HEADRACE_CRASH"


class Point(Enum):
    """The gaps of the commit; `headrace.engine.epoch_run` numbers the steps."""

    BEFORE_TASKS = "before_tasks"  # driver: after step 1, no task has begun
    BEFORE_SEAL = "before_seal"  # task: the elements are through, nothing is written
    AFTER_SEAL = "after_seal"  # task: its change log is written, the driver does not know
    WORKER_LOST = "worker_lost"  # driver: heard that a task died, has not begun again
    BEFORE_SINKS = "before_sinks"  # driver: after step 2, all reports are there
    BETWEEN_SINKS = "between_sinks"  # driver: one sink has the epoch's rows, the next has not
    AFTER_SINKS = "after_sinks"  # driver: after step 3
    AFTER_MANIFEST = "after_manifest"  # driver: after step 4, Spark does not know
    AFTER_RETURN = "after_return"  # driver: after step 5, the queries have ended


class Publication(Enum):
    """The gaps of a publication, which follows a commit; `headrace.io.kafka.publish` has its steps.

    Apart from those above, as only sinks that publish have them.
    """

    STAGED = "staged"  # driver: messages are with the broker, their transaction is open
    COMMITTED = "committed"  # driver: the transaction counts, the outbox still has its messages
    REMOVED = "removed"  # driver: the outbox has forgotten the epoch


@dataclass(frozen=True, slots=True)
class _Crash:
    """One crash that is asked for."""

    point: Point | Publication
    when: str
    partition: str  # empty: in any state partition

    def meets(self, point: Point | Publication, epoch: int, attempt: str, partition: str) -> bool:
        return (
            self.point is point
            and self.when in ("*", str(epoch), attempt)
            and self.partition in ("", partition)
        )


_POINTS: dict[str, Point | Publication] = {p.value: p for p in (*Point, *Publication)}


def asked_for(text: str) -> tuple[_Crash, ...]:
    """Read the variable's value; ValueError names what is wrong with it."""
    found = []
    for part in filter(None, text.split(",")):
        name, _, rest = part.partition(":")
        when, _, partition = rest.partition(":")
        if name not in _POINTS or not when:
            msg = f"{VARIABLE}: {part!r} is not point:when or point:when:partition of a known point"
            raise ValueError(msg)
        found.append(_Crash(_POINTS[name], when, partition))
    return tuple(found)


_CRASHES = asked_for(os.environ.get(VARIABLE, ""))

#: Called at each point of this process: the point, the epoch, the attempt, the state partition.
Observer = Callable[[Any, int, str, str], None]

_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Let a test look on at every point of this process; what it raises is raised there."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def crash_point(
    point: Point | Publication, epoch: int, attempt: str = "", partition: str = ""
) -> None:
    """End this process at once, without any cleaning up, if that was asked for here.

    One line to its standard error says where, for whoever counts crashes.
    """
    for observer in _observers:
        observer(point, epoch, attempt, partition)
    if _CRASHES and any(crash.meets(point, epoch, attempt, partition) for crash in _CRASHES):
        where = f"{epoch} {attempt or '-'} {partition or '-'}"
        os.write(2, f"{VARIABLE}: {point.value} {where}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
