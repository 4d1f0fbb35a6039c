"""A run of a spec that does not come to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.lab.experiments.fake import FakeBench
from headrace.lab.experiments.sustainable import find_rate
from headrace.lab.experiments.trial import Load, Trial
from headrace.lab.laboratory import run_spec
from headrace.lab.report.page import page
from headrace.lab.results.folder import RunFolder
from headrace.lab.spec import read_spec

SPEC = """
name = "cut"
[systems.one]
kind = "fake"
capacity = 2000
[systems.two]
kind = "fake"
capacity = 3000
[sustainable]
probe_seconds = 10
confirm_seconds = 20
[latency]
seconds = 10
repeats = 3
"""


def ends(monkeypatch: pytest.MonkeyPatch, failure: BaseException, after: int) -> None:
    """Let the trials of latency fail after so many."""
    whole, count = FakeBench.trial, 0

    def trial(bench: FakeBench, load: Load) -> Trial:
        nonlocal count
        if load.patience is None:  # no probe of the search
            count += 1
            if count > after:
                raise failure
        return whole(bench, load)

    monkeypatch.setattr(FakeBench, "trial", trial)


def figures_of(root: Path) -> dict[tuple[str, str, str, str], float | None]:
    (folder,) = root.iterdir()
    return {figure.key: figure.value for figure in RunFolder.open(folder).summary().figures}


def test_an_interrupted_run_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends(monkeypatch, KeyboardInterrupt(), after=3)
    with pytest.raises(KeyboardInterrupt):
        run_spec(read_spec(SPEC), tmp_path)
    found = figures_of(tmp_path)
    assert found["one", "count", "sustainable", "rate"] == pytest.approx(2_000, rel=0.05)
    assert found["two", "count", "sustainable", "rate"] == pytest.approx(3_000, rel=0.05)
    (folder,) = map(RunFolder.open, tmp_path.iterdir())
    repeats = {f.system: len(f.repeats) for f in folder.summary().figures if f.name == "p99"}
    assert repeats == {"one": 2, "two": 1}
    assert len([s for s in folder.series() if s.experiment == "latency"]) == 3
    assert folder.summary().interrupted == "KeyboardInterrupt"
    assert "cut was interrupted" in page([folder])


def test_a_search_that_is_cut_off_keeps_the_systems_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, count = find_rate, 0

    def find(*arguments: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count > 1:
            msg = "out of memory"
            raise RuntimeError(msg)
        return whole(*arguments, **more)

    monkeypatch.setattr("headrace.lab.measure.find_rate", find)
    with pytest.raises(RuntimeError, match="out of memory"):
        run_spec(read_spec(SPEC), tmp_path)
    found = figures_of(tmp_path)
    assert set(found) == {("one", "count", "sustainable", "rate")}


def test_the_command_line_says_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(monkeypatch, KeyboardInterrupt(), after=1)
    (tmp_path / "cut.toml").write_text(SPEC)
    status = main(["lab", "run", str(tmp_path / "cut.toml"), "--results", str(tmp_path / "r")])
    (folder,) = (tmp_path / "r").iterdir()
    assert status == 130
    assert f"headrace: interrupted: what was measured is in {folder}" in capsys.readouterr().err


def test_a_whole_run_was_not_interrupted(tmp_path: Path) -> None:
    folder = run_spec(read_spec(SPEC), tmp_path)
    assert folder.summary().interrupted == ""
    assert "interrupted" not in page([folder])
