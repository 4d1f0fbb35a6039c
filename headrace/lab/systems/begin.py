"""Notes when the load of a run begins, and what the system had used by then.

A system that is being started plans, imports and compiles; what that costs says nothing of a load.
Data engines hold until a system has taken what comes before the load, so its begin is theirs to
tell. Of a run whose load never began, all counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from headrace.errors import TransportError
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.systems.usage import Usage

_LOOK_SECONDS = 0.02


class Begin:
    """Looks at a data engine while the context is open, until the load has begun.

    Args:
        address: of the engine.
        warm_seconds: of the schedule, before the load.
        warm_events: that are due by then.
        used: says what the system has used so far.
    """

    def __init__(
        self, address: str, warm_seconds: float, warm_events: int,
        used: Callable[[], Usage | None],
    ) -> None:
        self._address = address
        self._warm_seconds, self._warm_events = warm_seconds, warm_events
        self._used = used
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-begin", daemon=True)
        self.at: float | None = None  # seconds since 1970; None: it has not begun
        self.usage: Usage | None = None  # by then; None: by the start of the run

    def __enter__(self) -> Begin:
        self.usage = self._used()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(TransportError), EngineClient(self._address) as client:
            while not self._stop.wait(_LOOK_SECONDS):
                status = client.status()
                if status.started is not None and status.made > self._warm_events:
                    self.usage = self._used()
                    self.at = status.started + self._warm_seconds
                    return
