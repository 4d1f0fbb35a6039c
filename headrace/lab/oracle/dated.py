"""Right answers with their dates, where a row does not say when its inputs were.

Each function is the one of that name in the oracle of the suite with one more column: the latest
event time among the inputs of the row, in milliseconds since 1970. Equal rows may have several
dates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.lab.oracle import nexmark
from headrace.lab.oracle.duck import ask
from headrace.lab.oracle.nexmark_tables import ask as ask_nexmark
from headrace.lab.oracle.nexmark_tables import spans
from headrace.lab.oracle.scaling import stateless as worked
from headrace.lab.workload import Row


def nexmark_q2(log: str, settings: Any) -> list[Row]:
    """Auction and price of the bids on every so-many-th auction."""
    return ask_nexmark(
        log, "SELECT auction, price, date_time FROM bid WHERE auction % $skip = 0",
        skip=settings.auction_skip,
    )


def nexmark_q3(log: str, settings: Any) -> list[Row]:
    """Who sells in category 10 and lives in three states: the later of person and auction."""
    opened: dict[int, int] = dict(ask_nexmark(log, """
        SELECT a.id, greatest(a.date_time, p.date_time)
        FROM auction a JOIN person p ON a.seller = p.id
    """))
    return [(*row, opened[row[3]]) for row in nexmark.q3(log, settings)]


def nexmark_q8(log: str, settings: Any) -> list[Row]:
    """Who opened an auction in the window in which they came: the later of both."""
    return ask_nexmark(log, """
        SELECT p.id, p.name, a.reserve, greatest(a.date_time, p.date_time)
        FROM person p JOIN auction a
        ON a.seller = p.id AND a.date_time // $size = p.date_time // $size
    """, **spans(settings))


def windowed_join(log: str, settings: Any) -> list[Row]:
    """Every pair of events that meet in a window: the later of both."""
    return ask("""
        WITH in_windows AS (
            SELECT "key", "value", stream, ms, ms - ms % $slide - back * $slide AS window_start
            FROM (SELECT *, nanos // 1000000 AS ms FROM read_parquet($log)),
                 range(0, ($size + $slide - 1) // $slide) AS earlier(back)
            WHERE ms - ms % $slide - back * $slide > ms - $size
        )
        SELECT "key", window_start, greatest(a."value", b."value"), abs(a."value" - b."value"),
               greatest(a.ms, b.ms)
        FROM in_windows AS a JOIN in_windows AS b USING ("key", window_start)
        WHERE a.stream = 0 AND b.stream = 1
    """, values={
        "log": log, "size": settings.window_size_sec * 1_000, "slide": settings.slide_sec * 1_000,
    })


def kernels_twitter_nlp(log: str, settings: Any) -> list[Row]:
    """Every tweet's words: the tweet."""
    from headrace.lab.oracle.kernels import twitter_nlp

    at = _times(log)
    return [(*row, at[row[0]]) for row in twitter_nlp(log, settings)]


def scaling_stateless(log: str, settings: Any) -> list[Row]:
    """Every element that was worked on: the element."""
    at = _times(log)
    return [(*row, at[row[0]]) for row in worked(log, settings)]


def _times(log: str) -> dict[int, int]:
    asked = "SELECT number, nanos // 1000000 FROM read_parquet($log)"
    return {number: time for number, time in ask(asked, values={"log": log})}


#: Question -> its right answer with dates.
DATED: Mapping[str, Callable[[str, Any], list[Row]]] = {
    "nexmark:q2": nexmark_q2, "nexmark:q3": nexmark_q3, "nexmark:q8": nexmark_q8,
    "windowed:join": windowed_join, "kernels:twitter_nlp": kernels_twitter_nlp,
    "scaling:stateless": scaling_stateless,
}
