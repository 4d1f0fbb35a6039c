"""`ReadFromSpark`: a DataFrame, bounded or streaming, as the start of a pipeline.

Describes the read; the DataFrame itself stays on the driver, where the engine asks for it. The
event time and the partition of a row travel in columns of their own behind those of the row, so
that Spark computes them and a worker finds them by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from apache_beam import pvalue
from apache_beam.transforms import core, window
from pyspark.sql import types as spark

from headrace.errors import ColumnTypeError, OptionError
from headrace.io.recordings import record, recording_seconds
from headrace.io.round_trip import RoundTrip, find_again
from headrace.io.rows import row_class
from headrace.io.watermarks import Monotonic, Policy, policy_of
from headrace.plan.clocks import SourceClock
from headrace.plan.names import (
    PARTITION_COLUMN,
    READ_FROM_SPARK_URN,
    TIME_COLUMN,
    TIME_OR_DROP_COLUMN,
)

#: Seconds that still fit into Beam's time range, which ends in the year 294,247.
_MAX_SECONDS = 9_223_372_036_854

_DAY_MICROS = 86_400_000_000
_MAX_DAYS = _MAX_SECONDS // 86_400

#: What may become of a row without an event time, and the column that says so to the workers.
_BAD_TIMES = {"fail": TIME_COLUMN, "drop": TIME_OR_DROP_COLUMN}

#: Kinds of columns whose values have no text that could name a partition.
_NO_NAMES = (spark.StructType, spark.ArrayType, spark.MapType, spark.BinaryType, spark.VariantType)


class Watcher(Protocol):
    """Somebody who wants to know how far a source is. Never raises."""

    def reached(self, position: Any) -> None:
        """Hear the source's position, in the words of Spark's log, once an epoch counts."""

    def close(self) -> None:
        """Hear that the run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a read asks for beside its rows."""

    streaming: bool
    timestamp: str | None  # the column that gives a row its event time
    partition: str | None  # the column that says from which of the source's partitions a row is
    policy: Policy | None  # None: there is no such column
    names_partitions: bool = False  # Spark's log names all partitions, heard of or not
    watcher: Watcher | None = None  # is told how far the source is

    def clock(self) -> SourceClock:
        """Give the clock of the source before its first row."""
        return SourceClock(by_arrival=True) if self.policy is None else self.policy.clock()


class ReadFromSpark(RoundTrip):
    """Read the rows of a DataFrame.

    Elements are named tuples: `row.price` is the column `price`. They carry a Beam schema, so
    `beam.GroupBy("city")` and `beam.Select("price")` work, and are in the global window. Without
    `timestamp`, rows of a bounded frame have Beam's least timestamp, rows of a streaming one the
    time at which they are read.

    Args:
        frame: a Spark DataFrame. It is not run before the pipeline is.
        columns: the columns to read, in this order; all if not given. Spark reads no others.
        timestamp: the column that gives a row its event time: a timestamp, a date (its midnight in
            UTC), or a number, which is seconds since 1970. It need not be among `columns`.
        watermark: how far out of order the rows of a streaming frame may be: a policy of
            `headrace.io`, or seconds; not at all if not given. A bounded frame does not use it.
        partition: the column that says from which of the source's own partitions a row is. The
            watermark is then the least one of all partitions. It need not be among `columns`.
        bad_times: what becomes of a row whose event time is missing or outside Beam's range:
            "fail" (the pipeline fails, and names the column and the step) or "drop" (the row is
            left out and counted).
    """

    def __init__(
        self,
        frame: Any,
        columns: Sequence[str] | None = None,
        *,
        timestamp: str | None = None,
        watermark: Policy | float | None = None,
        partition: str | None = None,
        bad_times: str = "fail",
    ) -> None:
        super().__init__()
        if bad_times not in _BAD_TIMES:
            known = " or ".join(map(repr, _BAD_TIMES))
            msg = f"ReadFromSpark: bad_times={bad_times!r} is not known; give {known}"
            raise OptionError(msg)
        needs = {
            "watermark": watermark is not None, "partition": partition is not None,
            "bad_times": bad_times != "fail",
        }  # fmt: skip
        if timestamp is None and any(needs.values()):
            given = next(name for name, is_given in needs.items() if is_given)
            msg = f"ReadFromSpark: {given} says nothing without timestamp, the event time's column"
            raise OptionError(msg)
        wanted = list(columns or ()) + [n for n in (timestamp, partition) if n is not None]
        missing = [name for name in wanted if name not in frame.columns]
        if missing:
            there = ", ".join(frame.columns)
            msg = f"ReadFromSpark: no column {missing[0]!r}; there are {there}"
            raise ColumnTypeError(msg)
        policy = None if timestamp is None else policy_of(
            Monotonic() if watermark is None else watermark
        )
        self.read = Read(
            streaming=frame.isStreaming, timestamp=timestamp, partition=partition, policy=policy
        )
        # What stands beside the rows is made from the whole frame, so it comes before the choice.
        beside = []
        if timestamp is not None:
            made = micros_of(timestamp, frame.schema[timestamp].dataType)
            beside.append(f"{made} AS {quoted(_BAD_TIMES[bad_times] + timestamp)}")
        if partition is not None:
            made = _name_of(partition, frame.schema[partition].dataType)
            beside.append(f"{made} AS {quoted(PARTITION_COLUMN + partition)}")
        chosen = frame.schema
        if columns is not None:
            chosen = spark.StructType([frame.schema[name] for name in columns])
        self.row_class = row_class(chosen)
        self._columns = chosen
        self._frame = frame
        if columns is not None or beside:
            self._frame = frame.selectExpr(*map(quoted, chosen.names), *beside)
        self._recorded = False

    def record(self) -> None:
        """Read a recording instead of a stream, as notebooks do; it is made when first asked for.

        What comes is a bounded collection, the same in every run of the pipeline.
        """
        self._recorded = self._recorded or self.read.streaming
        self.read = replace(self.read, streaming=False)

    @property
    def frame(self) -> Any:
        """The DataFrame to read."""
        if self._recorded and self._frame.isStreaming:
            self._frame = record(self._frame, recording_seconds())
        return self._frame

    def expand(self, pbegin: Any) -> Any:
        """Make the collection of rows."""
        if not isinstance(pbegin, pvalue.PBegin):
            msg = "ReadFromSpark starts a pipeline: apply it to the pipeline itself"
            raise TypeError(msg)
        rows = pvalue.PCollection(pbegin.pipeline, is_bounded=not self.read.streaming)
        rows.element_type = self.row_class
        return rows

    def get_windowing(self, unused_inputs: Any) -> Any:
        """Rows begin in the global window."""
        return core.Windowing(window.GlobalWindows())

    def infer_output_type(self, unused_input_type: Any) -> Any:
        """Elements are of the class that was made from the columns."""
        return self.row_class

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        """Describe the read; which DataFrame it is, the transform's full name says.

        The policy stays out: a pipeline may be started again with another one.
        """
        payload = {
            "columns": json.loads(self._columns.json()),
            "timestamp": self.read.timestamp,
            "partition": self.read.partition,
            "streaming": self.read.streaming,
        }
        return READ_FROM_SPARK_URN, json.dumps(payload).encode()


ReadFromSpark.register_urn(READ_FROM_SPARK_URN, None, find_again)


def quoted(name: str) -> str:
    """Back quotes: a dot in a column's name must not be read as a path."""
    return "`" + name.replace("`", "``") + "`"


