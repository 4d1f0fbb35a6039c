"""The spec that `make lab` runs is one."""

from __future__ import annotations

from pathlib import Path

from headrace.lab.measure import search_of
from headrace.lab.spec import read_spec

ROOT = Path(__file__).parents[2]


def test_the_spec_of_make_lab_can_be_read_and_its_search_made() -> None:
    spec = read_spec((ROOT / "examples" / "lab.toml").read_text(encoding="utf-8"))
    assert [system.name for system in spec.systems] == ["headrace", "spark", "pyflink"]
    assert search_of(spec.experiments["sustainable"]).first_rate == 20_000
    assert "examples/lab.toml" in (ROOT / "Makefile").read_text(encoding="utf-8")
