"""Turns the signals that ask a process to end into exceptions, while a run is waited for.

By default they end it at once, and what was to be removed at the end stays. Where a program has
handlers of its own, or ignores a signal, nothing is changed. The user is told of the end in one
line, without a traceback: he knows what he did.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)


class EndRequestedError(BaseException):
    """A signal asks this process to end. Like KeyboardInterrupt, it is no failure to be handled."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)

    def obey(self) -> None:
        """End this process by the signal, as it would have done at once."""
        signal.signal(self.signal, signal.SIG_DFL)
        os.kill(os.getpid(), self.signal)


class _Depth:
    """How many blocks of `end_on_request` the main thread is in, and what was raised in them."""

    now = 0
    request: BaseException | None = None
    raised_in = 0  # the innermost block when it was raised; 0: it has left that block


@contextmanager
def end_on_request() -> Iterator[None]:
    """Raise EndRequestedError from the block when a signal comes; a second one ends the process.

    Ctrl-C raises KeyboardInterrupt in it and nothing else: Spark's own handler would cancel the
    jobs that are running.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is told of signals
        return
    before = {
        number: handler for number in (*ENDING, signal.SIGINT)
        if _is_default(handler := signal.getsignal(number))
    }  # fmt: skip

    def put_back() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is raise_it:
                signal.signal(number, handler)

    def raise_it(number: int, frame: FrameType | None) -> None:
        del frame
        put_back()
        interrupted = number == signal.SIGINT
        _Depth.request = KeyboardInterrupt() if interrupted else EndRequestedError(number)
        _Depth.raised_in = _Depth.now
        raise _Depth.request

    if not _Depth.now:
        _Depth.request, _Depth.raised_in = None, 0
    try:
        _Depth.now += 1
        for number in before:
            signal.signal(number, raise_it)
        yield
        if _Depth.request is not None and _Depth.raised_in == _Depth.now:
            raise _Depth.request  # code that catches everything went on: it is not lost by that
    except Exception:
        if _Depth.request is not None:  # or has made something else of it
            raise _Depth.request from None
        raise
    finally:
        if _Depth.raised_in == _Depth.now:
            _Depth.raised_in = 0
        _Depth.now -= 1
        put_back()


def _is_default(handler: Any) -> bool:
    """Whether nobody but Python or Spark has set a handler."""
    spark = str(getattr(handler, "__module__", "")).startswith("pyspark.")
    return spark or handler in (signal.SIG_DFL, signal.default_int_handler)


def name_of(request: BaseException) -> str:
    """Say what asked for the end."""
    return "interrupted" if isinstance(request, KeyboardInterrupt) else str(request)


def said_of(request: BaseException) -> str:
    """Give what a run has told of the end that was asked for; empty if none was running."""
    return str(getattr(request, "headrace_said", ""))


def say_end(request: BaseException, said: str, tidy: Callable[[], None]) -> None:
    """Say in one line how a run has ended; let the program end without a traceback.

    Inside another block of `end_on_request`, that one says it.

    Args:
        request: what asked for the end.
        said: what was saved, and how to go on.
        tidy: called before a signal ends the process.
    """
    request.headrace_said = said  # type: ignore[attr-defined]
    if _Depth.now:
        return
    print(f"headrace: {name_of(request)}: {said}", file=sys.stderr, flush=True)
    if hasattr(builtins, "get_ipython"):  # a notebook: nobody calls the hook, the kernel goes on
        if isinstance(request, EndRequestedError):
            tidy()
            request.obey()
        return
    hook = sys.excepthook

    def leave(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if error is not request:
            hook(kind, error, trace)
        elif isinstance(request, EndRequestedError):
            tidy()
            request.obey()

    sys.excepthook = leave
