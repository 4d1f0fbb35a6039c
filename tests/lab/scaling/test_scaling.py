"""The scalability graphs: the work, and three graphs around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.oracle import scaling as oracle
from headrace.lab.workload import Row, Workload
from headrace.lab.workloads import scaling
from headrace.lab.workloads.scaling.model import Item
from headrace.lab.workloads.scaling.settings import ScalingSettings
from headrace.lab.workloads.scaling.work import work_on
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, native_rows, oracle_rows, rows_on_beam

STATELESS, KEYED, SHUFFLE = scaling.WORKLOADS
EVERY = pytest.mark.parametrize("workload", scaling.WORKLOADS, ids=lambda workload: workload.name)
S = 1_000_000
SETTINGS = ScalingSettings(work=1, selectivity=2, groups=2, window_ms=1_000)
# Every second number is chosen: 0, 2, 4 and 6. One multiplication makes 48,271 of 1.
ITEMS = [
    Item(0, 0, 5, 1),
    Item(1, 0, 5, 1_000),
    Item(2, 999_999, 5, 2),
    Item(4, 10, 6, 4),
    Item(6, S, 5, 3),
]
WORKED: list[Row] = [(0, 48_271), (2, 96_542), (4, 193_084), (6, 144_813)]
TOTALS: list[Row] = [(0, 5, 2, 144_813), (0, 6, 1, 193_084), (1_000, 5, 1, 144_813)]
# 144,813 is odd, 193,084 is even. Worked on again, both are cut to 31 bits: 144,813 x 48,271 =
# 6,990,268,323, less 3 x 2**31; 193,084 x 48,271 = 9,320,357,764, less 4 x 2**31.
GROUPS: list[Row] = [
    (0, 0, 1, 1, 730_423_172), (0, 1, 1, 2, 547_817_379), (1_000, 1, 1, 1, 547_817_379)
]
ANSWERS = {"stateless": WORKED, "keyed": TOTALS, "shuffle": GROUPS}


@EVERY
def test_the_graphs_answer_hand_made_events(workload: Workload) -> None:
    rows = rows_on_beam(workload, SETTINGS, ITEMS, [item.time for item in ITEMS])
    assert sorted(rows) == ANSWERS[workload.name]


@EVERY
def test_the_oracles_answer_hand_made_events(workload: Workload, tmp_path: Path) -> None:
    ask = getattr(oracle, workload.name)
    assert sorted(ask(logged(ITEMS, tmp_path), SETTINGS)) == ANSWERS[workload.name]


@given(st.integers(0, 2**31 - 1), st.integers(0, 300))
def test_work_is_a_product_with_a_power_in_31_bits(value: int, times: int) -> None:
    assert work_on(value, times) == value * 48_271**times % 2**31


@EVERY
@pytest.mark.parametrize(
    ("group", "work", "selectivity"), [(1, 16, 1), (60, 0, 3)], ids=["in order", "out of order"]
)
def test_generated_events_give_the_oracles_answer(
    workload: Workload, group: int, work: int, selectivity: int, tmp_path: Path
) -> None:
    settings = ScalingSettings(
        events=3_000, rate=1_000, out_of_order=group, work=work, selectivity=selectivity, keys=100,
        groups=7,
    )
    rows = generated_rows(workload, settings)
    assert sorted(rows) == sorted(oracle_rows(workload, settings, tmp_path))
    # 100 keys or 7 groups in 3 windows; a third of the events does not reach every one of them.
    assert len(rows) >= {"stateless": 3_000 // selectivity, "keyed": 280, "shuffle": 18}[
        workload.name
    ]


@pytest.mark.spark
def test_spark_gives_the_oracles_answers(tmp_path: Path, spark: Any) -> None:
    for workload, work in zip(scaling.WORKLOADS, (0, 5, 3), strict=True):
        settings = ScalingSettings(events=500, rate=200, work=work, selectivity=2, keys=20)
        folder = tmp_path / workload.name
        folder.mkdir()
        expected = sorted(oracle_rows(workload, settings, folder))
        assert sorted(native_rows(workload, settings, folder, spark)) == expected
