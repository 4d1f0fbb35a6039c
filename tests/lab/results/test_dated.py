"""Dated files of results: figures in one form, which two files are compared by."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.lab.results.compare import compare
from headrace.lab.results.dated import RESULTS, envelope, read_dated, save
from headrace.lab.results.summary import Better, Figure

#: The last day on which files were written without calibration kernels.
LAST_WITHOUT = "2026-11-19"
TODAY = datetime.date(2026, 11, 18)


def figure(*samples: float, void: str = "") -> Figure:
    return Figure.of_samples("toy", "micro", "rate", "events/s", Better.HIGHER, samples, void)


def test_a_figure_is_the_median_of_its_samples_with_their_range() -> None:
    found = figure(4.0, 1.0, 2.0)
    assert (found.value, found.low, found.high, found.repeats) == (2.0, 1.0, 4.0, (4.0, 1.0, 2.0))


@pytest.mark.parametrize("empty", [figure(), figure(3.0, void="a wrong answer")])
def test_what_is_void_or_was_not_measured_has_no_value(empty: Figure) -> None:
    assert (empty.value, empty.low, empty.high, empty.repeats) == (None, None, None, ())


def test_figures_are_read_as_they_were_written_and_no_file_is_written_twice(
    tmp_path: Path,
) -> None:
    kept = (figure(1.0, 2.0), figure(void="lost a row"))
    content = envelope(2, {"rounds": 2}, TODAY, [{"name": "toy"}], kept)
    first, second = (save(content, "toy", tmp_path) for _ in range(2))
    assert [path.name for path in (first, second)] == ["2026-11-18-toy.json", "2026-11-18-toy-2.json"]
    assert read_dated(first).figures == kept
    assert json.loads(first.read_text())["cases"] == [{"name": "toy"}]


def test_a_file_has_the_calibration_kernels_of_its_machine(tmp_path: Path) -> None:
    path = save(envelope(2, {}, TODAY, [], [figure(1.0)]), "toy", tmp_path)
    found = read_dated(path).calibration
    assert found.keys() == {"loops_per_second", "copied_bytes_per_second", "sync_seconds"}
    assert all(value > 0 for value in found.values())
    told = json.loads(path.read_text())
    del told["calibration"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(told))
    assert read_dated(old).calibration == {}
    (first, *_) = compare(read_dated(old), read_dated(path))
    assert first.startswith("One has no calibration kernels")


def test_every_dated_file_since_they_are_written_has_calibration_kernels() -> None:
    dated = re.compile(r"(\d{4}-\d\d-\d\d)-[\w-]+\.json")
    files = [(m[1], path) for path in RESULTS.iterdir() if (m := dated.fullmatch(path.name))]
    assert len(files) > 10
    without = [
        path.name for day, path in files
        if day > LAST_WITHOUT and not json.loads(path.read_text()).get("calibration")
    ]
    assert without == []


def test_two_files_are_compared_as_two_runs_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        save(envelope(2, {}, TODAY, [], [figure(*samples)]), "toy", tmp_path)
        for samples in ((100.0, 101.0, 102.0, 99.0), (50.0, 51.0, 49.0, 50.5))
    ]
    assert main(["lab", "compare", *map(str, paths)]) == 0
    told = capsys.readouterr().out
    assert "toy micro rate: 100.5 -> 50.25 events/s" in told and "WORSE" in told


def test_a_file_without_figures_is_told_as_such(tmp_path: Path) -> None:
    old = tmp_path / "2026-11-15-bench.json"
    old.write_text('{"format": 1, "date": "2026-11-15", "cases": []}')
    with pytest.raises(OptionError, match="no file of results with figures"):
        read_dated(old)
