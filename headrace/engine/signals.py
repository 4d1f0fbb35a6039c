"""Turns the signals that ask a process to end into an exception, while a run is waited for.

By default they end it at once, and what was to be removed at the end stays. Where a program has
handlers of its own, or ignores a signal, nothing is changed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


class ToldToEndError(BaseException):
    """A signal asks this process to end. Like KeyboardInterrupt, it is no failure to be handled."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)

    def obey(self) -> None:
        """End this process by the signal, as it would have done at once."""
        signal.signal(self.signal, signal.SIG_DFL)
        os.kill(os.getpid(), self.signal)


@contextmanager
def told_to_end() -> Iterator[None]:
    """Raise ToldToEndError from the block when a signal comes; a second one ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is told of signals
        return
    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]

    def put_back() -> None:
        for number in taken:
            if signal.getsignal(number) is raise_it:
                signal.signal(number, signal.SIG_DFL)

    def raise_it(number: int, frame: FrameType | None) -> None:
        del frame
        put_back()
        raise ToldToEndError(number)

    try:
        for number in taken:
            signal.signal(number, raise_it)
        yield
    finally:
        put_back()