def micros_of(name: str, kind: spark.DataType) -> str:
    """Give the expression for the event time; its value is missing where there is no such time."""
    column = quoted(name)
    if isinstance(kind, spark.TimestampType):
        most = _MAX_SECONDS * 1_000_000
        made = f"unix_micros({column})"
        return f"CASE WHEN {made} BETWEEN -{most}L AND {most}L THEN {made} END"
    if isinstance(kind, spark.DateType):
        # Not by way of a timestamp: that would be midnight in the session's time zone.
        made = f"unix_date({column})"
        within = f"CASE WHEN {made} BETWEEN -{_MAX_DAYS} AND {_MAX_DAYS} THEN"
        return f"{within} {made} * {_DAY_MICROS}L END"
    within = f"CASE WHEN {column} BETWEEN -{_MAX_SECONDS} AND {_MAX_SECONDS} THEN"
    if isinstance(kind, spark.IntegralType):
        return f"{within} CAST({column} AS bigint) * 1000000L END"
    if isinstance(kind, spark.FractionalType) and not isinstance(kind, spark.DecimalType):
        return f"{within} CAST(round(CAST({column} AS double) * 1e6D) AS bigint) END"
    if isinstance(kind, spark.DecimalType):
        # 14 digits of seconds and 6 of microseconds, so that the product is exact.
        return f"{within} CAST(CAST({column} AS decimal(20, 6)) * 1000000 AS bigint) END"
    remedy = "it must be a timestamp, a date or a number of seconds"
    if isinstance(kind, spark.TimestampNTZType):
        remedy = "it has no time zone; cast it to timestamp, which is an instant"
    msg = f"column {name!r} of type {kind.simpleString()} cannot give the event time: {remedy}"
    raise ColumnTypeError(msg)


def _name_of(name: str, kind: spark.DataType) -> str:
    """Give the expression for the partition: a number as it is, anything else as text."""
    if isinstance(kind, _NO_NAMES):
        msg = (
            f"column {name!r} of type {kind.simpleString()} cannot name a partition: "
            "make a column of text or numbers from it"
        )
        raise ColumnTypeError(msg)
    if isinstance(kind, spark.IntegralType):
        return f"CAST({quoted(name)} AS bigint)"
    return f"CAST({quoted(name)} AS string)"
