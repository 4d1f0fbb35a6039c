"""Publishes what an epoch has set aside while the next epoch runs.

One publication at a time, in the order of the epochs; a next one begins when the one before it has
ended. What it fails of is raised in the run. How long it took, and how long the run waited for it,
is told to whoever begins the next one. What publishing means, sinks know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

#: Publishes, and gives the seconds that each sink took.
Publish = Callable[[], Mapping[str, float]]


class Publishing:
    """The publication that goes on behind a run, if there is one.

    Args:
        wake: is called when one has failed: the run may be asleep.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.given_up = False  # what nobody takes is left for the next start
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._seconds: Mapping[str, float] = {}  # of the last one, by sink

    def begin(self, publish: Publish) -> Mapping[str, float]:
        """Begin the next one, once the last one has ended; give what that took, by sink.

        Raises:
            BaseException: what the last one has failed of.
        """
        self.wait()
        took, self._seconds = self._seconds, {}
        self._thread = threading.Thread(
            target=self._run, args=(publish,), name="headrace-publishes", daemon=True
        )
        self._thread.start()
        return took

    def wait(self) -> None:
        """Wait until what was begun has ended.

        Raises:
            BaseException: what it has failed of; once.
        """
        self._join()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what the last one has failed of, if it has; once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Have what is being published go on as far as it gets without waiting, and end."""
        self.given_up = True
        self._join()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, publish: Publish) -> None:
        try:
            self._seconds = publish()
        except BaseException as failure:  # noqa: BLE001 (raised again in the run)
            self._failure = failure
            self._wake()
