"""The benchmark of order: every point can be run, and the page shows what was measured."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from headrace.lab.experiments.order import costs
from headrace.lab.experiments.order.cases import CASES, PUBLISHED
from headrace.lab.experiments.order.channels import STRATEGIES, _modelled
from headrace.lab.experiments.order.page import page, svg


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "ELEMENTS", 50)
    monkeypatch.setattr(costs, "FEWEST", 50)
    monkeypatch.setattr(costs, "STREAM_ELEMENTS", 50)


def test_every_point_runs_with_and_without_order_and_stands_on_the_page() -> None:
    found: list[dict[str, Any]] = [costs.by_work(case, 1, 1) for case in CASES]
    found += [costs.by_work(case, 16, 1) for case in ("many",)]
    found += [costs.by_epoch(25, 1, 1), costs.by_selectivity(4, 16, 1)]
    assert all(row["unordered_us"] > 0 and row["ordered_us"] > 0 for row in found)
    text = page(found)
    for row in found:
        assert f"{row['ratio']:.2f}" in text
    for heading in (*CASES, "By length of an epoch", "By selectivity"):
        assert heading in text
    drawn = ElementTree.fromstring(svg(found))
    lines = [e for e in drawn.iter() if e.tag.endswith("polyline")]
    assert len(lines) == len(CASES)


@pytest.mark.parametrize("case", PUBLISHED)
def test_the_model_halves_work_that_dominates(case: str) -> None:
    assert set(STRATEGIES) == set(PUBLISHED)
    seconds = _modelled(case, 1e-3)
    assert 6 <= seconds <= 6.9  # 12,000 elements of a millisecond on two channels
