"""`headrace run` from end to end, on Beam's local runner and a suite that is checked by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli import run as run_command
from headrace.cli.main import main
from headrace.lab.catalog import CATALOG
from tests.lab import toy

DIRECT = ("--system", "direct", "--progress", "off")


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_command, "CATALOG", toy.CATALOG)


def test_a_right_answer_is_status_0_with_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "counts", "--events", "25", "--streaming", *DIRECT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "toy counts: How often does each number come in ten seconds?"
    assert "FnApiRunner" in lines[1] and lines[1].endswith(", streaming")
    assert "for 25 events: " in lines[2] and lines[2].endswith(" events/s")
    assert lines[3:] == ["  gave      9 rows", "right: 9 rows, as the oracle has them"]


def test_a_wrong_answer_is_status_1_and_says_which_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "forgetful", "--events", "10", *DIRECT]) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "WRONG: 3 rows, the oracle has 3; 1 missing, 1 too many",
        "  missing: (1600000000, 0, 4)",
        "  too many: (1600000000, 1, 3)",
    ]


def test_settings_are_options_and_rows_go_to_the_output(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    arguments = ["--events", "0.01K", "--keys", "1", "--loud", "--output", str(path)]
    assert main(["run", "toy", "counts", *arguments, *DIRECT]) == 0
    (line,) = path.read_text().splitlines()
    assert json.loads(line) == {"start": 1_600_000_000, "value": 0, "times": 10}


def test_a_rate_changes_event_time_and_paces_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """25 events at 100 a second: all in one window, and not before a quarter of a second."""
    arguments = ["--events", "25", "--rate", "100", "--streaming"]
    assert main(["run", "toy", "counts", *arguments, *DIRECT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  gave      3 rows" in lines
    assert float(lines[2].split()[1]) >= 0.24


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--keys", "11"], "keys=11 is outside its domain: a whole number from 1 to 10"),
        (["--events", "many"], "events=many is outside its domain: a whole number from 1 up"),
        (["--rate", "0"], "rate=0 is outside its domain: a whole number from 1 to 1,000"),
        (["--colour", "green"], "colour=green is outside its domain: one of red, blue"),
        (["--source", "nowhere"], "there is no source 'nowhere'"),
        (["--sink", "sea"], "there is no sink 'sea'"),
        (["--drain", "sea"], "there is no sink 'sea'"),  # as it was called before
        (["--sink", "spark:x"], "the system must be headrace or spark"),
    ],
)
def test_a_value_outside_its_domain_is_refused_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "toy", "counts", *arguments, *DIRECT]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("headrace: ") and told in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--system", "flink"], "invalid choice: 'flink'"), (["--shards", "0"], "0 is not a whole"),
     (["--key", "3"], "unrecognized arguments: --key 3")],
)
def test_an_option_that_makes_no_sense_is_status_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "toy", "counts", *arguments])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_an_unknown_workload_gives_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "count"]) == 1
    assert "did you mean counts?" in capsys.readouterr().err


def test_help_shows_every_setting_with_domain_default_and_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "toy", "counts", "--help"])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "headrace run nexmark q5 --events 1M" in shown
    assert (
        "--keys VALUE How many different numbers there are. A whole number from 1 to 10. "
        "Default: 3."
    ) in shown
    assert "Of no effect at all, 100 % sure. A number from 0 to 1. Default: 0.5." in shown


def test_a_folder_keeps_what_a_run_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept"
    arguments = ["run", "toy", "counts", "--events", "25", "--checkpoint", str(folder), *DIRECT]
    assert main(arguments) == 0
    assert (folder / "log" / "events" / "000000.parquet").is_file()
    assert main([*arguments, "--keys", "2"]) == 1
    assert "holds a run with keys 3, not 2" in capsys.readouterr().err


@pytest.mark.parametrize("suite", CATALOG.suites)
def test_the_options_of_the_projects_workloads_can_be_shown(suite: str) -> None:
    for workload in CATALOG.of_suite(suite):
        assert workload.suite in run_command.options_of(workload).format_help()


def test_a_run_that_would_never_end_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy", "counts", "--events", "0", *DIRECT]) == 1
    assert "--events 0 would never end" in capsys.readouterr().err


#: A run in whose middle a signal comes; what it made is told first.
TOLD = """
import os, sys, tempfile, time
from headrace.cli import run
from headrace.cli.main import main

def wait(*arguments):
    names = os.listdir(tempfile.gettempdir())
    print(len([name for name in names if name.startswith("headrace-run-")]), flush=True)
    os.kill(os.getpid(), int(sys.argv[1]))
    time.sleep(20)

run._run = wait
sys.exit(main(["run", "nexmark", "q1", *sys.argv[2:]]))
"""


@pytest.mark.parametrize(
    ("number", "options", "told"),
    [
        (signal.SIGTERM, [], "SIGTERM: stopped; a batch keeps no state, start it again"),
        (
            signal.SIGINT, ["--streaming"],
            "interrupted: stopped; without --checkpoint nothing is kept",
        ),
        (
            signal.SIGTERM, ["--streaming", "--checkpoint", "kept"],
            "SIGTERM: stopped; the same command with --checkpoint kept goes on",
        ),
    ],
)
def test_a_run_that_is_told_to_end_says_so_in_one_line_and_leaves_no_folder(
    tmp_path: Path, number: int, options: list[str], told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOLD, str(int(number)), *options], cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.getcwd()},
        capture_output=True, text=True, check=False, timeout=60,
    )
    assert done.stderr == f"headrace: {told}\n"
    assert done.stdout == ("0\n" if "--checkpoint" in options else "1\n")
    assert done.returncode == (130 if number == signal.SIGINT else -number)
    assert list(tmp_path.glob("headrace-run-*")) == []
