"""The events of the application kernels.

All times are microseconds since 1970; `number` is the event's place in the order of arrival.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A line of a server's log."""

    number: int
    time: int
    server: int
    user: int


class Tweet(NamedTuple):
    """A short message; words that begin with # are its hash tags."""

    number: int
    time: int
    author: int
    text: str


class Tick(NamedTuple):
    """A trade that was made, or a quote: an offer to sell."""

    number: int
    time: int
    symbol: str
    kind: str  # TRADE or QUOTE
    price: int  # cents per share
    size: int  # shares


TRADE = "trade"
QUOTE = "quote"


class Edge(NamedTuple):
    """A link between two pages; pages are numbered from 0."""

    number: int
    time: int
    source: int
    target: int
