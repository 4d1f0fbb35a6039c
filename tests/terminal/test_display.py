"""The display: plain lines elsewhere, in a terminal what fits, and never longer than the run."""

from __future__ import annotations

import io
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.terminal import display
from headrace.terminal.display import rendered, showing
from headrace.terminal.steps import HEAD, Rates, StepView, table
from headrace.terminal.view import View, line
from tests.terminal.recorder import record

VIEW = View(
    title="headrace: sales", parts=("epoch 3", "250 ms", "state 12 rows, 4 KB", "20 s"), head=HEAD,
    rows=table(
        [StepView(name="Parse", elements=12_345, rate=250.0), StepView(name="Sum" * 20)], 0.0
    ),
)


def shown(width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(rendered(VIEW, width, height))
    return [row.rstrip() for row in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [20, 40, 80, 140, 200])
@pytest.mark.parametrize("height", [5, 24, 50])
def test_nothing_is_wider_than_the_terminal_or_taller_than_half_of_it(
    width: int, height: int
) -> None:
    rows = shown(width, height)
    assert max(map(len, rows)) < width
    assert len(rows) == (4 if width >= 80 and height >= 24 else 1)
    assert rows[-1].startswith("headrace: sales")


def test_a_line_loses_its_least_important_parts_first() -> None:
    assert line(VIEW) == "headrace: sales: epoch 3; 250 ms; state 12 rows, 4 KB; 20 s"
    assert line(VIEW, 40) == "headrace: sales: epoch 3; 250 ms"
    assert line(VIEW, 12) == "headrace: s…"


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    (row,) = [row for row in shown(80, 24) if row.startswith("SumSum")]
    assert "…" in row


def look(seconds: float) -> View:
    del seconds
    return VIEW


def watchers() -> list[Any]:
    return [t for t in threading.enumerate() if t.name == "headrace-progress"]


@pytest.mark.parametrize("style", ["off", "plain", "rich", "auto"])
def test_what_is_short_shows_nothing_and_leaves_no_thread(
    style: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert display.QUIET_SECONDS >= 1.0
    monkeypatch.setattr(display, "QUIET_SECONDS", 60.0)  # a busy machine may stop for two
    start = time.monotonic()
    with showing(look, style):
        assert len(watchers()) == (0 if style == "off" else 1)
    assert watchers() == []
    assert time.monotonic() - start < display.QUIET_SECONDS
    assert capsys.readouterr().err == ""


def test_what_is_longer_is_told_in_lines_where_no_terminal_is(
    capsys: pytest.CaptureFixture[str]
) -> None:
    shown, limit = "", time.monotonic() + 60
    with showing(look, "auto", quiet=0.0):
        while not shown.endswith("\n") and time.monotonic() < limit:
            time.sleep(0.01)
            shown += capsys.readouterr().err
        time.sleep(0.2)  # and once only
    assert shown + capsys.readouterr().err == f"{line(VIEW)}\n"


def test_a_failing_run_ends_its_watcher() -> None:
    message = "boom"
    with pytest.raises(ValueError, match="boom"), showing(look, "plain"):
        raise ValueError(message)
    assert watchers() == []


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    assert rates.at(1.0, {"a": 100}) == {}
    assert rates.at(2.0, {"a": 150, "b": 4}) == {"a": 50.0, "b": 4.0}
    for second in range(3, 30):
        last = rates.at(float(second), {"a": 150 + 7 * (second - 2), "b": 4})
    assert last == {"a": pytest.approx(7.0), "b": 0.0}


LOUD = """
import logging, sys, threading, time
from headrace.terminal.display import showing
from headrace.terminal.view import View
logging.basicConfig()  # holds the stream that was there before the display
looked = threading.Event()
def look(seconds):
    looked.set()
    return View(title="headrace: loud", parts=("working", "x" * 300))
with showing(look, "auto", quiet=0.0):
    looked.wait(60)
    time.sleep(0.5)  # the display begins in a thread: a print that is half done then may be cut
    for number in range(30):
        logging.warning("logged %d", number)
        print("printed", number)
        print("\\x1b[31mred\\x1b[0m", file=sys.stderr)
        time.sleep(0.03)
print("end")
"""


@pytest.mark.parametrize("columns", [30, 80])
def test_output_of_others_comes_above_the_live_line_and_stays_whole(
    tmp_path: Path, columns: int
) -> None:
    found = record(
        [sys.executable, "-c", LOUD], columns=columns, rows=10, folder=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    expected = [
        text
        for number in range(30)
        for text in (f"WARNING:root:logged {number}", f"printed {number}", "red")
    ]
    assert list(found.lines) == [*expected, "end"]
    assert found.wrapped() == []
    assert any(row.startswith("headrace: loud: working") for row in found.live())
