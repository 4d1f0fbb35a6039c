"""The table of workloads: its bars, how patience bounds slow systems, and how it goes on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import headrace.lab.experiments.table.command as command
from headrace.lab.catalog import CATALOG
from headrace.lab.commands import chosen
from headrace.lab.ending import Ending
from headrace.lab.experiments.table import runs
from headrace.lab.experiments.table.runs import Cell, measure
from headrace.lab.experiments.table.table import Line, keep, kept, page
from headrace.lab.run import RunReport
from headrace.lab.systems.system import Outcome, Request
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode

STATELESS, STATEFUL = CATALOG.workload("nexmark", "q1"), CATALOG.workload("nexmark", "q5")


def cell(system: str, rate: float, verdict: Ending = Ending.RIGHT) -> Cell:
    return Cell(system=system, events=1_000, asked=1_000, seconds=1_000 / rate, verdict=verdict)


def missed(workload: Any, **rates: float) -> list[str]:
    return Line(workload=workload, cells=tuple(cell(s, r) for s, r in rates.items())).missed()


def test_each_bar_is_held_at_its_value_and_missed_just_below() -> None:
    assert missed(STATEFUL, headrace=50_001) == []
    assert missed(STATEFUL, headrace=49_999) == ["below 50.0 K/s"]
    assert missed(STATELESS, headrace=249_000) == ["stateless, below 250.0 K/s"]
    assert missed(STATELESS, headrace=251_000) == []
    assert missed(STATELESS, headrace=91_000, spark=300_000) == []
    assert missed(STATELESS, headrace=89_000, spark=300_000) == ["stateless, below 90.0 K/s"]
    assert missed(STATELESS, headrace=249_000, spark=9_000_000) == ["stateless, below 250.0 K/s"]
    assert missed(STATEFUL, headrace=60_000, direct=20_001) == ["3.0x of Beam's local runner"]
    assert missed(STATEFUL, headrace=60_000, direct=19_999) == []


def test_a_wrong_answer_voids_a_rate_and_misses_the_bars() -> None:
    wrong = cell("headrace", 10**6, Ending.WRONG)
    assert wrong.rate is None
    assert Line(workload=STATEFUL, cells=(wrong,)).missed() == ["no right answer"]
    text = page([Line(workload=STATEFUL, cells=(wrong,))], "head", ["headrace"])
    assert "| nexmark q5 | WRONG | - | - | no right answer |" in text


def test_a_missed_bar_stands_below_the_table_with_its_reason() -> None:
    slow = dataclasses.replace(cell("headrace", 1_000), rows=5_000)
    unknown = Line(workload=STATEFUL, cells=(slow,))
    known = Line(workload=CATALOG.workload("windowed", "join-by-arrival"), cells=(slow,))
    held = Line(workload=STATEFUL, cells=(cell("headrace", 100_000),))
    text = page([unknown, known, held], "head", ["headrace"])
    notes = [line for line in text.splitlines() if line.startswith("* ")]
    assert len(notes) == 2
    assert notes[0].endswith("headrace gave 5,000 rows, 5.0 K rows/s. No profile has told why.")
    assert "the square of the rate" in notes[1]


def test_a_cell_with_fewer_events_than_asked_for_says_so() -> None:
    slow = dataclasses.replace(cell("spark", 500), asked=9_999)
    line = Line(workload=STATEFUL, cells=(cell("headrace", 100_000), slow))
    text = page([line], "head", ["headrace", "spark"])
    assert "| right, 100.0 K/s | right, 500/s (1,000 events) | 200.00x | - |" in text


def test_an_answer_that_nobody_knows_beforehand_is_called_unbroken_and_keeps_its_rate() -> None:
    def report(rows: int, expected: list[Any]) -> RunReport:
        outcome = Outcome(
            system="spark", engine="", mode=Mode.STREAMING, events=9, seconds=3.0, rows=None,
            row_count=rows,
        )
        return RunReport(outcome=outcome, row_count=rows, verdict=judge(expected, expected))

    place = {"system": "spark", "asked": 9, "mode": "streaming"}
    unknown = runs._cell(place, report(5, []))
    assert (unknown.verdict, unknown.rate) == (Ending.UNBROKEN, 3.0)
    assert runs._cell(place, report(0, [])).verdict is Ending.RIGHT
    assert runs._cell(place, report(1, [(1,)])).verdict is Ending.RIGHT
    text = page([Line(workload=STATEFUL, cells=(unknown,))], "head", ["spark"])
    assert "| unbroken, 3/s |" in text
    assert "* nexmark q5, spark: its rows break no rule" in text


class Steady:
    """A system of steady speed that runs nothing."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize(
    "per_second, patience, counts",
    [
        (100_000, 60, [20_000, 1_000_000]),
        (10_000, 60, [20_000, 500_000]),
        (2_000, 60, [20_000, 100_000]),
        (1_000, 60, [20_000]),
        (1_000, None, [20_000, 1_000_000]),
    ],
)
def test_a_slow_system_gets_as_many_events_as_patience_allows(
    monkeypatch: pytest.MonkeyPatch, per_second: int, patience: float | None, counts: list[int]
) -> None:
    ran = []

    def run(request: Request, system: Any, *, check: bool) -> RunReport:
        assert check
        count = request.settings.num_events
        ran.append(count)
        outcome = Outcome(
            system=system.name, engine="steady", mode=request.mode, events=count,
            seconds=count / per_second, rows=None, row_count=1,
        )
        return RunReport(outcome=outcome, row_count=1, verdict=judge([], []))

    monkeypatch.setattr(runs, "run_workload", run)
    found = measure(
        STATEFUL, Steady("spark"), events=1_000_000, shards=2, mode=Mode.STREAMING,  # type: ignore[arg-type]
        patience=patience, say=print,
    )
    assert ran == counts
    assert (found.events, found.asked) == (counts[-1], 1_000_000)
    assert found.rate == pytest.approx(per_second)


