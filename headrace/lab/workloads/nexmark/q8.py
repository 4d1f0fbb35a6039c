"""NEXMark 8, monitor new users: who opened an auction soon after coming?

Takes persons, auctions and bids. Gives (id, name, reserve): a person, and the reserve price of an
auction of that person in the same fixed window of `window_size_sec`; a row per auction. The auction
may come before the person. Two persons of one number in a window are an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.lab.workload import ByColumns
from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Auction, Person, Record

Row = tuple[int, str, int]


def by_person(event: Record) -> tuple[tuple[int, str | int], ...]:
    """Key by the person: a text is the person's name, a number is the reserve of an auction."""
    if type(event) is Auction:
        return ((event.seller, event.reserve),)
    if type(event) is Person:
        return ((event.id, event.name),)
    return ()


def rows(group: tuple[int, Iterable[str | int]]) -> Iterator[Row]:
    """Join what one window has for one person.

    >>> list(rows((7, [300, "Kate Noris", 100])))
    [(7, 'Kate Noris', 300), (7, 'Kate Noris', 100)]

    Raises:
        ValueError: there are two persons.
    """
    person, found = group
    names: list[Any] = []
    reserves: list[Any] = []
    for one in found:
        (names if type(one) is str else reserves).append(one)
    if len(names) > 1:
        msg = f"{len(names)} persons have the number {person} in one window"
        raise ValueError(msg)
    for name in names:
        for reserve in reserves:
            yield person, name, reserve


class NewUsers(beam.PTransform):  # type: ignore[misc]
    """Events to (id, name, reserve)."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, events: Any) -> Any:
        """Group persons and auctions by person and window, then join."""
        return (
            events
            | "ByPerson" >> beam.FlatMap(by_person).with_output_types(tuple[int, Any])
            | "Window" >> beam.WindowInto(FixedWindows(self._size_sec))
            | "Meet" >> beam.GroupByKey()
            | "Rows" >> beam.FlatMap(rows).with_output_types(Row)
        )


#: The columns that the question looks at, of rows that are persons, auctions or bids.
_COLUMNS = (
    "kind", "person.id AS person", "person.name", "auction.seller", "auction.reserve",
)


class NewUsersOfRows(beam.PTransform):  # type: ignore[misc]
    """The same from rows of these columns, both sides apart."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, rows: Any) -> Any:
        """Group persons and auctions by person and window, then join."""
        windows = FixedWindows(self._size_sec)
        names = (
            rows
            | "Persons" >> beam.Filter(is_person)
            | "Name" >> beam.Map(name_of).with_output_types(tuple[int, str])
            | "Window of person" >> beam.WindowInto(windows)
        )
        reserves = (
            rows
            | "Auctions" >> beam.Filter(is_auction)
            | "Reserve" >> beam.Map(reserve_of).with_output_types(tuple[int, int])
            | "Window of auction" >> beam.WindowInto(windows)
        )
        return (
            {"names": names, "reserves": reserves}
            | "Meet" >> beam.CoGroupByKey()
            | "Rows" >> beam.FlatMap(rows_of_sides).with_output_types(Row)
        )


def is_person(row: Any) -> bool:
    """Whether a row is a person."""
    return bool(row.kind == 0)


def name_of(row: Any) -> tuple[int, str]:
    """Key a person's name."""
    return row.person, row.name


def is_auction(row: Any) -> bool:
    """Whether a row is an auction."""
    return bool(row.kind == 1)


def reserve_of(row: Any) -> tuple[int, int]:
    """Key an auction's reserve by who sells."""
    return row.seller, row.reserve


def rows_of_sides(group: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[Row]:
    """Join what one window has for one person.

    Raises:
        ValueError: there are two persons.
    """
    person, sides = group
    names = list(sides["names"])
    if len(names) > 1:
        msg = f"{len(names)} persons have the number {person} in one window"
        raise ValueError(msg)
    for name in names:
        for reserve in sides["reserves"]:
            yield person, name, reserve


def build(settings: Any) -> NewUsers:
    """Make the pipeline from events to rows."""
    return NewUsers(settings.window_size_sec)


def build_of_rows(settings: Any) -> NewUsersOfRows:
    """Make the pipeline from rows of columns."""
    return NewUsersOfRows(settings.window_size_sec)


WORKLOAD = question(
    "q8",
    "Monitor new users: who opened an auction soon after coming?",
    ("id", "name", "reserve"),
    build,
    by_columns=ByColumns(columns=_COLUMNS, build=build_of_rows),
)
