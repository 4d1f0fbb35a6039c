"""NEXMark 3, local item suggestion: who sells in category 10 and lives in OR, ID or CA?

Takes persons, auctions and bids. Gives (name, city, state, id): the seller, and the number of the
auction, a row per auction as soon as both are known.

Per seller there is one cell, and one timer in event time. Every event of the seller sets the timer
anew, `max_auctions_waiting_time` seconds after itself; when it fires, person and waiting auctions
are forgotten. A second person of the same number is an error: counted, not answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workload import ByColumns
from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Auction, Person, Record

STATES = frozenset(("OR", "ID", "CA"))
CATEGORY = 10
Row = tuple[str, str, str, int]


def by_seller(event: Record) -> tuple[tuple[int, tuple[Any, ...]], ...]:
    """Key what matters by the seller: (date_time, name, city, state) or (date_time, auction)."""
    if type(event) is Auction:
        if event.category == CATEGORY:
            return ((event.seller, (event.date_time, event.id)),)
    elif type(event) is Person and event.state in STATES:
        return ((event.id, (event.date_time, event.name, event.city, event.state)),)
    return ()


class Match(beam.DoFn):  # type: ignore[misc]
    """Brings a seller and the seller's auctions together.

    The cell holds (person, waiting): the person's three texts or None, and the numbers of auctions.
    """

    CELL = ReadModifyWriteStateSpec("seller", FastPrimitivesCoder())
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)
    Cell = beam.DoFn.StateParam(CELL)
    Forget = beam.DoFn.TimerParam(FORGET)

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._fatal = Metrics.counter("nexmark", "fatal")

    def process(
        self,
        element: tuple[int, tuple[Any, ...]],
        cell: Any = Cell,
        forget: Any = Forget,
    ) -> Iterator[Row]:
        """Take a person or an auction."""
        date_time, *what = element[1]
        person, waiting = cell.read() or (None, ())
        if len(what) == 1:
            if person is None:
                cell.write((None, (*waiting, what[0])))
            else:
                yield (*person, what[0])
        elif person is None:
            cell.write((tuple(what), ()))
            for auction in waiting:
                yield (*what, auction)
        else:
            self._fatal.inc()
        forget.set(Timestamp(micros=(date_time + self._patience_ms) * 1_000))

    @on_timer(FORGET)  # type: ignore[untyped-decorator]
    def forget(self, cell: Any = Cell) -> None:
        """Forget a seller of whom nothing was heard for long."""
        cell.clear()


class Suggest(beam.PTransform):  # type: ignore[misc]
    """Events to (name, city, state, auction)."""

    def __init__(self, patience_ms: int) -> None:
        super().__init__()
        self._patience_ms = patience_ms

    def expand(self, events: Any) -> Any:
        """Key by seller, then match."""
        return (
            events
            | "BySeller" >> beam.FlatMap(by_seller).with_output_types(tuple[int, Any])
            | "Match" >> beam.ParDo(Match(self._patience_ms)).with_output_types(Row)
        )


#: The columns that the question looks at, of rows that are persons, auctions or bids.
_COLUMNS = (
    "kind", "person.id AS person", "person.date_time AS came", "person.name", "person.city",
    "person.state", "auction.seller", "auction.date_time AS opened", "auction.id AS auction",
    "auction.category",
)


class SuggestOfRows(beam.PTransform):  # type: ignore[misc]
    """The same from rows of these columns."""

    def __init__(self, patience_ms: int) -> None:
        super().__init__()
        self._patience_ms = patience_ms

    def expand(self, rows: Any) -> Any:
        """Take persons and auctions apart, and let both come to their sellers."""
        keyed = tuple[int, Any]
        persons = (
            rows
            | "Near" >> beam.Filter(is_near)
            | "Person" >> beam.Map(person_of).with_output_types(keyed)
        )
        auctions = (
            rows
            | "Wanted" >> beam.Filter(is_wanted)
            | "Auction" >> beam.Map(auction_of).with_output_types(keyed)
        )
        match = beam.ParDo(Match(self._patience_ms)).with_output_types(Row)
        return (persons, auctions) | "Both" >> beam.Flatten() | "Match" >> match


def is_near(row: Any) -> bool:
    """Whether a row is a person of one of the three states."""
    return bool(row.kind == 0 and row.state in ("OR", "ID", "CA"))


def person_of(row: Any) -> tuple[int, tuple[int, str, str, str]]:
    """Give what `by_seller` gives of a person."""
    return row.person, (row.came, row.name, row.city, row.state)


def is_wanted(row: Any) -> bool:
    """Whether a row is an auction of the category."""
    return bool(row.kind == 1 and row.category == CATEGORY)


def auction_of(row: Any) -> tuple[int, tuple[int, int]]:
    """Give what `by_seller` gives of an auction."""
    return row.seller, (row.opened, row.auction)


def build(settings: Any) -> Suggest:
    """Make the pipeline from events to rows."""
    return Suggest(settings.max_auctions_waiting_time * 1_000)


def build_of_rows(settings: Any) -> SuggestOfRows:
    """Make the pipeline from rows of columns."""
    return SuggestOfRows(settings.max_auctions_waiting_time * 1_000)


WORKLOAD = question(
    "q3",
    "Local item suggestion: who sells in category 10 and lives in Oregon, Idaho or California?",
    ("name", "city", "state", "id"),
    build,
    by_columns=ByColumns(columns=_COLUMNS, build=build_of_rows),
)
