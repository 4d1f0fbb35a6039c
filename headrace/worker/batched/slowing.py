"""Makes steps of a pipeline slower, for who asks what a faster one would give.

Takes Beam's experiments `headrace_slow_step=NAME*TIMES`; gives the steps of a stage, wrapped. What
a step took by itself, without those that it hands on to, it takes again: what it computed by
computing, what it waited by waiting. The time in which it had no core counts as neither: others
had it. Where nobody asks, nothing is wrapped, and nothing is paid.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import Node, keeps_columns
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.beam_types import Value
from headrace.worker.columns.values import ColumnValues

#: How an experiment of Beam's begins that slows a step.
EXPERIMENT = "headrace_slow_step="
#: Seconds that are owed before they are paid: a pause is never as short as it was asked for.
_LEAST_WAIT = 0.002
_LEAST_WORK = 0.000_05


class Slowing:
    """The steps that are slow in the run that this process serves."""

    steps: tuple[tuple[str, float], ...] = ()  # (name, so many times its time)

    @classmethod
    def tell(cls, experiments: Iterable[str]) -> None:
        """Take what a run was told."""
        given = [each.removeprefix(EXPERIMENT) for each in experiments if _is_ours(each)]
        parts = [each.rpartition("*") for each in given]
        cls.steps = tuple((name, float(times)) for name, _, times in parts)

    @classmethod
    def times_of(cls, full_name: str) -> float:
        """Say how many times its time a step takes; 1 of one that nobody has named."""
        path = f"/{full_name}/"
        return next((times for name, times in cls.steps if f"/{name}/" in path), 1.0)


def _is_ours(experiment: str) -> bool:
    return experiment.startswith(EXPERIMENT)


def slowed(node: Node, full_name: str) -> Node:
    """Give a step as slow as was asked for; itself where no step is slow.

    A step that keeps its speed is wrapped too: who hands on to it must not be told its time.
    """
    return SlowStep(node, Slowing.times_of(full_name)) if Slowing.steps else node


class _Spent(NamedTuple):
    """Seconds of a thread."""

    passed: float
    computed: float
    coreless: float  # ready to compute, while others did

    def since(self, other: _Spent) -> _Spent:
        return _Spent(*(mine - its for mine, its in zip(self, other, strict=True)))

    def and_also(self, other: _Spent) -> _Spent:
        return _Spent(*(mine + its for mine, its in zip(self, other, strict=True)))


_NOTHING = _Spent(0.0, 0.0, 0.0)


class _Thread(threading.local):
    """What a thread that runs steps has spent and owes."""

    def __init__(self) -> None:
        self.inside = _NOTHING  # by steps that the present one has handed on to
        self.work = self.wait = 0.0  # owed, seconds
        self._file: int | None = None
        with suppress(OSError):  # the kernel may not keep it
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)

    def now(self) -> _Spent:
        coreless = 0.0
        if self._file is not None:
            coreless = int(os.pread(self._file, 100, 0).split()[1]) / 1e9
        return _Spent(time.perf_counter(), time.thread_time(), coreless)

    def pay(self) -> None:
        if self.work >= _LEAST_WORK:
            start = time.thread_time()
            while (spent := time.thread_time() - start) < self.work:
                pass
            self.work -= spent
        if self.wait >= _LEAST_WAIT:
            start = time.perf_counter()
            time.sleep(self.wait)
            self.wait -= time.perf_counter() - start


_thread = _Thread()


class SlowStep:
    """A step that takes so many times its time.

    Args:
        node: the step.
        times: 1 for one that keeps its speed.
    """

    def __init__(self, node: Any, times: float) -> None:
        self._node, self._more = node, times - 1

    @property
    def takes_columns(self) -> bool:
        """As the step says."""
        return keeps_columns(self._node)

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        self._run(self._node, values, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        self._run(self._node.columns, values, meta)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """As the step says."""
        takes = getattr(self._node, "takes_groups", None)
        return takes is not None and bool(takes(parts))

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Take the groups of a window."""
        self._run(self._node.groups, groups, meta)

    def finish(self) -> None:
        """Send on what is held, of a step that holds something."""
        self._run(self._node.finish)

    def _run(self, call: Callable[..., None], *given: object) -> None:
        before, _thread.inside = _thread.inside, _NOTHING
        start = _thread.now()
        call(*given)
        if self._more > 0:
            own = _thread.now().since(start).since(_thread.inside)
            _thread.work += self._more * max(0.0, own.computed)
            _thread.wait += self._more * max(0.0, own.passed - own.computed - own.coreless)
            _thread.pay()
        _thread.inside = before.and_also(_thread.now().since(start))
