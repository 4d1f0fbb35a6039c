"""What proves that workloads are right: a short form of it, and that it does not prove too much."""

from __future__ import annotations

import dataclasses
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headrace.lab.experiments.verify.command as command
from headrace.lab.catalog import CATALOG
from headrace.lab.ending import Ending
from headrace.lab.experiments.verify import kill
from headrace.lab.experiments.verify.choices import EVENTS, disordered, request_of, settings_of
from headrace.lab.experiments.verify.conditions import LEAST_EPOCHS, Cell, Condition, find
from headrace.lab.experiments.verify.kill import GAPS, TooShortError, run_until_killed
from headrace.lab.experiments.verify.runs import verify
from headrace.lab.experiments.verify.table import keep, kept, table
from headrace.lab.systems.headrace_system import HeadraceSystem
from headrace.lab.verdict import judge
from headrace.lab.workload import Mode, Workload
from headrace.state.crash_points import Point
from tests.lab.slow_generator import SlowGenerator

SHORT = (("nexmark", "q4"), ("windowed", "join"), ("kernels", "finance"))
CELL = Cell(
    workload="nexmark q4", condition=Condition.TWO_SHARDS, events=9, ending=Ending.RIGHT,
    rows=77, epochs=4, seconds=1.0,
)


def every_workload() -> list[Workload]:
    return [workload for suite in CATALOG.suites for workload in CATALOG.of_suite(suite)]


