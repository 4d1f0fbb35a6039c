"""Decides from where to where a topic is read. Pure: takes what a user gave, gives Spark's options.

A position is `"earliest"`, `"latest"`, a time, or offsets by topic and partition.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.utils.timestamp import Timestamp

from headrace.errors import OptionError

#: Spark's numbers for the two ends of a partition.
_ENDS = {"earliest": -2, "latest": -1}
#: Where a consumer begins that has committed nothing: Kafka's words.
RESETS = ("earliest", "latest", "none")
#: Offsets by topic and partition, as Spark's log has them.
Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Which topics are read: exactly one of the two."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    @classmethod
    def of(cls, topics: str | Sequence[str] | None, pattern: str | None) -> Topics:
        """Read what a user gave."""
        names = (topics,) if isinstance(topics, str) else tuple(topics or ())
        if bool(names) == bool(pattern):
            msg = "ReadFromKafka: give exactly one of topics and pattern"
            raise OptionError(msg)
        if not all(isinstance(name, str) and name for name in names):
            msg = f"ReadFromKafka: topics={topics!r} holds what is no name of a topic"
            raise OptionError(msg)
        return cls(names=names, pattern=pattern or "")

    def options(self) -> dict[str, str]:
        """Give Spark's option."""
        if self.pattern:
            return {"subscribePattern": self.pattern}
        return {"subscribe": ",".join(self.names)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStart:
    """A new pipeline begins where a consumer group stands, as a consumer of Kafka's own would."""

    group: str
    otherwise: str  # where it has committed nothing: one of RESETS

    def __post_init__(self) -> None:
        if self.otherwise not in RESETS:
            msg = f"auto.offset.reset={self.otherwise!r} is none of {', '.join(RESETS)}"
            raise OptionError(msg)


def start_options(start: Any) -> dict[str, str]:
    """Give Spark's options for where a read begins.

    >>> start_options("earliest")
    {'startingOffsets': 'earliest'}
    >>> start_options({"t": {0: 5, 1: "earliest"}})
    {'startingOffsets': '{"t": {"0": 5, "1": -2}}'}
    """
    if isinstance(start, GroupStart):
        start = "earliest" if start.otherwise == "earliest" else "latest"
    millis = _millis(start)
    if millis is not None:
        # A partition without a message of that time or later begins with its next one.
        return {
            "startingTimestamp": str(millis),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    return {"startingOffsets": _position("start", start)}


def end_options(end: Any) -> dict[str, str]:
    """Give Spark's options for where a bounded read ends; that message is not read any more."""
    millis = _millis(end)
    if millis is not None:
        return {"endingTimestamp": str(millis)}
    if end == "earliest":
        msg = 'ReadFromKafka: end="earliest" reads nothing; give "latest", a time or offsets'
        raise OptionError(msg)
    return {"endingOffsets": _position("end", end)}


def partitions_in(position: Any) -> tuple[str, ...]:
    """Give the names of all partitions that a position of Spark's log speaks of.

    >>> partitions_in({"b": {"0": 7}, "a": {"1": 0, "0": 3}})
    ('a-0', 'a-1', 'b-0')
    """
    return tuple(
        sorted(f"{topic}-{part}" for topic, parts in offsets_in(position).items() for part in parts)
    )


def offsets_in(position: Any) -> Offsets:
    """Give the offsets of a position of Spark's log; none if it is no position of Kafka's."""
    if not isinstance(position, dict):
        return {}
    found: dict[str, dict[int, int]] = {}
    for topic, parts in position.items():
        if not isinstance(parts, dict):
            return {}
        try:
            found[topic] = {int(part): int(offset) for part, offset in parts.items()}
        except (TypeError, ValueError):
            return {}
    return found


def _position(what: str, given: Any) -> str:
    if isinstance(given, str) and given in _ENDS:
        return given
    if isinstance(given, Mapping) and given:
        found: dict[str, dict[str, int]] = {}
        for topic, parts in given.items():
            if not isinstance(parts, Mapping):
                break
            found[str(topic)] = {str(part): _offset(what, at) for part, at in parts.items()}
        else:
            return json.dumps(found)
    msg = (
        f"ReadFromKafka: {what}={given!r} is no position: it is 'earliest', 'latest', a time "
        "(datetime, Timestamp or seconds since 1970) or offsets, {'topic': {0: 17, 1: 'earliest'}}"
    )
    raise OptionError(msg)


def _offset(what: str, given: Any) -> int:
    if isinstance(given, str) and given in _ENDS:
        return _ENDS[given]
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    msg = f"ReadFromKafka: {what} has the offset {given!r}; it is a number of 0 or more"
    raise OptionError(msg)


def _millis(given: Any) -> int | None:
    if isinstance(given, Timestamp):
        return int(given.micros) // 1000
    if isinstance(given, datetime.datetime):
        if given.tzinfo is None:
            msg = f"ReadFromKafka: {given!r} has no time zone, and so is no instant"
            raise OptionError(msg)
        return round(given.timestamp() * 1000)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return round(given * 1000)
    return None
