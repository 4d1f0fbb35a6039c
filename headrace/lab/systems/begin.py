"""Notes when the load of a run begins, and what the system uses from then on.

A system that is being started plans, imports and compiles; what that costs says nothing of a load.
Data engines hold until a system has taken what comes before the load, so its begin is theirs to
tell. Of a run whose load never began, all counts.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType

from headrace.errors import TransportError
from headrace.lab.data_engine.client import EngineClient
from headrace.lab.systems.usage import Tally, Usage

_LOOK_SECONDS = 0.02
#: Between two looks at what is used, once the load has begun: each reads all processes.
_TALLY_SECONDS = 0.5


class Begin:
    """Looks at a data engine and at the system while the context is open.

    Args:
        address: of the engine.
        warm_seconds: of the schedule, before the load.
        warm_events: that are due by then.
        tally: of the system's processes.
    """

    def __init__(
        self, address: str, warm_seconds: float, warm_events: int, tally: Tally
    ) -> None:
        self._address = address
        self._warm_seconds, self._warm_events = warm_seconds, warm_events
        self._tally = tally
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-begin", daemon=True)
        self.at: float | None = None  # seconds since 1970; None: it has not begun
        self.before: Usage | None = None  # by then, or by the start of a run whose load never began
        self.after: Usage | None = None  # by the end

    def __enter__(self) -> Begin:
        self.before = self._tally.look()
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
        self.after = self._tally.look()

    def _run(self) -> None:
        with suppress(TransportError), EngineClient(self._address) as client:
            while not self._stop.wait(_LOOK_SECONDS):
                status = client.status()
                if status.started is not None and status.made > self._warm_events:
                    self.before = self._tally.look()
                    self.at = status.started + self._warm_seconds
                    break
        while not self._stop.wait(_TALLY_SECONDS):
            self._tally.look()
