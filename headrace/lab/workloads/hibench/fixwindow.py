"""How many records has each address in every window of ten seconds, and when was the first?

Input:  str, the line of a record; the element's timestamp is the record's.
Output: (ip: str, window_start: int, min_time: int, count: int), times in ms since 1970, at the
        window's end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.lab.workload import ByColumns, Column, Kind, Workload
from headrace.lab.workloads.hibench.generator import HiBenchGenerator
from headrace.lab.workloads.hibench.model import fields_of, ip_and_time
from headrace.lab.workloads.hibench.settings import Settings

#: Later than any time that a record can have.
_NEVER_MS = 2**62


class FirstAndCount(beam.CombineFn):  # type: ignore[misc]
    """The smallest of some times, and how many there are."""

    def create_accumulator(self) -> tuple[int, int]:
        """Nothing yet."""
        return _NEVER_MS, 0

    def add_input(self, accumulator: tuple[int, int], time: int) -> tuple[int, int]:
        """Take one time."""
        first, count = accumulator
        return (time if time < first else first), count + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Take several at once."""
        first, count = _NEVER_MS, 0
        for other, more in accumulators:
            first = min(first, other)
            count += more
        return first, count

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        """Give (smallest, how many)."""
        return accumulator


def row(
    found: tuple[str, tuple[int, int]], window: Any = beam.DoFn.WindowParam
) -> tuple[str, int, int, int]:
    """Write an answer with the window it belongs to."""
    ip, (first, count) = found
    return ip, window.start.micros // 1_000, first, count


class CountByWindow(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key by address, window, combine."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, lines: Any) -> Any:
        """Build the steps."""
        combine = beam.CombinePerKey(FirstAndCount())
        return (
            self._addresses(lines)
            | "Windows" >> beam.WindowInto(FixedWindows(self._settings.window_size_sec))
            | "Combine" >> combine.with_output_types(tuple[str, tuple[int, int]])
            | "Rows" >> beam.Map(row).with_output_types(tuple[str, int, int, int])
        )


    def _addresses(self, lines: Any) -> Any:
        return lines | "Address and time" >> beam.Map(ip_and_time).with_output_types(
            tuple[str, int]
        )


class CountRowsByWindow(CountByWindow):
    """The same pipeline from rows that have the fields of a record: nothing is left to split."""

    def _addresses(self, rows: Any) -> Any:
        return rows | "Address and time" >> beam.Map(fields_of).with_output_types(tuple[str, int])


WORKLOAD = Workload(
    suite="hibench",
    name="fixwindow",
    title="How many records has each address in every ten seconds, and when was the first?",
    settings=Settings,
    generator=HiBenchGenerator,
    columns=(
        Column("ip", Kind.STRING),
        Column("window_start", Kind.LONG),
        Column("min_time", Kind.LONG),
        Column("count", Kind.LONG),
    ),
    build=CountByWindow,
    oracle="headrace.lab.oracle.hibench:fixwindow",
    native="headrace.lab.native.hibench:fixwindow",
    by_columns=ByColumns(
        columns=("ip", "timestamp"), build=CountRowsByWindow,
        native="headrace.lab.native.hibench:fixwindow_of_columns",
    ),
)
