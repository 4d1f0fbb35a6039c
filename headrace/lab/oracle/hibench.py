"""Answers to the HiBench questions, from the logged records."""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row


def identity(log: str, settings: Any) -> list[Row]:
    """Give (event_time, 0) of every record: when a record leaves is not to be foretold."""
    return _ask('SELECT "timestamp", 0 FROM read_parquet($log)', log=log)


def repartition(log: str, settings: Any) -> list[Row]:
    """Give every record's line."""
    return _ask("SELECT line FROM read_parquet($log)", log=log)


def wordcount(log: str, settings: Any) -> list[Row]:
    """Give (ip, time, count), counted in the order of arrival."""
    asked = """
        SELECT ip, "timestamp", row_number() OVER (PARTITION BY ip ORDER BY number)
        FROM read_parquet($log)
    """
    return _ask(asked, log=log)


def fixwindow(log: str, settings: Any) -> list[Row]:
    """Give (ip, window_start, min_time, count) of every address and window with records."""
    asked = """
        SELECT ip, "timestamp" - "timestamp" % $size AS window_start, min("timestamp"), count(*)
        FROM read_parquet($log)
        GROUP BY ip, window_start
    """
    return _ask(asked, log=log, size=settings.window_size_sec * 1_000)


def _ask(asked: str, **parameters: object) -> list[Row]:
    return ask(asked, values=parameters)
