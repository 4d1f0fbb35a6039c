"""Finance: quotes against the average price of the trades before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.oracle import kernels as oracle
from headrace.lab.workload import Row
from headrace.lab.workloads.kernels.finance import WORKLOAD, Bargains
from headrace.lab.workloads.kernels.model import Tick
from headrace.lab.workloads.kernels.settings import FinanceSettings
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, oracle_rows, rows_on_beam

SETTINGS = FinanceSettings(last=2, slice_ms=1_000, partitions=2)
S = 1_000_000
# After 1 and 2 the average of AAA is (100 x 10 + 200 x 30) / 40 = 175; after 6, which arrives too
# early, it is that of the last two, (200 x 30 + 90 x 10) / 40 = 172.5.
TICKS = [
    Tick(0, 0, "AAA", "quote", 1, 100),  # before the first trade
    Tick(1, 1 * S, "AAA", "trade", 100, 10),
    Tick(6, 4 * S, "AAA", "trade", 90, 10),
    Tick(2, 2 * S, "AAA", "trade", 200, 30),
    Tick(3, 2 * S, "AAA", "quote", 170, 4),  # the same time as 2, but a higher number: 5 x 4
    Tick(4, 3 * S, "AAA", "quote", 175, 4),  # no better than the average
    Tick(5, 3 * S, "BBB", "quote", 1, 4),  # nobody traded it
    Tick(7, 5 * S, "AAA", "quote", 172, 1),  # saves half a cent: rounded down to nothing
    Tick(8, 5 * S, "AAA", "quote", 172, 3),  # one and a half
]
ANSWER = [(3, "AAA", 170, 175.0, 20), (8, "AAA", 172, 172.5, 1)]


def test_bargains_are_found_whatever_the_order_of_arrival() -> None:
    times = [tick.time for tick in TICKS]
    assert sorted(rows_on_beam(WORKLOAD, SETTINGS, TICKS, times)) == ANSWER


def test_the_oracle_answers_hand_made_ticks(tmp_path: Path) -> None:
    assert sorted(oracle.finance(logged(TICKS, tmp_path), SETTINGS)) == ANSWER


def naive(last: int, ticks: list[tuple[Any, ...]]) -> list[Row]:
    """Compare every quote with the trades before it."""
    found: list[Row] = []
    for at, (_, number, symbol, kind, price, size) in enumerate(ticks):
        trades = [tick for tick in ticks[:at] if tick[2] == symbol and tick[3] == "trade"][-last:]
        if kind == "quote" and trades:
            shares = sum(trade[5] for trade in trades)
            paid = sum(trade[4] * trade[5] for trade in trades)
            index = (paid - price * shares) * size // shares
            if index >= 1:
                found.append((number, symbol, price, paid / shares, index))
    return found


@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.sampled_from("AB"), st.sampled_from(["trade", "quote"]),
            st.integers(1, 50), st.integers(1, 20),
        ),
        max_size=40,
    ),
    st.integers(0, 40),
)
def test_bargains_are_those_of_a_look_at_every_quote(
    last: int, drawn: list[tuple[str, str, int, int]], cut: int
) -> None:
    ticks: list[tuple[Any, ...]] = [(number, number, *tick) for number, tick in enumerate(drawn)]
    step, known = Bargains(last), {}  # type: ignore[var-annotated]
    assert step(known, ticks[:cut]) + step(known, ticks[cut:]) == naive(last, ticks)


@pytest.mark.parametrize("group", [1, 90])
def test_generated_ticks_give_the_oracles_answer(group: int, tmp_path: Path) -> None:
    settings = FinanceSettings(
        events=3_000, rate=500, out_of_order=group, symbols=20, slice_ms=300, partitions=3
    )
    rows = generated_rows(WORKLOAD, settings)
    assert sorted(rows) == sorted(oracle_rows(WORKLOAD, settings, tmp_path))
    assert len(rows) > 300
