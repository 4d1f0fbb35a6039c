"""The recorder sees what a terminal shows, and a line that is too long."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.terminal.recorder import CTRL_C, Typing, record


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_line_that_fills_more_than_the_terminal_is_found(tmp_path: Path) -> None:
    found = record(python("print('x' * 21); print('y' * 20)"), columns=20, rows=5, folder=tmp_path)
    assert found.wrapped() == ["x" * 21]
    assert found.lines == ("x" * 20, "x", "y" * 20)
    assert found.status == 0


def test_what_was_overwritten_is_not_in_the_lines_but_in_the_screens(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "sys.stdout.write('headrace: first\\r'); sys.stdout.flush(); time.sleep(2)\n"
        "print('\\x1b[2Ksecond')\n"
    )
    found = record(python(code), columns=40, rows=5, folder=tmp_path)
    assert found.lines == ("second",)
    assert found.live() == ["headrace: first"]


def test_keys_arrive_as_from_a_keyboard(tmp_path: Path) -> None:
    code = "import time\nprint('ready', flush=True)\ntime.sleep(30)"
    typing = Typing(after="ready", keys=CTRL_C, wait=0.0)
    found = record(python(code), columns=80, rows=20, folder=tmp_path, typing=typing)
    assert found.status == -2
    assert "KeyboardInterrupt" in found.lines[-1]
