"""Answers to the scalability graphs, from the logged events; see `headrace.lab.oracle.kernels`.

The work is not repeated but foreseen: multiplying n times by a factor and keeping the low 31 bits
each time is one multiplication by the factor's n-th power, kept to 31 bits.
"""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row

_FIRST = """
    SELECT
        nanos // 1000000 // $window * $window AS start_ms, key, count(*) AS count,
        CAST(sum(value * $factor & 2147483647) AS BIGINT) AS total
    FROM read_parquet($log) WHERE number % $selectivity = 0
    GROUP BY ALL
"""


def stateless(log: str, settings: Any) -> list[Row]:
    """The chosen elements, worked on."""
    question = """
        SELECT number, value * $factor & 2147483647
        FROM read_parquet($log) WHERE number % $selectivity = 0
    """
    parameters = {"log": log, "factor": _factor(settings), "selectivity": settings.selectivity}
    return ask(question, values=parameters)


def keyed(log: str, settings: Any) -> list[Row]:
    """Count and total of each window and key."""
    parameters = {
        "log": log,
        "factor": _factor(settings),
        "selectivity": settings.selectivity,
        "window": settings.window_ms,
    }
    return ask(_FIRST, values=parameters)


def shuffle(log: str, settings: Any) -> list[Row]:
    """Keys, count and total of each window and group of totals."""
    question = f"""
        SELECT
            start_ms, total % $groups AS bucket, count(*), CAST(sum(count) AS BIGINT),
            CAST(sum((total & 2147483647) * $factor & 2147483647) AS BIGINT)
        FROM ({_FIRST}) GROUP BY start_ms, bucket
    """
    parameters = {
        "log": log,
        "factor": _factor(settings),
        "selectivity": settings.selectivity,
        "window": settings.window_ms,
        "groups": settings.groups,
    }
    return ask(question, values=parameters)


def _factor(settings: Any) -> int:
    return pow(48_271, settings.work, 2**31)
