"""What the events of the windowed aggregation and join say."""

from __future__ import annotations

from typing import NamedTuple


class Event(NamedTuple):
    """A session of a game, at a place."""

    time: int  # microseconds since 1970
    key: int  # the place
    value: int  # how long the session was
    stream: int  # 0, or 1 for the second stream of the join
