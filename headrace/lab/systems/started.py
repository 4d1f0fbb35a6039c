"""Keeps a system started from one trial to the next, and knows which others have processes.

Takes a system's name and a number of cores, gives the system; and one that can be harmed, with what
does the harm. Knows nothing of loads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from headrace.lab.meter import running
from headrace.lab.record.trial import Fault
from headrace.lab.spec import ON_SPARK
from headrace.lab.systems.choose import choose
from headrace.lab.systems.driver_system import DriverSystem
from headrace.lab.systems.harm import DISK, WORKER, Act, KillDriver, KillWorker, SlowDisk
from headrace.lab.systems.system import System

_TASK_TRIES = 4


class Started:
    """Keeps a system between trials; another number of cores starts it anew."""

    _all: ClassVar[WeakSet[Started]] = WeakSet()

    def __init__(self, name: str, given: System | None) -> None:
        self._all.add(self)
        self._name, self._given = name, given
        self._system = given
        self._cores: int | None = None

    def on(self, cores: int) -> System:
        """Give the system on so many cores."""
        if self._given is not None:
            return self._given
        if self._system is None or self._cores != cores:
            self.stop()
            self._system = choose(self._name, master=_master(cores))
            self._cores = cores
        return self._system

    @contextmanager
    def hurt_by(
        self, fault: Fault | None, cores: int, folder: Path
    ) -> Iterator[tuple[System, Act | None]]:
        """Give the system on so many cores, and what does a fault to it.

        One that is to lose its driver, or whose disk is to be slow, is another one, with a driver
        in a process of its own, which ends with the context.
        """
        if fault is None:
            yield self.on(cores), None
        elif fault.kind == WORKER:
            system = self.on(cores)
            yield system, KillWorker(lambda: getattr(system, "pid", os.getpid()))
        else:
            marker = folder / "slow" if fault.kind == DISK else None
            driven = self._given
            if not isinstance(driven, DriverSystem):
                driven = DriverSystem(self._name, _master(cores), marker=marker)
            act = KillDriver(driven.kill_driver) if marker is None else SlowDisk(marker)
            try:
                yield driven, act
            finally:
                driven.stop()

    def others(self, root: int) -> list[int]:
        """Give the processes of other systems, below the one in which this system runs.

        A JVM below this process is Spark's, whoever of the systems on it has started it.
        """
        here = os.getpid()
        found = {getattr(host._system, "pid", root) for host in self._all}  # noqa: SLF001 (its own class)
        if root == here and self._name not in ON_SPARK:
            jvms = (here, "java")
            found |= {each.pid for each in running() if (each.parent, each.command) == jvms}
        return sorted(found - {root, here})

    def stop(self) -> None:
        """End what was started."""
        if self._system is not None:
            self._system.stop()
            self._system = self._given


def _master(cores: int) -> str:
    """Say where Spark runs: a task that has failed is tried again, as on a cluster."""
    return f"local[{cores},{_TASK_TRIES}]"
