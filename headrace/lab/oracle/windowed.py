"""Answers to the windowed questions, from the logged events.

Windows start at multiples of the slide since 1970; an event is in every window that starts at or
before it and ends after it.
"""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row

# Starts in ms: the last one at or before the event, and those a whole number of slides earlier.
_IN_WINDOWS = """
    in_windows AS (
        SELECT "key", "value", stream, ms - ms % $slide - back * $slide AS window_start
        FROM (SELECT *, nanos // 1000000 AS ms FROM read_parquet($log)),
             range(0, ($size + $slide - 1) // $slide) AS earlier(back)
        WHERE ms - ms % $slide - back * $slide > ms - $size
    )
"""


def aggregation(log: str, settings: Any) -> list[Row]:
    """Give (key, window_start, average, count) of every key and window with events."""
    asked = f"""
        WITH {_IN_WINDOWS}
        SELECT "key", window_start, CAST(sum("value") AS DOUBLE) / count(*), count(*)
        FROM in_windows
        GROUP BY "key", window_start
    """
    return _ask(asked, log, settings)


def join(log: str, settings: Any) -> list[Row]:
    """Give (key, window_start, higher, difference) of every pair of events that meet."""
    asked = f"""
        WITH {_IN_WINDOWS}
        SELECT "key", window_start, greatest(a."value", b."value"), abs(a."value" - b."value")
        FROM in_windows AS a JOIN in_windows AS b USING ("key", window_start)
        WHERE a.stream = 0 AND b.stream = 1
    """
    return _ask(asked, log, settings)


def aggregation_by_arrival(log: str, settings: Any) -> list[Row]:
    """Give one row for each key, as if one window had held its events in all their copies.

    When events arrive decides their windows, but every event is in `size / slide` of them.
    """
    copies = settings.window_size_sec // settings.slide_sec
    asked = f"""
        SELECT "key", 0, CAST(sum("value") AS DOUBLE) / count(*), count(*) * {copies}
        FROM read_parquet($log)
        GROUP BY "key"
    """
    return ask(asked, values={"log": log})


def join_by_arrival(log: str, settings: Any) -> list[Row]:
    """Give nothing: the rule keeps the wrong rows of an answer, and there should be none."""
    return []


def _ask(asked: str, log: str, settings: Any) -> list[Row]:
    parameters = {
        "log": log,
        "size": settings.window_size_sec * 1_000,
        "slide": settings.slide_sec * 1_000,
    }
    return ask(asked, values=parameters)
