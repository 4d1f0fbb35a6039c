"""What a run leaves behind, what is refused, and what two runs say of each other."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import OptionError
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.fake import FakeBench
from headrace.lab.record.trial import Load
from headrace.lab.results.compare import compare
from headrace.lab.results.folder import SUMMARY, RunFolder, environment
from headrace.lab.results.samples import Kept
from headrace.lab.results.summary import Better, Figure, Summary, SystemRecord, read_summary

NOW = datetime(2026, 11, 17, 4, 10, tzinfo=timezone.utc)
FIGURE = Figure(
    system="fake", experiment="sustainable", name="rate", unit="events/s", better=Better.HIGHER,
    value=100.0, low=98.0, high=102.0, repeats=(99.0, 100.0, 101.0, 100.0),
)
SUMMARY_OF_ONE = Summary(
    name="one", started="2026-11-17T04:10:00Z", seconds=3.0,
    calibration={
        "loops_per_second": 1e7, "copied_bytes_per_second": 1e9, "sync_seconds": 0.001,
    },
    systems=(SystemRecord(name="fake", kind="fake", engine="f", absent="", settings={"a": 1}),),
    figures=(FIGURE,),
)


def test_two_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [RunFolder.create(tmp_path, "mine", NOW).path.name for _ in range(2)]
    assert names == ["2026-11-17T041000-mine", "2026-11-17T041000-mine-2"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "mine", NOW)
    folder.write_summary(SUMMARY_OF_ONE)
    with pytest.raises(FileExistsError):
        folder.write_summary(SUMMARY_OF_ONE)


def test_samples_come_back_as_they_were_trial_by_trial(tmp_path: Path) -> None:
    bench = FakeBench()
    trials = [bench.trial(Load(schedule=Schedule.steady(rate, 2))) for rate in (100, 200, 300)]
    names = [("a", "count", 0), ("a", "state", 0), ("a", "state", 1)]
    folder = RunFolder.create(tmp_path, "mine", NOW)
    folder.write_samples(
        Kept(system=s, question=q, experiment="latency", repeat=r, trial=trial)
        for (s, q, r), trial in zip(names, trials, strict=True)
    )
    found = folder.series()
    assert [(each.system, each.question, each.repeat) for each in found] == names
    for each, trial in zip(found, trials, strict=True):
        np.testing.assert_array_equal(each.due, trial.due)
        np.testing.assert_array_equal(each.left, trial.left)
        np.testing.assert_array_equal(each.queue_lengths, trial.queue_lengths)
        np.testing.assert_array_equal(each.stages["compute"], trial.stages["compute"])
        assert "epoch" not in each.stages


def test_a_run_without_samples_reads_as_one(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "mine", NOW)
    folder.write_samples([])
    assert folder.series() == []


def test_a_summary_comes_back_as_it_was() -> None:
    assert read_summary(SUMMARY_OF_ONE.to_json(), "here") == SUMMARY_OF_ONE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "1 was expected"),
        ({"figures": [{"system": "x"}]}, "'experiment' is a required property"),
        ({"calibration": {"loops_per_second": 0}}, "calibration"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_summary_that_does_not_fit_the_schema_is_refused(
    change: dict[str, object], said: str
) -> None:
    told = json.loads(SUMMARY_OF_ONE.to_json()) | change
    with pytest.raises(OptionError, match=said):
        read_summary(json.dumps(told), "here")


def test_a_void_figure_has_no_value() -> None:
    wrong = replace(SUMMARY_OF_ONE, figures=(replace(FIGURE, void="wrong answer"),))
    with pytest.raises(OptionError, match="is not of type 'null'"):
        wrong.to_json()


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=f"no {SUMMARY}"):
        RunFolder.open(tmp_path)
    with pytest.raises(OptionError, match="is no JSON"):
        read_summary("{", "here")


def test_the_environment_names_versions_and_nobody() -> None:
    told = environment()
    assert {"python", "cores", "machine", "packages"} <= told.keys()
    assert not {"host", "hostname", "node", "user"} & told.keys()


def other(*repeats: float, void: str = "") -> Summary:
    value = None if void else sum(repeats) / len(repeats)
    figure = replace(FIGURE, repeats=repeats, value=value, void=void)
    return replace(SUMMARY_OF_ONE, figures=(figure,))


def test_a_difference_is_told_with_its_direction() -> None:
    (slower,) = compare(SUMMARY_OF_ONE, other(49.0, 50.0, 51.0, 50.0))
    assert slower.startswith("fake sustainable rate: 100 -> 50 events/s; x0.500 [")
    assert slower.endswith("different, WORSE")
    assert compare(SUMMARY_OF_ONE, other(200.0, 201.0, 199.0, 202.0))[0].endswith("better")
    assert compare(SUMMARY_OF_ONE, other(100.5, 99.5, 100.0, 101.0))[0].endswith(
        "no difference shown"
    )


def test_void_and_missing_figures_are_named_and_not_compared() -> None:
    (line,) = compare(SUMMARY_OF_ONE, other(1.0, void="wrong answer"))
    assert line.endswith("void in the second run: wrong answer")
    nothing = replace(SUMMARY_OF_ONE, figures=())
    assert compare(SUMMARY_OF_ONE, nothing)[0].endswith("only in the first run")
    assert compare(nothing, SUMMARY_OF_ONE)[0].endswith("only in the second run")


def test_runs_on_other_machines_are_told_as_such() -> None:
    slow = replace(
        SUMMARY_OF_ONE, calibration=dict(SUMMARY_OF_ONE.calibration) | {"loops_per_second": 5e6}
    )
    assert compare(SUMMARY_OF_ONE, slow)[0].startswith("The machines differ: loops_per_second")
