"""The spec that `make lab` runs is one."""

from __future__ import annotations

from pathlib import Path

from headrace.lab.benches import candidates_of
from headrace.lab.live.facts import NAMES
from headrace.lab.searches import search_of, tuning_search
from headrace.lab.spec import QUESTIONS, made, read_spec
from headrace.lab.systems.live import LiveSettings

ROOT = Path(__file__).parents[2]


def test_the_spec_of_make_lab_can_be_read_and_its_search_made() -> None:
    spec = read_spec((ROOT / "examples" / "lab.toml").read_text(encoding="utf-8"))
    assert [system.name for system in spec.systems] == ["headrace", "spark", "direct", "pyflink"]
    assert spec.questions == QUESTIONS
    assert not search_of(spec.experiments["sustainable"]).ramp
    assert spec.experiments["sustainable"].loops_per_second > 0
    for system in spec.systems:
        assert set(system.near) == set(QUESTIONS), "each search is told where it ends"
    assert "examples/lab.toml" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_spec_with_tuning_can_be_read_and_live_systems_know_their_candidates() -> None:
    spec = read_spec((ROOT / "examples" / "lab-best.toml").read_text(encoding="utf-8"))
    bound = spec.experiments["sustainable"].p99_seconds
    assert tuning_search(spec.experiments["tuning"]).p99_seconds == bound > 0
    for system in spec.systems:
        first, *others = candidates_of(system)
        assert first == {} and others
        for settings in others:
            assert made(LiveSettings, dict(settings), system.name) != LiveSettings()


def test_the_spec_of_workloads_can_be_read_and_all_of_them_are_known() -> None:
    spec = read_spec((ROOT / "examples" / "lab-workloads.toml").read_text(encoding="utf-8"))
    assert {system.name for system in spec.systems} == {"headrace", "spark"}
    assert sorted(spec.questions) == sorted(NAMES)
    # A search without a ramp begins where the spec says, for each question that a system is asked.
    assert not search_of(spec.experiments["sustainable"]).ramp
    asked = {"headrace": set(NAMES), "spark": set(NAMES) - {"nexmark:q12"}}
    assert {system.name: set(system.near) for system in spec.systems} == asked
    assert spec.experiments["sustainable"].in_series
    page = (ROOT / "docs" / "guide" / "lab.md").read_text(encoding="utf-8")
    for name in NAMES:
        suite, _, own = name.partition(":")
        assert f"`{name}`" in page or (suite == "nexmark" and f"`{own}`" in page), name
