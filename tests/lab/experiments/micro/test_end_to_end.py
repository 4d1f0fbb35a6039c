"""One small case on Spark and on Beam's runner, through everything the command line uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.lab.ending import Ending
from headrace.lab.experiments.micro.cases import find
from headrace.lab.experiments.micro.measure import measure
from headrace.lab.experiments.micro.runners import FnApi, Headrace
from headrace.lab.meter import PROC
from tests.spark_session import shared_session

pytestmark = pytest.mark.spark


@pytest.fixture(name="spark")
def session() -> Any:
    return shared_session()


def test_a_small_case_is_measured_on_both_systems_with_right_answers(spark: Any) -> None:
    case = replace(find(["group_str"])[0], bar=None)
    figure = measure(
        case, Headrace(2, spark), FnApi(), elements=3_000, repeats=2, reference_repeats=1
    )
    assert [s.system for s in figure.samples] == ["headrace", "FnApiRunner", "headrace"]
    # 3000 numbers on 10000 keys: every one alone; 0 + ... + 2999 = 2999 * 1500.
    answer = {"count": 3_000, "total": 4_498_500, "wrong": 0}
    assert [s.answer for s in figure.samples] == [answer] * 3
    assert figure.verdict is Ending.RIGHT
    assert figure.ours is not None and figure.reference is not None
    if PROC.exists():
        assert figure.peak_worker_bytes is not None
        assert figure.peak_worker_bytes > 50_000_000  # a worker with Beam in memory
        assert figure.ours.cpu_seconds_per_million is not None


def test_a_false_expectation_voids_what_was_really_measured(spark: Any) -> None:
    case = replace(find(["sum_1k"])[0], expected=lambda n: {"count": 7, "total": 0, "wrong": 0})
    figure = measure(
        case, Headrace(2, spark), None, elements=2_000, repeats=1, reference_repeats=1
    )
    assert (figure.verdict, figure.ours) == (Ending.WRONG, None)
    assert "right is {'count': 7" in figure.complaints()[0]
