"""What a faster step gives: the profile is held against what is set, and against reruns."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.experiments.causal import causal_profile, gained
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.sustainable import Search, Sustainable, find_rate
from headrace.lab.laboratory import run_spec
from headrace.lab.record.trial import Patience, SeriesBench
from headrace.lab.report.page import page
from headrace.lab.results.folder import RunFolder
from headrace.lab.spec import read_spec

STEPS = (("parse", 0.2), ("count", 0.5), ("write", 0.3))
NAMES = [name for name, _ in STEPS]
SEARCH = Search(
    first_rate=1_000, probe_seconds=30, confirm_seconds=90,
    patience=Patience(acceptable_seconds=0.25, limit_seconds=1),
)


def searched(bench: SeriesBench, first: float | None) -> Sustainable:
    del first
    return find_rate(bench, SEARCH)


def expected(pipelined: bool) -> dict[str, float]:
    # One after the other: half of a step's share is saved. Side by side: only the slowest counts,
    # until the next one (0.3 of 0.5) does.
    if pipelined:
        return {"parse": 0, "count": 0.5 / 0.3 - 1, "write": 0}
    return {name: 1 / (1 - share / 2) - 1 for name, share in STEPS}


@pytest.mark.parametrize("pipelined", [False, True])
def test_the_profile_and_its_reruns_say_what_a_faster_step_gives(pipelined: bool) -> None:
    bench = FakeBench(FakeSettings(capacity=2_000, steps=STEPS, pipelined=pipelined))
    profile = causal_profile(bench, searched, NAMES, times=2.0, precision=SEARCH.precision)
    for found in profile:
        gain = expected(pipelined)[found.step]
        assert found.gain is not None and found.rerun is not None
        assert 1 + found.gain.value == pytest.approx(1 + gain, rel=0.1)
        assert 1 + found.rerun.value == pytest.approx(1 + gain, rel=0.1)
        assert found.gain.low <= gain + 0.02 and gain - 0.02 <= found.gain.high


@given(
    st.floats(1, 50), st.floats(1, 50), st.floats(0, 50), st.sampled_from([1.5, 2.0, 4.0])
)
def test_what_no_step_takes_does_not_spoil_the_profile_of_steps_one_after_the_other(
    step: float, others: float, rest: float, times: float
) -> None:
    """The engine's own time cannot be slowed: the rate of all steps slowed says how much it is."""
    base, slow = step + others + rest, times * (step + others) + rest
    virtual, real = times * others + step + rest, step / times + others + rest
    found = gained(1 / base, 1 / slow, 1 / virtual, times, 0.0)
    assert found is not None
    assert found.value == pytest.approx(base / real - 1, abs=1e-6)


def test_rates_that_do_not_fit_together_are_no_gain() -> None:
    assert gained(100.0, 10.0, 100.0, 2.0, 0.0) is None


def test_a_profile_that_cannot_be_made_is_refused() -> None:
    bench = FakeBench(FakeSettings(steps=STEPS))
    for steps, times, said in (
        (NAMES, 1.0, "no faster"), ([], 2.0, "names of the steps"),
        (["sort"], 2.0, "no step 'sort'"),
    ):
        with pytest.raises(OptionError, match=said):
            causal_profile(bench, searched, steps, times=times, precision=0.02)


SPEC = """
name = "profiled"
[systems.fake]
capacity = 2000
steps = [["parse", 0.2], ["count", 0.5], ["<b>", 0.3]]
[sustainable]
probe_seconds = 12
confirm_seconds = 12
%s
[causal]
steps = ["parse", "count", "<b>"]
"""


@pytest.mark.parametrize("how", ["", "in_series = true"])
def test_a_run_has_the_profile_among_its_figures_and_in_its_report(
    how: str, tmp_path: Path
) -> None:
    heard: list[str] = []
    folder = run_spec(read_spec(SPEC % how), tmp_path, heard.append)
    figures = {figure.name: figure for figure in folder.summary().figures}
    for what in ("predicted", "rerun"):
        value = figures[f"count 2x as fast, {what}"].value
        assert value is not None
        assert 1 + value == pytest.approx(1 / 0.75, rel=0.1)
    assert any("count 2x as fast gives +3" in line for line in heard)
    tried = [each for each in folder.summary().probes if each.experiment == "causal"]
    # As it is, all slowed, and for each step all others slowed and a rerun.
    assert sum(each.status == "kept up" for each in tried) >= 2 + 2 * 3
    assert {each.system for each in tried} == {"fake"}
    text = page([folder])
    start = text.index("What a faster step would give")
    # The one that gives most comes first; names are no markup.
    names = ("count", "&lt;b&gt;", "parse")
    places = [text.index(f"<td>{name} 2x as fast", start) for name in names]
    assert places == sorted(places)


def test_the_profile_of_headrace_that_is_kept_is_within_a_tenth_of_its_reruns() -> None:
    root = Path(__file__).parents[3]
    folder = RunFolder.open(root / "results" / "lab-causal")
    figures = {figure.name: figure.value for figure in folder.summary().figures}
    for step in ("Parse", "Match"):
        predicted, rerun = (
            figures[f"{step} 2x as fast, {what}"] for what in ("predicted", "rerun")
        )
        assert predicted is not None and rerun is not None
        assert 1 + predicted == pytest.approx(1 + rerun, rel=0.1)
    example = (root / "examples" / "lab-causal.toml").read_text(encoding="utf-8")
    assert tomllib.loads(folder.spec()) == tomllib.loads(example)


def test_a_system_whose_steps_are_not_known_has_a_void_profile(tmp_path: Path) -> None:
    text = (SPEC % "").replace('steps = ["parse", "count", "<b>"]', 'steps = ["sort"]')
    folder = run_spec(read_spec(text), tmp_path)
    (void,) = folder.summary().voids
    assert "no step 'sort'" in void.void
    assert "no step &#x27;sort&#x27;" in page([folder])