def test_the_start_of_a_run_is_not_taken_for_the_cost_of_its_events() -> None:
    ran = []

    def run(count: int) -> Any:
        ran.append(count)
        outcome = Outcome(
            system="spark", engine="late", mode=Mode.STREAMING, events=count,
            seconds=5 + count / 50_000, rows=None, row_count=1,
        )
        return RunReport(outcome=outcome, row_count=1, verdict=None)

    # After 20 K events, 5.4 s, the other sizes seem to take 27 s, 135 s and 270 s.
    assert runs._climb(run, 1_000_000, 60).outcome.events == 1_000_000
    assert ran == [20_000, 100_000, 1_000_000]


def test_a_failure_is_a_cell_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any, **__: Any) -> RunReport:
        msg = "the disk is full\nmore"
        raise RuntimeError(msg)

    monkeypatch.setattr(runs, "run_workload", run)
    found = measure(
        STATEFUL, Steady("spark"), events=100, shards=2, mode=Mode.STREAMING,  # type: ignore[arg-type]
        patience=1, say=print,
    )
    assert (found.verdict, found.told) == (Ending.FAILED, "RuntimeError: the disk is full")


def test_what_was_right_or_refused_is_kept_and_what_failed_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    assert kept(path) == {}
    right, failed = cell("spark", 5), cell("headrace", 5, Ending.FAILED)
    refused = Cell(system="direct", verdict=Ending.REFUSED, told="no clock")
    for each in (failed, right, refused):
        keep(path, "nexmark q5", each)
    assert kept(path) == {("nexmark q5", "spark"): right, ("nexmark q5", "direct"): refused}


def test_a_kept_cell_counts_only_for_as_many_events_in_the_same_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cells.jsonl"
    there = Cell(
        system="direct", asked=70, events=70, mode="streaming", seconds=1, verdict=Ending.RIGHT
    )
    keep(path, "yahoo campaigns", there)
    ran: list[int] = []

    def measured(*_: Any, events: int, **__: Any) -> Cell:
        ran.append(events)
        return there

    monkeypatch.setattr(command, "measure", measured)
    monkeypatch.setattr("headrace.runner.start_session", lambda master: Stopped())
    monkeypatch.setattr(command, "choose", lambda name, session: Stopped())
    monkeypatch.setattr(command, "get_ready", lambda: None)
    for options in (["70"], ["80"], ["70", "--batch"]):
        command.main(["yahoo", "--system=direct", f"--keep={path}", "--direct-events", *options])
    assert ran == [80, 70]


def test_without_a_name_those_that_come_with_headrace_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table asked for PyFlink too, and failed where it was not installed."""

    def chose(name: str, session: object) -> Any:
        del session
        made = Stopped()
        made.name = name
        return made

    rates = {"headrace": 10**6, "spark": 10**6, "direct": 10**5}
    monkeypatch.setattr(
        command, "measure", lambda _what, system, **_how: cell(system.name, rates[system.name])
    )
    monkeypatch.setattr("headrace.runner.start_session", lambda master: Stopped())
    monkeypatch.setattr(command, "choose", chose)
    monkeypatch.setattr(command, "get_ready", lambda: None)
    assert command.main(["nexmark:q5"]) == 0
    assert "| workload | headrace | native Spark | Beam local | of Spark" in capsys.readouterr().out


def test_a_peer_that_is_named_has_a_column() -> None:
    cells = (cell("headrace", 10**6), cell("beam-flink", 10**5))
    text = page([Line(workload=STATEFUL, cells=cells)], "head", ["headrace", "beam-flink"])
    assert "| workload | headrace | beam-flink | of Spark |" in text
    assert "| nexmark q5 | right, 1.00 M/s | right, 100.0 K/s | - |" in text


class Stopped:
    name = "direct"

    def stop(self) -> None:
        """Nothing runs."""


def test_an_unknown_workload_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        chosen(command.parser(), ["nexmark:q99"])
    assert "q99" in capsys.readouterr().err
    assert [each.full_name for each in chosen(command.parser(), ["yahoo"])] == ["yahoo campaigns"]