@pytest.mark.spark
@pytest.mark.parametrize("suite, name", SHORT)
def test_a_stream_out_of_order_on_two_shards_gives_what_the_oracle_says(
    spark: Any, suite: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small blocks that take their time: a few thousand events are several epochs.
    monkeypatch.setattr("headrace.lab.data.beam_source.BLOCK_EVENTS", 1_024)
    workload = CATALOG.workload(suite, name)
    slow: Any = lambda settings: SlowGenerator(workload.generator(settings))  # noqa: E731
    slowly = dataclasses.replace(workload, generator=slow)
    cell = verify(slowly, Condition.TWO_SHARDS, events=8_000, system=HeadraceSystem(spark))
    assert (cell.ending, cell.told) == (Ending.RIGHT, "")
    assert cell.rows > 0 and cell.epochs is not None and cell.epochs >= LEAST_EPOCHS


@pytest.mark.parametrize("workload", every_workload(), ids=lambda each: each.full_name)
def test_every_workload_has_settings_whose_events_are_out_of_order(workload: Workload) -> None:
    settings = settings_of(workload, EVENTS)
    generator = workload.generator(settings)
    assert generator.events == EVENTS
    assert disordered(generator)
    group = "out_of_order" if hasattr(settings, "out_of_order") else "out_of_order_group_size"
    in_order = dataclasses.replace(settings, **{group: 1})
    assert not disordered(workload.generator(in_order))


def test_conditions_differ_in_mode_and_shards(tmp_path: Path) -> None:
    workload = CATALOG.workload("windowed", "join")
    asked = {c: request_of(workload, c, 1_000, tmp_path) for c in Condition}
    assert [(r.mode, r.shards) for r in asked.values()] == [
        (Mode.BATCH, 2), (Mode.STREAMING, 1), (Mode.STREAMING, 2), (Mode.STREAMING, 4),
        (Mode.STREAMING, 2),
    ]
    assert len({repr(r.settings) for r in asked.values()}) == 1


def test_an_answer_proves_something_only_with_rows_and_epochs() -> None:
    right, empty, wrong = judge([(1,)], [(1,)]), judge([], []), judge([(1,)], [(2,)])
    assert find(right, Condition.TWO_SHARDS, 3, 1) == (Ending.RIGHT, "")
    assert find(right, Condition.BATCH, None, 1) == (Ending.RIGHT, "")
    assert find(right, Condition.KILLED, 2, 1)[0] is Ending.TOO_SHORT
    assert find(empty, Condition.TWO_SHARDS, 3, 0)[0] is Ending.FAILED
    assert find(wrong, Condition.TWO_SHARDS, 3, 1)[0] is Ending.WRONG
    assert find(None, Condition.TWO_SHARDS, 3, 1)[0] is Ending.FAILED


def test_rows_that_break_no_rule_are_not_called_right() -> None:
    nothing_compared = judge([(1,)], [], lambda rows: Counter())
    assert find(nothing_compared, Condition.TWO_SHARDS, 3, 1)[0] is Ending.UNBROKEN
    assert find(nothing_compared, Condition.TWO_SHARDS, 3, 0)[0] is Ending.FAILED


def test_a_mode_that_a_workload_has_not_is_not_run() -> None:
    batch_only = CATALOG.workload("nexmark", "q15")
    nothing: Any = None  # no system: a run would fail
    cell = verify(batch_only, Condition.TWO_SHARDS, events=10, system=nothing)
    assert cell.ending is Ending.NOT_THERE and not cell.bad


def test_a_run_that_breaks_is_a_failed_cell_with_its_reason() -> None:
    class Broken:
        name = "headrace"

        def prepare(self, request: Any) -> None:
            del request
            msg = "no Spark here\nand much more"
            raise ValueError(msg)

    broken: Any = Broken()
    workload = CATALOG.workload("windowed", "join")
    cell = verify(workload, Condition.TWO_SHARDS, events=100, system=broken)
    assert (cell.ending, cell.told) == (Ending.FAILED, "ValueError: no Spark here")
    assert cell.bad


def test_a_run_of_too_few_epochs_is_repeated_with_more_events(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = CATALOG.workload("windowed", "join")
    nothing: Any = None

    def short_below(enough: int) -> Any:
        def found(workload: Any, condition: Any, events: int, *_: Any) -> Cell:
            ending = Ending.RIGHT if events >= enough else Ending.TOO_SHORT
            return dataclasses.replace(CELL, events=events, ending=ending)

        return found

    for enough, wanted, bad in ((10, 10, False), (11, 20, False), (99, 40, True)):
        monkeypatch.setattr("headrace.lab.experiments.verify.runs._verify", short_below(enough))
        cell = verify(workload, Condition.TWO_SHARDS, events=10, system=nothing)
        assert (cell.events, cell.bad) == (wanted, bad)


def test_every_place_where_a_driver_is_killed_is_one_of_the_commit_and_takes_its_turn() -> None:
    turns = [command.crash_of(workload) for workload in every_workload()]
    assert {gap: turns.count(gap) for gap in GAPS} == dict.fromkeys(GAPS, len(turns) // 4)


@pytest.mark.parametrize(
    "ended, kind, told",
    [
        (0, TooShortError, "give more events"),
        (1, RuntimeError, "ended with 1 and was not killed: the last line"),
        (-signal.SIGKILL, RuntimeError, "not 0"),
    ],
)
def test_a_driver_that_dies_elsewhere_or_not_at_all_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int, kind: type[Exception], told: str
) -> None:
    workload = CATALOG.workload("windowed", "join")
    request = request_of(workload, Condition.KILLED, 100, tmp_path / "run")
    (tmp_path / "driver.log").write_text("the last line\n")
    monkeypatch.setattr(kill, "_run", lambda *_: ended)  # and there is no checkpoint
    with pytest.raises(kind, match=told):
        run_until_killed(request, 100, Point.AFTER_SINKS)


def test_the_table_shows_what_is_wrong_and_why() -> None:
    wrong = dataclasses.replace(
        CELL, condition=Condition.KILLED, ending=Ending.WRONG, told="1 missing", epochs=5
    )
    assert table([CELL, wrong]).splitlines() == [
        "| workload | 2 shards | killed | events | rows | epochs |",
        "|---|---|---|---|---|---|",
        "| nexmark q4 | right | WRONG | 9 | 77 | 4 to 5 |",
        "",
        "* nexmark q4, killed: WRONG: 1 missing",
    ]


def test_what_failed_is_not_kept_and_what_was_right_is(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    failed = dataclasses.replace(CELL, condition=Condition.BATCH, ending=Ending.FAILED)
    for cell in (CELL, failed):
        keep(path, cell)
    assert kept(path) == {("nexmark q4", Condition.TWO_SHARDS): CELL}
    assert kept(tmp_path / "none") == {}


def test_a_run_goes_on_with_what_is_kept_if_it_had_as_many_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def found(workload: Workload, condition: Condition, *, events: int, **_: Any) -> Cell:
        ran.append((condition, events))
        return dataclasses.replace(CELL, condition=condition, events=events)

    monkeypatch.setattr(command, "verify", found)
    asked = ["nexmark:q4", "--only", "shards", "--keep", str(tmp_path / "cells.jsonl")]
    for events in ("8", "8", "10"):
        assert command.main([*asked, "--events", events]) == 0
        assert capsys.readouterr().out.count("right") == 3
    assert [events for _, events in ran] == [8, 8, 8, 10, 10, 10]


@pytest.mark.parametrize("ending, status", [(Ending.RIGHT, 0), (Ending.WRONG, 2)])
def test_the_command_ends_with_2_if_anything_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: Ending,
    status: int,
) -> None:
    def found(workload: Workload, condition: Condition, **_: Any) -> Cell:
        name = workload.full_name
        return dataclasses.replace(CELL, workload=name, condition=condition, ending=ending)

    monkeypatch.setattr(command, "verify", found)
    assert command.main(["windowed:join", "--only", "kill", "--only", "batch"]) == status
    told = capsys.readouterr()
    assert "| windowed join | " + " | ".join([ending.value] * 2) in told.out
    said = [line.partition(f": {ending.value}")[0] for line in told.err.splitlines()]
    assert said == ["1 of 2: windowed join, batch", "2 of 2: windowed join, killed"]
