"""The event of the scalability graphs."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """A number to work on, and a key."""

    number: int  # place in the order of arrival
    time: int  # microseconds since 1970
    key: int
    value: int  # below 2**31
