"""What a record of the HiBench streaming suite looks like.

A record arrives as one line of ten fields:

    timestamp,ip,session_id,date,float,user_agent,code3,code5,word,int

Pipelines read the first two; the others are there to be carried.
"""

from __future__ import annotations

from typing import Any

FIELDS = 10
SESSION_LETTERS = 54
#: The fields after the date, the same in every record.
REST = "0.42,Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101,CHE,CHE-D,headrace,7"


def ip_and_time(line: str) -> tuple[str, int]:
    """Read the two fields that pipelines use.

    >>> ip_and_time("1436918400000,10.0.0.1,abc,2015-07-15,0.42,agent,CHE,CHE-D,word,7")
    ('10.0.0.1', 1436918400000)

    Raises:
        ValueError: the line has fewer than three fields, or its first is no whole number.
    """
    time, ip, _ = line.split(",", 2)
    return ip, int(time)


def fields_of(row: Any) -> tuple[str, int]:
    """Keep what pipelines use of a record that came as columns."""
    return row.ip, row.timestamp


def event_time(line: str) -> int:
    """Read the first field.

    >>> event_time("1436918400000,10.0.0.1,abc")
    1436918400000
    """
    return int(line[: line.index(",")])
