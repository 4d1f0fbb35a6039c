"""How many records of its address have come, up to and with each record?

Input:  str, the line of a record; the element's timestamp is the record's.
Output: (ip: str, time: int in ms since 1970, count: int), one for each record as it arrives.

Which record of an address gets which count depends on the order of arrival, and Beam promises
none. What holds in any order is compared: every record comes out once, with its time, and the
counts of an address are 1, 2, 3 and so on, each once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.hibench.generator import HiBenchGenerator
from headrace.lab.workloads.hibench.model import fields_of, ip_and_time
from headrace.lab.workloads.hibench.settings import Settings

SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())
_SEEN = beam.DoFn.StateParam(SEEN)


class RollingCount(beam.DoFn):  # type: ignore[misc]
    """Counts the records of an address over the whole stream."""

    def process(
        self, keyed: tuple[str, int], seen: Any = _SEEN
    ) -> Iterator[tuple[str, int, int]]:
        """Count one record and give the count."""
        count = (seen.read() or 0) + 1
        seen.write(count)
        yield keyed[0], keyed[1], count


class CountByIp(beam.PTransform):  # type: ignore[misc]
    """The pipeline: key by address, count."""

    def expand(self, lines: Any) -> Any:
        """Build the steps."""
        count = beam.ParDo(RollingCount()).with_output_types(tuple[str, int, int])
        return self._addresses(lines) | "Count" >> count

    def _addresses(self, lines: Any) -> Any:
        return lines | "Address and time" >> beam.Map(ip_and_time).with_output_types(
            tuple[str, int]
        )


class CountRowsByIp(CountByIp):
    """The same pipeline from rows that have the fields of a record: nothing is left to split."""

    def _addresses(self, rows: Any) -> Any:
        return rows | "Address and time" >> beam.Map(fields_of).with_output_types(tuple[str, int])


def build(settings: Settings) -> Any:
    """Give the pipeline."""
    return CountByIp()


def times_and_counts(rows: Iterable[Row]) -> Counter[Row]:
    """Compare, for each address, the times that came and the counts that came."""
    facts: Counter[Row] = Counter()
    for ip, time, count in rows:
        facts[(ip, "time", time)] += 1
        facts[(ip, "count", count)] += 1
    return facts


WORKLOAD = Workload(
    suite="hibench",
    name="wordcount",
    title="How many records of its address have come, up to and with each record?",
    settings=Settings,
    generator=HiBenchGenerator,
    columns=(
        Column("ip", Kind.STRING),
        Column("time", Kind.LONG),
        Column("count", Kind.LONG),
    ),
    build=build,
    oracle="headrace.lab.oracle.hibench:wordcount",
    native="headrace.lab.native.hibench:wordcount",
    rule=times_and_counts,
    by_columns=ByColumns(
        columns=("ip", "timestamp"), build=lambda _settings: CountRowsByIp(),
        native="headrace.lab.native.hibench:wordcount_of_columns",
    ),
)
