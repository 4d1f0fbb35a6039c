"""What the NEXMark questions share: how a workload is described, kinds of events, times.

Knows no question. A question's pipeline takes records (`model`) in the global window, each with its
event time, and gives plain tuples.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workload import (
    ByColumns,
    Column,
    Kind,
    Mode,
    Refusal,
    Rule,
    Workload,
    all_rows,
)
from headrace.lab.workloads.nexmark.generator import generator
from headrace.lab.workloads.nexmark.model import Bid, Record
from headrace.lab.workloads.nexmark.settings import NexmarkSettings

_ORACLE = "headrace.lab.oracle.nexmark"
_NATIVE = "headrace.lab.native.nexmark"
_1970 = datetime(1970, 1, 1, tzinfo=timezone.utc)

#: The columns of a bid, as several questions answer with bids.
BID_COLUMNS = ("auction", "bidder", "price", "date_time", "extra")
_TEXTS = {"extra", "name", "city", "state", "event", "moment", "message"}


def question(
    name: str,
    title: str,
    columns: tuple[str, ...],
    build: Callable[[Any], Any],
    *,
    answer: str | None = None,
    native: Refusal | None = None,
    rule: Rule = all_rows,
    stateless: bool = False,
    modes: tuple[Mode, ...] = (Mode.BATCH, Mode.STREAMING),
    doubles: tuple[str, ...] = (),
    only_bids: bool = False,
    by_columns: ByColumns | None = None,
) -> Workload:
    """Describe a NEXMark workload.

    `answer` names the function of the oracle and of the native version; it is the workload's own
    name unless the workload is another way to the same answer. `only_bids` says that it looks at
    nothing but bids, so that it can be asked of their columns; `by_columns` is another such form.
    """
    if only_bids:
        by_columns = ByColumns(columns=("bid.*",), build=lambda settings: OfBids(build(settings)))
    function = answer or name.replace("-", "_")
    return Workload(
        suite="nexmark",
        name=name,
        title=title,
        settings=NexmarkSettings,
        generator=generator,
        columns=tuple(Column(c, _kind(c, doubles)) for c in columns),
        build=build,
        oracle=f"{_ORACLE}:{function}",
        native=native or f"{_NATIVE}:{function}",
        rule=rule,
        stateless=stateless,
        modes=modes,
        by_columns=by_columns,
    )


def _kind(column: str, doubles: tuple[str, ...]) -> Kind:
    if column in doubles:
        return Kind.DOUBLE
    return Kind.STRING if column in _TEXTS else Kind.LONG


class OfBids(beam.PTransform):  # type: ignore[misc]
    """Rows of the log's column `bid`, which is null in all other events, to a question's answer."""

    def __init__(self, query: Any) -> None:
        super().__init__()
        self._query = query

    def expand(self, rows: Any) -> Any:
        """Make bids of the rows that are some."""
        return (
            rows
            | "There" >> beam.Filter(is_there)
            | "Bid" >> beam.Map(bid_of).with_output_types(Bid)
            | "Of bids" >> self._query
        )


def is_there(row: Any) -> bool:
    """Whether a row has a bid."""
    return row.auction is not None


def bid_of(row: Any) -> Bid:
    """Make the bid of its columns."""
    return Bid(row.auction, row.bidder, row.price, row.date_time, row.extra)


def is_bid(event: Record) -> bool:
    """Whether an event is a bid."""
    return type(event) is Bid


def at_ms(value: Any, ms: int) -> TimestampedValue:
    """Give a value the time of so many milliseconds since 1970."""
    return TimestampedValue(value, Timestamp(micros=ms * 1_000))


def to_ms(time: Timestamp) -> int:
    """Give whole milliseconds since 1970.

    >>> to_ms(Timestamp(1.5))
    1500
    """
    return int(time.micros // 1_000)


def iso(ms: int) -> str:
    """Write a time as ISO 8601 has it, with milliseconds.

    >>> iso(1436918409999)
    '2015-07-15T00:00:09.999Z'
    """
    # Not fromtimestamp: its float cannot hold every millisecond of the years to come.
    moment = _1970 + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1_000:03d}Z"


def half_up(total: int, count: int) -> int:
    """Give the mean, rounded to the nearest whole number, halves up.

    >>> half_up(5, 2), half_up(7, 3)
    (3, 2)
    """
    return (2 * total + count) // (2 * count)
