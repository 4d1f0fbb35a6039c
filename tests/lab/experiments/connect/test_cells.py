"""The experiment on a Connect server, without one: what it keeps of each test, and of a run."""

from __future__ import annotations

import unittest
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.lab.catalog import CATALOG
from headrace.lab.ending import Ending
from headrace.lab.experiments.connect.cells import (
    BATCH,
    KILLED,
    PARTS,
    STREAMS,
    SUITE,
    Cell,
    keep,
    kept,
    table,
)
from headrace.lab.experiments.connect.command import parser
from headrace.lab.experiments.connect.queries import STREAMED, todo
from headrace.lab.experiments.connect.suite import Ended
from headrace.lab.experiments.verify.kill import GAPS

CELL = Cell(part=BATCH, name="q1", ending=Ending.RIGHT, rows=1_200, seconds=2.0)


class Toy(unittest.TestCase):
    """Tests that end in every way there is; unittest runs them, pytest must not."""

    __test__ = False

    def test_a_right(self) -> None:
        assert self

    def test_b_wrong(self) -> None:
        self.fail("three is not four")

    def test_c_raises(self) -> None:
        msg = "no such table"
        raise KeyError(msg)

    def test_d_left_out(self) -> None:
        self.skipTest("flaky")

    def test_e_in_parts(self) -> None:
        for number in (1, 2):
            with self.subTest(number=number):
                assert number == 1, "two is not one"

    @unittest.expectedFailure
    def test_f_better_than_expected(self) -> None:
        assert self

    @unittest.expectedFailure
    def test_g_fails_as_expected(self) -> None:
        self.fail("as expected")


def test_every_way_in_which_a_test_of_beams_ends_is_a_cell() -> None:
    told: list[Cell] = []
    ended = Ended(told.append)
    unittest.TestLoader().loadTestsFromTestCase(Toy).run(ended)
    assert told == ended.cells
    assert {cell.part for cell in told} == {SUITE}
    assert {cell.name[5]: (cell.ending, cell.told) for cell in told} == {
        "a": (Ending.RIGHT, ""),
        "b": (Ending.WRONG, "three is not four"),
        "c": (Ending.FAILED, "'no such table'"),
        "d": (Ending.NOT_THERE, "flaky"),
        "e": (Ending.WRONG, "two is not one"),
        "f": (Ending.WRONG, "Beam expects it to fail"),
        "g": (Ending.RIGHT, ""),
    }


def test_a_table_counts_what_ran_and_names_what_is_not_right() -> None:
    lost = replace(CELL, name="q2", ending=Ending.WRONG, told="2 rows are lost", rows=7)
    out = Cell(part=SUITE, name="test_x", ending=Ending.NOT_THERE, told="flaky")
    made = table([replace(out, name="test_y", ending=Ending.RIGHT), out, CELL, lost])
    assert f"| {PARTS[SUITE]} | 1 | 1 | - | - |" in made
    assert f"| {PARTS[BATCH]} | 2 | 1 | 1,207 | - |" in made
    assert PARTS[KILLED] not in made
    assert f"* {PARTS[BATCH]}, q2: WRONG: 2 rows are lost" in made
    assert f"* {PARTS[SUITE]}, test_x: -: flaky" in made


def test_a_run_goes_on_with_what_was_good(tmp_path: Path) -> None:
    path = tmp_path / "cells"
    assert kept(path, PARTS) == kept(None, PARTS) == []
    bad = replace(CELL, name="q2", ending=Ending.FAILED)
    other = replace(CELL, part=STREAMS, epochs=3)
    for cell in (CELL, bad, other, replace(CELL, seconds=3.0)):
        keep(path, cell)
    assert kept(path, [BATCH]) == [replace(CELL, seconds=3.0)]
    assert kept(path, PARTS) == [replace(CELL, seconds=3.0), other]


def test_all_queries_run_in_batch_and_six_are_killed_each_in_a_gap_of_the_commit() -> None:
    found = todo(list(PARTS))
    assert [query for part, query, _ in found if part == BATCH] == [
        workload.name for workload in CATALOG.of_suite("nexmark")
    ]
    killed = [(query, gap) for part, query, gap in found if part == KILLED]
    assert [query for query, _ in killed] == list(STREAMED)
    assert {gap for _, gap in killed} == set(GAPS)
    assert {part for part, _, _ in todo([STREAMS])} == {STREAMS}


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--only", "sweet"])
    assert "invalid choice: 'sweet'" in capsys.readouterr().err
