"""`headrace list`, on a suite that is checked by hand and on the project's own."""

from __future__ import annotations

import pytest

from headrace.cli import list as list_workloads
from headrace.cli.main import main
from headrace.lab.catalog import CATALOG
from tests.lab import toy


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_workloads, "CATALOG", toy.CATALOG)


def test_every_workload_has_a_line_with_its_question(capsys: pytest.CaptureFixture[str]) -> None:
    expected = (
        "toy counts      How often does each number come in ten seconds?\n"
        "toy forgetful   How often does each number come in ten seconds?\n"
        "toy batch-only  The same in batch alone\n"
    )
    for arguments in (["list"], ["list", "toy"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == expected


def test_a_workload_shows_its_columns_and_what_it_can_be_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "toy", "batch-only"]) == 0
    shown = capsys.readouterr().out
    assert "runs in:   batch\n" in shown
    assert "on Spark alone: no. Spark has no toys\n" in shown
    assert "  start  long\n  value  long\n  times  long\n" in shown
    assert (
        "  --keys (default 3)\n"
        "      How many different numbers there are.\n"
        "      a whole number from 1 to 10\n"
    ) in shown
    assert "  --colour (default red)\n      Of no effect either.\n      one of red, blue\n" in shown


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "toys"]) == 1
    assert capsys.readouterr().err == (
        "headrace: there is no suite 'toys'; did you mean toy? There is toy\n"
    )


@pytest.mark.parametrize("suite", CATALOG.suites)
def test_the_workloads_of_the_project_can_be_shown(
    suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(list_workloads, "CATALOG", CATALOG)
    for workload in CATALOG.of_suite(suite):
        assert main(["list", suite, workload.name]) == 0
        assert workload.title in capsys.readouterr().out
