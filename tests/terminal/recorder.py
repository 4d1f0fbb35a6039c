"""Runs a command in a pseudo-terminal and keeps what a person would have seen.

Takes a size and a command, gives the lines on the screen and above it at the end, the screens on
the way, and the bytes. It can type: once a text is on the screen, and some seconds later.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyte

CTRL_C = b"\x03"
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A session in a terminal."""

    lines: tuple[str, ...]  # from the first that has left the screen to the last one on it
    screens: tuple[tuple[str, ...], ...]  # different ones, in the order in which they were seen
    written: bytes
    status: int  # negative: the signal that ended it
    columns: int

    def wrapped(self) -> list[str]:
        """Give the lines that were longer than the terminal is wide."""
        text = _CONTROL.sub(b"", self.written).decode("utf-8", "replace")
        return [part for part in re.split(r"[\r\n]", text) if len(part) > self.columns]

    def live(self) -> list[str]:
        """Give every live line that was seen, once, in order."""
        found = [line for screen in self.screens for line in screen if line.startswith("headrace:")]
        return list(dict.fromkeys(found))


@dataclass(slots=True)
class Typing:
    """Once a text was seen on the screen, and some seconds later, type something."""

    after: str
    keys: bytes
    wait: float = 1.0
    seen: float = field(default=0.0)
    done: bool = False


def record(
    command: Sequence[str], *, columns: int, rows: int, folder: Path, typing: Typing | None = None,
    env: Mapping[str, str] | None = None, seconds: float = 240,
) -> Recording:
    """Run a command to its end, or for so many seconds."""
    settings = {**os.environ, **(env or {}), "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES"):
        settings.pop(name, None)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvpe(command[0], list(command), settings)
    screen = pyte.HistoryScreen(columns, rows, history=10_000)
    stream = pyte.ByteStream(screen)
    written = b""
    screens: list[Any] = []
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    data = os.read(terminal, 65_536)
                except OSError:
                    break  # the other side is closed
                if not data:
                    break
                written += data
                stream.feed(data)
                shown = tuple(line.rstrip() for line in screen.display if line.strip())
                if not screens or screens[-1] != shown:
                    screens.append(shown)
            if typing is not None and not typing.done:
                if not typing.seen and typing.after in "\n".join(screens[-1] if screens else ()):
                    typing.seen = time.monotonic()
                if typing.seen and time.monotonic() - typing.seen >= typing.wait:
                    os.write(terminal, typing.keys)
                    typing.done = True
        else:
            os.kill(child, 9)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    above = ["".join(row[x].data for x in range(columns)) for row in screen.history.top]
    lines = [line.rstrip() for line in (*above, *screen.display)]
    while lines and not lines[-1]:
        lines.pop()
    return Recording(
        lines=tuple(lines), screens=tuple(screens), written=written,
        status=os.waitstatus_to_exitcode(status), columns=columns,
    )
