"""Shows how something stands while it runs: live in a terminal, by plain lines elsewhere.

Looks from a thread of its own and never touches what it looks at. In a terminal all other output is
printed above the live part: `sys.stdout`, `sys.stderr` and the handlers of the log that write there
go through here while it is shown. Nothing is shown of what takes less than two seconds.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.terminal.view import View, line, shortened

#: Nothing is shown of what is shorter than this.
QUIET_SECONDS = 2.0
#: How far looks are apart, in a terminal and elsewhere.
LIVE_SECONDS, LINE_SECONDS = 0.25, 5.0
#: Lines of a terminal that are left to other output.
FREE_LINES = 10
#: A table whose names would get less room than this is not shown.
NAME_WIDTH = 12

Look = Callable[[float], View]  # takes the seconds since the beginning


@contextmanager
def showing(look: Look, style: str = "auto", *, quiet: float | None = None) -> Iterator[None]:
    """Show something while the block runs.

    Args:
        look: says how it stands.
        style: rich or live, plain, off, or auto: live in a terminal, plain elsewhere.
        quiet: seconds before anything is shown.
    """
    if style == "auto":
        style = "rich" if is_terminal() else "plain"
    if style == "off":
        yield
        return
    stop, wait = threading.Event(), QUIET_SECONDS if quiet is None else quiet
    show = _plain if style == "plain" else _live
    thread = threading.Thread(
        target=show, args=(look, stop, wait), name="headrace-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def is_terminal() -> bool:
    """Whether a person looks at what is written to stderr."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _plain(look: Look, stop: threading.Event, wait: float) -> None:
    start = time.monotonic()
    while not stop.wait(wait):
        print(line(look(time.monotonic() - start)), file=sys.stderr, flush=True)
        wait = LINE_SECONDS


#: Held by the one live display of the process: two would write over each other.
_alive = threading.Lock()


def _live(look: Look, stop: threading.Event, wait: float) -> None:
    start = time.monotonic()
    if stop.wait(wait):
        return
    if not _alive.acquire(blocking=False):
        _plain(look, stop, 0.0)
        return
    try:
        from rich.console import Console
        from rich.live import Live

        # Its own file: `sys.stderr` will be what prints above.
        console = Console(file=sys.stderr, highlight=False, soft_wrap=False)

        def render() -> Any:
            return rendered(look(time.monotonic() - start), console.width, console.height)

        with (
            Live(
                render(), console=console, auto_refresh=False, transient=True,
                redirect_stdout=False, redirect_stderr=False,
            ) as live,
            _above(console),
        ):
            while not stop.wait(LIVE_SECONDS):
                live.update(render(), refresh=True)
    finally:
        _alive.release()


def rendered(view: View, width: int, height: int) -> Any:
    """Give what a terminal of this size shows: a line, and the table above it if there is room."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    # A terminal wraps a line that fills it to the last column.
    below = Text(line(view, width - 1), style="bold", no_wrap=True, overflow="ellipsis")
    room = height - FREE_LINES
    names = width - 1 - _figures_width(view)
    if not view.rows or room < 3 or names < NAME_WIDTH:
        return below
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(view.head):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for name, *figures in view.rows[:room]:
        table.add_row(Text(shortened(name, names)), *(Text(figure) for figure in figures))
    left_out = len(view.rows) - room
    more = [Text(f"and {left_out} more", style="dim")] if left_out > 0 else []
    return Group(table, *more, below)


def _figures_width(view: View) -> int:
    """Give the width of all columns but the first, and of the gaps between them."""
    columns = list(zip(view.head, *view.rows, strict=True))
    return 2 + sum(max(map(len, cells)) + 2 for cells in columns[1:])


class _Above:
    """Stands for a stream of the process while a display is live: whole lines go above it."""

    def __init__(self, console: Any, stream: Any) -> None:
        self._console = console
        self._stream = stream
        self._rest = ""
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        from rich.text import Text

        with self._lock:
            whole, newline, self._rest = (self._rest + text).rpartition("\n")
            if newline:
                # Soft: the terminal wraps long lines, so that they can be copied as they were.
                self._console.print(Text.from_ansi(whole), soft_wrap=True)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for each in lines:
            self.write(each)

    def end(self) -> None:
        if self._rest:
            self._stream.write(self._rest)
            self._rest = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _above(console: Any) -> Iterator[None]:
    """Let what is written to the terminal in this block come above the live part."""
    names = [name for name in ("stdout", "stderr") if _is_tty(getattr(sys, name))]
    before = {name: getattr(sys, name) for name in names}
    ours = {name: _Above(console, stream) for name, stream in before.items()}
    moved: list[tuple[Any, Any]] = []
    for handler in _handlers():
        for name, stream in before.items():
            if handler.stream is stream:
                handler.setStream(ours[name])
                moved.append((handler, stream))
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, before[name])
            stream.end()
        for handler, stream in moved:
            if handler.stream in ours.values():
                handler.setStream(stream)


def _is_tty(stream: Any) -> bool:
    return stream is not None and not isinstance(stream, _Above) and bool(stream.isatty())


def _handlers() -> list[Any]:
    """Give all handlers of the log that write to a stream."""
    loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    found = [h for logger in loggers for h in getattr(logger, "handlers", ())]
    return [h for h in found if isinstance(h, logging.StreamHandler) and hasattr(h, "stream")]
