"""A run of a spec that does not come to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.sustainable import find_rate
from headrace.lab.laboratory import run_spec
from headrace.lab.latency_figures import share_figures
from headrace.lab.load_figures import RATED
from headrace.lab.notes import MOST_KEPT, Notes
from headrace.lab.record.trial import Load, Trial, right_so_far
from headrace.lab.report.choosing import filled
from headrace.lab.report.compared import MEMORY, SHARED_MEMORY, compared
from headrace.lab.report.page import page
from headrace.lab.results.folder import RunFolder
from headrace.lab.spec import read_spec
from headrace.lab.who import Who

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


def second_search_raises(monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    whole, count = find_rate, 0

    def find(*arguments: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise failure
        return whole(*arguments, **more)

    monkeypatch.setattr("headrace.lab.measure.find_rate", find)


def test_a_search_that_is_cut_off_keeps_the_systems_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_search_raises(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_spec(read_spec(SPEC), tmp_path)
    found = figures_of(tmp_path)
    assert set(found) == {("one", "count", "sustainable", "rate")}


def test_a_search_that_the_lab_fails_in_is_void_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_search_raises(monkeypatch, ValueError("an offset overflows"))
    said: list[str] = []
    folder = run_spec(read_spec(SPEC + '[systems.three]\nkind = "fake"\n'), tmp_path, said.append)
    rates = {f.system: f for f in folder.summary().figures if f.name == "rate"}
    assert rates["one"].value == pytest.approx(2_000, rel=0.05)
    assert rates["three"].value is not None
    assert rates["two"].value is None
    assert rates["two"].void == "the lab failed: ValueError: an offset overflows"
    assert any("Traceback" in text and "find_rate" in text for text in said)
    (p99,) = (f for f in folder.summary().figures if (f.system, f.name) == ("two", "p99"))
    assert "the lab failed" in p99.void


def test_an_experiment_that_the_lab_fails_in_is_void_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, count = RATED["spike"][0], 0

    def make(*arguments: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            msg = "an offset overflows"
            raise ValueError(msg)
        whole(*arguments)

    monkeypatch.setitem(RATED, "spike", (make, *RATED["spike"][1:]))
    folder = run_spec(read_spec(SPEC + "[spike]\n"), tmp_path)
    spikes = {f.system: f for f in folder.summary().figures if f.experiment == "spike"}
    assert spikes["one"].void == "the lab failed: ValueError: an offset overflows"
    assert not spikes["two"].void


def test_the_command_line_says_where_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(monkeypatch, KeyboardInterrupt(), after=1)
    (tmp_path / "cut.toml").write_text(SPEC)
    status = main(["lab", "run", str(tmp_path / "cut.toml"), "--results", str(tmp_path / "r")])
    (folder,) = (tmp_path / "r").iterdir()
    assert status == 130
    assert f"headrace: interrupted: what was measured is in {folder}" in capsys.readouterr().err


def test_every_probe_of_a_search_is_kept_and_the_queue_of_the_ramp(tmp_path: Path) -> None:
    spec = SPEC.replace("[sustainable]", "[tuning]\nprobe_seconds = 10\n[sustainable]\nramp = true")
    folder = run_spec(read_spec(spec), tmp_path)
    probes = [each for each in folder.summary().probes if each.system == "one"]
    assert {each.experiment for each in probes} == {"tuning", "sustainable"}
    found = [each for each in probes if each.experiment == "sustainable"]
    # After tuning the search begins at what that has found, and needs no ramp.
    assert {each.status for each in found} == {"kept up", "fell behind"}
    for each in found:
        assert each.status == ("kept up" if each.rate <= 2_000 else "fell behind") or (
            each.rate == pytest.approx(2_000, rel=0.06)
        )
        assert bool(each.reason) == (each.status == "fell behind")
    assert found[-1].is_confirmation


def test_the_queue_of_a_ramp_grows_from_the_rate_that_is_too_high(tmp_path: Path) -> None:
    text = SPEC.replace("[sustainable]", "[sustainable]\nramp = true")
    folder = run_spec(read_spec(text), tmp_path)
    first = next(each for each in folder.summary().probes if each.system == "one")
    assert (first.status, first.reason) == ("estimated", "a ramp, which gives an estimate")
    (ramp,) = [s for s in folder.series() if (s.system, s.experiment) == ("one", "ramp")]
    assert not len(ramp.due)  # its results are no figure
    below, above = ramp.queue_rates <= 2_000, ramp.queue_rates > 2_000
    assert ramp.queue_lengths[below].max() <= 1 < ramp.queue_lengths[above].max()
    assert ramp.queue_rates[0] == 1_000


def test_latency_at_shares_of_the_rate_is_that_of_the_fake(tmp_path: Path) -> None:
    """Results leave at multiples of 0.4 s: half of that on average, nearly all of it at the p99."""
    text = SPEC.replace("capacity", "epoch_seconds = 0.4\ndelay_seconds = 0.1\ncapacity")
    text = text.replace("repeats = 3", "repeats = 1\nshare = 0.5\nshares = [0.25, 0.5, 0.9]")
    for series in ("false", "true"):
        told = text.replace("[sustainable]", f"[sustainable]\nin_series = {series}")
        folder = run_spec(read_spec(told), tmp_path)
        values = {f.key[2:]: f.value for f in folder.summary().figures if f.system == "one"}
        rate = values["sustainable", "rate"]
        assert rate is not None
        for share in (0.25, 0.5, 0.9):
            of = f"{share:.0%}"
            assert values["latency by rate", f"rate at {of}"] == pytest.approx(rate * share)
            p50, p99 = (values["latency by rate", f"{each} at {of}"] for each in ("p50", "p99"))
            assert p50 == pytest.approx(0.1 + 0.2, rel=0.05)
            assert p99 == pytest.approx(0.1 + 0.4, rel=0.05)
        assert values["latency", "p99"] == values["latency by rate", "p99 at 50%"]
        assert [s.experiment for s in folder.series() if s.system == "one"] == [
            "sustainable", "latency", "latency at 25%", "latency at 90%",
        ]


def test_latency_at_a_share_is_void_where_the_answer_is_wrong() -> None:
    trial = FakeBench(FakeSettings(drop_every=100)).trial(Load(schedule=Schedule.steady(900, 10)))
    notes = Notes()
    share_figures(notes, Who("fake", "count"), 0.9, 900.0, trial)
    assert [figure.name for figure in notes.figures] == ["rate at 90%", "p50 at 90%", "p99 at 90%"]
    for figure in notes.figures:
        assert figure.value is None and figure.void.startswith("wrong answer")


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (["headrace"], "peak memory"), (["spark", "pyflink"], "peak memory"),
        (["headrace", "spark"], "peak memory with a shared JVM"),
    ],
)
def test_memory_of_systems_in_one_jvm_is_told_as_shared_and_compared_with_nobodys(
    kinds: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.lab.measure.bench_of", lambda _system: FakeBench())
    systems = "".join(f"[systems.{kind}]\n" for kind in kinds)
    spec = f"name = 'memory'\n{systems}[latency]\nrate = 500\nseconds = 10\nrepeats = 1\n"
    folder = run_spec(read_spec(spec), tmp_path)
    found = {f.name for f in folder.summary().figures if f.system == kinds[0] and f.unit == "bytes"}
    assert name in found and len(found & {MEMORY.name, SHARED_MEMORY.name}) == 1
    told = filled("<!-- lab: memory -->\n<!-- lab: end -->\n", folder, "x")
    cell = "**95 MiB**" if name == MEMORY.name else "95 MiB, shared"
    assert f"| `count` | {cell} |" in told
    assert (MEMORY in [each.what for each in compared(folder.summary(), kinds[0])]) == (
        kinds == ["spark", "pyflink"]
    )


def test_a_runner_in_the_labs_own_process_has_no_figure_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to hold half a megabyte: what it added to a process that had loaded Beam."""
    monkeypatch.setattr("headrace.lab.measure.bench_of", lambda _system: FakeBench())
    spec = "[systems.direct]\n[latency]\nrate = 500\nseconds = 10\nrepeats = 1\n"
    figures = run_spec(read_spec(spec), tmp_path).summary().figures
    names = {figure.name for figure in figures if figure.experiment == "cost"}
    assert "cpu" in names and not any("memory" in name for name in names)


def test_a_whole_run_was_not_interrupted(tmp_path: Path) -> None:
    folder = run_spec(read_spec(SPEC), tmp_path)
    assert folder.summary().interrupted == ""
    assert "interrupted" not in page([folder])


def test_of_many_results_every_nth_is_kept() -> None:
    many = 50_001
    trial = Trial(
        system="one", engine="fake", load=Load(schedule=Schedule.steady(10.0, 1.0)),
        verdict=right_so_far(), made=many, due=np.arange(many, dtype=np.float64),
        left=np.arange(many, dtype=np.float64) + 0.5,
        stages={"queue": np.ones(many)},
    )
    notes = Notes()
    notes.keep(Who("one", "count"), "latency", 0, trial)
    (kept,) = notes.kept
    assert kept.trial.due.tolist() == list(range(0, many, 3))
    assert set(kept.trial.latency) == {0.5}
    assert len(kept.trial.stages["queue"]) == len(kept.trial.due) <= MOST_KEPT
