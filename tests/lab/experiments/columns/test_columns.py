"""The benchmark of columns runs, and its two ways give one answer."""

from __future__ import annotations

import pytest

from headrace.lab.experiments.columns.cases import CASES
from headrace.lab.experiments.columns.command import compared


@pytest.mark.parametrize("name", CASES)
def test_columns_and_objects_give_the_same_rows(name: str) -> None:
    assert compared(name, rows=5_000, rounds=1).same
