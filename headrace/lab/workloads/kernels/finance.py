"""Finance: which quotes offer a stock below the average price of its last trades?

Input: `Tick` (number, time, symbol, kind, price, size): trades and quotes in one stream.
Output: one row per bargain:

    number  long    of the quote
    symbol  string
    price   long    of the quote, in cents
    vwap    double  the average price in force, in cents
    index   long    what the quote saves against it, in whole cents, rounded down; never 0

The average price (volume-weighted) of a symbol is over its `last` (default 15) trades before the
quote in the order of (time, number), fewer where there are fewer; a quote before the first trade is
no bargain. The index is (average - price) x size of the quote. All sums are of whole numbers, so
the answer is exact.

Graph: exchange by symbol, put in order, average and compare, drop zeros.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import apache_beam as beam

from headrace.lab.workload import Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.generator import FinanceGenerator
from headrace.lab.workloads.kernels.model import TRADE, Tick
from headrace.lab.workloads.kernels.ordered import InOrder
from headrace.lab.workloads.kernels.settings import FinanceSettings


@dataclass(frozen=True, slots=True)
class Bargains:
    """Compares ordered quotes with the trades before them; remembers each symbol's last trades.

    Args:
        last: trades that the average is made of.
    """

    last: int

    def __call__(self, known: dict[Any, Any], ticks: list[tuple[Any, ...]]) -> list[Row]:
        """Take (time, number, symbol, kind, price, size) in order."""
        found: list[Row] = []
        for _, number, symbol, kind, price, size in ticks:
            memory = known.get(symbol)  # [paid in all, shares in all, trades as (paid, shares)]
            if kind == TRADE:
                if memory is None:
                    known[symbol] = memory = [0, 0, deque()]
                self._trade(memory, price * size, size)
            elif memory is not None:
                paid, shares, _ = memory
                index = (paid - price * shares) * size // shares
                if index > 0:
                    found.append((number, symbol, price, paid / shares, index))
        return found

    def _trade(self, memory: list[Any], paid: int, shares: int) -> None:
        trades = memory[2]
        trades.append((paid, shares))
        if len(trades) > self.last:
            oldest_paid, oldest_shares = trades.popleft()
            paid -= oldest_paid
            shares -= oldest_shares
        memory[0] += paid
        memory[1] += shares


class Finance(beam.PTransform):  # type: ignore[misc]
    """Ticks -> rows."""

    def __init__(self, settings: FinanceSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, ticks: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        keyed = tuple[int, tuple[int, int, str, str, int, int]]
        return (
            ticks
            | "By symbol" >> beam.Map(_by_symbol, settings.partitions).with_output_types(keyed)
            | "Bargains" >> InOrder(Bargains(settings.last), settings.slice_ms)
        )


def _by_symbol(
    tick: Tick, partitions: int
) -> tuple[int, tuple[int, int, str, str, int, int]]:
    number, time, symbol, kind, price, size = tick
    # Not hash(): that one differs from process to process.
    return crc32(symbol.encode()) % partitions, (time, number, symbol, kind, price, size)


WORKLOAD = Workload(
    suite="kernels",
    name="finance",
    title="Which quotes offer a stock below the average price of its last trades?",
    settings=FinanceSettings,
    generator=FinanceGenerator,
    columns=(
        Column("number", Kind.LONG),
        Column("symbol", Kind.STRING),
        Column("price", Kind.LONG),
        Column("vwap", Kind.DOUBLE),
        Column("index", Kind.LONG),
    ),
    build=Finance,
    oracle="headrace.lab.oracle.kernels:finance",
    native="headrace.lab.native.kernels:finance",
)
