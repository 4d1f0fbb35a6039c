"""The micro benchmarks: nothing is lost, doubled or changed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.lab.oracle import micro as oracle
from headrace.lab.workloads.micro import group_by_key, pardo_chain
from headrace.lab.workloads.micro.generator import ItemGenerator
from headrace.lab.workloads.micro.model import Item
from headrace.lab.workloads.micro.settings import ChainSettings, GroupSettings
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, native_rows, oracle_rows, rows_on_beam

S = 1_000_000
ITEMS = [Item(0, 5 * S, 70), Item(1, 5 * S + 1, 71), Item(11, 6 * S - 1, 72)]
# Windows of 2 s every 1 s: all three are in those that start at 4 s and at 5 s.
GROUPED = [
    (start, key, number, value)
    for start in (4_000, 5_000)
    for key, number, value in ((0, 0, 70), (1, 1, 71), (1, 11, 72))
]


def test_an_element_is_three_numbers_of_eight_bytes() -> None:
    batch = ItemGenerator(ChainSettings()).batch(0, 1_000)
    named = [batch.column(name) for name in ("number", "nanos", "value")]
    assert sum(column.nbytes for column in named) == 24 * 1_000
    assert max(batch.column("value").to_pylist()) > 2**62


def test_elements_leave_the_chain_as_they_came() -> None:
    rows = rows_on_beam(
        pardo_chain.WORKLOAD, ChainSettings(stages=3), ITEMS, [item.time for item in ITEMS]
    )
    assert sorted(rows) == [tuple(item) for item in ITEMS]
    assert {type(row) for row in rows} == {tuple}


def test_groups_are_split_into_their_elements_once_per_window() -> None:
    rows = rows_on_beam(
        group_by_key.WORKLOAD, GroupSettings(), ITEMS, [item.time for item in ITEMS]
    )
    assert sorted(rows) == GROUPED


def test_the_oracles_answer_hand_made_elements(tmp_path: Path) -> None:
    log = logged(ITEMS, tmp_path)
    assert sorted(oracle.pardo_chain(log, ChainSettings())) == [tuple(item) for item in ITEMS]
    assert sorted(oracle.group_by_key(log, GroupSettings())) == GROUPED


def test_the_oracle_knows_windows_whose_slide_does_not_divide_their_length(tmp_path: Path) -> None:
    # Starts are multiples of 1.5 s: 5.000001 s is in [4.5, 6.5), and [3, 5) is just over.
    log = logged([Item(1, 5 * S + 1, 9)], tmp_path)
    settings = GroupSettings(window_ms=2_000, slide_ms=1_500, keys=1)
    assert oracle.group_by_key(log, settings) == [(4_500, 0, 1, 9)]


@pytest.mark.parametrize("group", [1, 40])
def test_generated_elements_give_the_oracles_answers(group: int, tmp_path: Path) -> None:
    chain = ChainSettings(events=1_000, out_of_order=group)
    rows = generated_rows(pardo_chain.WORKLOAD, chain)
    assert sorted(rows) == sorted(oracle_rows(pardo_chain.WORKLOAD, chain, tmp_path))
    grouping = GroupSettings(
        events=2_000, rate=500, out_of_order=group, window_ms=700, slide_ms=300
    )
    rows = generated_rows(group_by_key.WORKLOAD, grouping)
    assert sorted(rows) == sorted(oracle_rows(group_by_key.WORKLOAD, grouping, tmp_path))
    assert 4_000 < len(rows) < 6_000


def test_windows_with_gaps_are_refused() -> None:
    with pytest.raises(OptionError, match="slide_ms=3 is above window_ms=2"):
        GroupSettings(window_ms=2, slide_ms=3)


@pytest.mark.spark
def test_spark_gives_the_oracles_answers(tmp_path: Path, spark: Any) -> None:
    for workload in (pardo_chain.WORKLOAD, group_by_key.WORKLOAD):
        settings = workload.settings(events=500, rate=100, out_of_order=9)
        folder = tmp_path / workload.name
        folder.mkdir()
        expected = sorted(oracle_rows(workload, settings, folder))
        assert sorted(native_rows(workload, settings, folder, spark)) == expected
