"""`headrace lab`: a run from spec to page, on a system that needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.lab import lines_of
from headrace.cli.main import INTERRUPTED, main
from headrace.lab.doors import Door
from headrace.lab.results.summary import Better, Figure, Summary

SPEC = """
name = "small"
[systems.fake]
capacity = 2000
[systems.bad]
kind = "fake"
double_every = 1000
[systems.pyflink]
[sustainable]
probe_seconds = 10
confirm_seconds = 20
limit_seconds = 3
repeats = 2
[latency]
seconds = 10
repeats = 4
[spike]
calm_seconds = 10
[fault]
seconds = 20
at_seconds = 8
[scaling]
[growth]
seconds = 20
[causal]
steps = ["all"]
"""
HEALTHY = '[systems.fake]\ncapacity = %s\n[latency]\nrate = 1000\nseconds = 5\nrepeats = 4\n'


@pytest.fixture(autouse=True)
def no_pyflink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_LAB_PYFLINK_PYTHON", "/no/such/python")


def said(
    capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0
) -> str:
    try:
        found = main(["lab", *arguments])
    except SystemExit as e:
        found = int(e.code or 0)
    printed = capsys.readouterr()
    assert found == status, printed.err
    return printed.err if status == 1 else printed.out


def test_a_run_leaves_a_folder_figures_and_what_is_void(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    text = said(
        capsys, "run", str(tmp_path / "spec.toml"), "--results", str(tmp_path / "r"), status=2
    )
    void = "VOID bad count sustainable rate: at 1,000 events/s: wrong answer: 0 rows missing"
    assert void in text
    assert "absent pyflink: " in text
    assert "fake count spike came back: 1 " in text
    (folder,) = (tmp_path / "r").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "environment.json", "queues.parquet", "results.parquet", "spec.toml", "summary.json",
    ]
    assert (folder / "spec.toml").read_text() == SPEC
    figures = {
        (f["system"], f["experiment"], f["name"]): f
        for f in json.loads((folder / "summary.json").read_text())["figures"]
    }
    assert figures["fake", "sustainable", "rate"]["value"] == pytest.approx(2_000, rel=0.05)
    assert figures["fake", "latency", "p99"]["value"] == pytest.approx(0.05 + 1 / 2_000, rel=0.05)
    assert len(figures["fake", "latency", "p99"]["repeats"]) == 4
    assert figures["fake", "waterfall", "commit"]["value"] == pytest.approx(0.015, rel=0.1)
    for what in ("predicted", "rerun"):
        gain = figures["fake", "causal", f"all 2x as fast, {what}"]["value"]
        assert gain == pytest.approx(1, rel=0.1)
    assert figures["bad", "latency", "p99"]["value"] is None


def test_runs_are_compared_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, capacity in (("a", 5_000), ("b", 1_010)):
        (tmp_path / f"{name}.toml").write_text(f'name = "{name}"\n' + HEALTHY % capacity)
        said(capsys, "run", str(tmp_path / f"{name}.toml"), "--results", str(tmp_path / "r"))
    first, second = sorted((tmp_path / "r").iterdir(), key=lambda path: path.name[-1])
    text = said(capsys, "compare", str(first), str(second))
    assert "fake count latency p50: 0.0502 -> " in text
    assert "different, WORSE" in text
    page = tmp_path / "page.html"
    assert "MB" in said(capsys, "report", str(first), str(second), "--output", str(page))
    assert "a: fake" in page.read_text()
    again = said(capsys, "report", str(first), "--output", str(page), status=1)
    assert "exists already" in again


def test_a_rate_above_which_no_more_could_be_sent_is_told_without_an_upper_bound() -> None:
    """The command died of such a figure, after all had been measured."""
    least = Figure(
        system="fake", question="count", experiment="sustainable", name="rate", unit="events/s",
        better=Better.HIGHER, value=2_000.0, low=2_000.0, high=None, repeats=(2_000.0,),
    )
    summary = Summary(
        name="least", started="", seconds=1.0, calibration={}, systems=(), figures=(least,)
    )
    assert lines_of(summary) == ["fake count sustainable rate: 2,000 [2,000, more] events/s"]


def test_help_teaches_and_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "[systems.headrace]" in said(capsys, "--help")
    assert "first_rate = 1000" in said(capsys, "run", "--help")
    assert "cannot be read" in said(capsys, "run", str(tmp_path / "none.toml"), status=1)
    assert "not the folder of a run" in said(capsys, "compare", str(tmp_path), "x", status=1)


@pytest.mark.parametrize(
    ("told", "left"),
    [
        (["--keep=cells.jsonl"], "what was measured is in cells.jsonl, the same command goes on"),
        (["--keep", "a.jsonl", "x"], "what was measured is in a.jsonl, the same command goes on"),
        (["campaign", "--keep-going", "b"], "what was measured is in b, the same command goes on"),
        ([], "nothing is kept"),
    ],
)
def test_an_experiment_that_is_ended_says_what_is_left_of_it(
    told: list[str], left: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(_told: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Door, "open", lambda _self: ended)
    assert main(["lab", "run", "verify", *told]) == INTERRUPTED
    assert capsys.readouterr().err == f"headrace: interrupted: stopped; {left}\n"
