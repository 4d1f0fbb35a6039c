"""Answers to the micro benchmarks, from the logged events; see `headrace.lab.oracle.kernels`."""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row


def pardo_chain(log: str, settings: Any) -> list[Row]:
    """Every element, as it came."""
    del settings
    question = "SELECT number, nanos // 1000, value FROM read_parquet($log)"
    return ask(question, values={"log": log})


def group_by_key(log: str, settings: Any) -> list[Row]:
    """Every element once for each window that it is in."""
    question = """
        WITH placed AS (
            SELECT *, nanos // 1000000 AS ms FROM read_parquet($log)
        ),
        assigned AS (  -- starts are multiples of the slide, the last at or before the element
            SELECT *,
                unnest(generate_series(ms // $slide * $slide, ms - $size, -$slide)) AS start_ms
            FROM placed
        )
        SELECT start_ms, number % $keys, number, value
        FROM assigned WHERE ms < start_ms + $size
    """
    parameters = {
        "log": log,
        "slide": settings.slide_ms,
        "size": settings.window_ms,
        "keys": settings.keys,
    }
    return ask(question, values=parameters)
