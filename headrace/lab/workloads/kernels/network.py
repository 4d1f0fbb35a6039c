"""Network monitoring: which users act suspiciously often, on servers where they do so?

Input: `Entry` (number, time, server, user).
Output: one row per fixed window of `window_ms` and suspicious user:

    start_ms  long    start of the window, milliseconds since 1970
    user      long
    servers   long    servers on which the user made `server_threshold` entries or more
    entries   long    the entries on those servers; `user_threshold` or more

Graph: count by server and user, filter, exchange by user, add, filter. The order of entries in a
window does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.generator import NetworkGenerator
from headrace.lab.workloads.kernels.model import Entry
from headrace.lab.workloads.kernels.settings import NetworkSettings
from headrace.lab.workloads.kernels.windows import fixed, start_ms


class Network(beam.PTransform):  # type: ignore[misc]
    """Entries -> rows."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, entries: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        return (
            entries
            | "Windows" >> beam.WindowInto(fixed(settings.window_ms))
            | "Server and user" >> beam.Map(_place).with_output_types(tuple[int, int])
            | "Count there" >> beam.combiners.Count.PerElement()
            | "Suspicious there" >> beam.Filter(_at_least, settings.server_threshold)
            | "By user"
            >> beam.Map(_by_user).with_output_types(tuple[int, tuple[int, int]])
            | "Add" >> beam.CombinePerKey(AddPairs())
            | "Row" >> beam.Map(_row).with_output_types(tuple[int, int, int, int])
            | "Suspicious in all" >> beam.Filter(_entries_at_least, settings.user_threshold)
        )


class AddPairs(beam.CombineFn):  # type: ignore[misc]
    """Adds pairs of numbers, each side for itself."""

    def create_accumulator(self) -> tuple[int, int]:
        """Give nothing."""
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], element: tuple[int, int]) -> tuple[int, int]:
        """Add one pair."""
        return accumulator[0] + element[0], accumulator[1] + element[1]

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Add sums."""
        first = second = 0
        for one, other in accumulators:
            first += one
            second += other
        return first, second

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give the sums."""
        return accumulator


def _place(entry: Entry) -> tuple[int, int]:
    return entry.server, entry.user


def _at_least(counted: tuple[tuple[int, int], int], threshold: int) -> bool:
    return counted[1] >= threshold


def _by_user(counted: tuple[tuple[int, int], int]) -> tuple[int, tuple[int, int]]:
    (_, user), entries = counted
    return user, (1, entries)


def _row(summed: tuple[int, tuple[int, int]], window: Any = beam.DoFn.WindowParam) -> Row:
    user, (servers, entries) = summed
    return start_ms(window), user, servers, entries


def _entries_at_least(row: Row, threshold: int) -> bool:
    return bool(row[3] >= threshold)


WORKLOAD = Workload(
    suite="kernels",
    name="network",
    title="Which users act suspiciously often, on servers where they do so?",
    settings=NetworkSettings,
    generator=NetworkGenerator,
    columns=(
        Column("start_ms", Kind.LONG),
        Column("user", Kind.LONG),
        Column("servers", Kind.LONG),
        Column("entries", Kind.LONG),
    ),
    build=Network,
    oracle="headrace.lab.oracle.kernels:network",
    native="headrace.lab.native.kernels:network",
    by_columns=ByColumns(columns=("server", "user"), build=Network),
)
