"""Answers to the NEXMark questions as a master's thesis on Timely asked them, where Beam's differ.

An *epoch* is one second of event time, `[n * 1000 ms, (n + 1) * 1000 ms)` since 1970. The thesis
counts epochs from the first event; the two agree when the first event is on a full second, as it is
unless the wall clock gives the base time.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any

from headrace.lab.oracle.nexmark_tables import WINNING, ask, spans
from headrace.lab.workload import Row

EPOCH_MS = 1_000
GROUP = 10


def q4_thesis(log: str, settings: Any) -> list[Row]:
    """The mean winning price per category, of the auctions that expire in one epoch.

    Reading taken: an auction that expires at `e` belongs to the epoch of its last moment, `e` less
    1 ms, as it does with Beam; the mean is rounded half up as Beam's is: the thesis does not say.
    """
    del settings
    return ask(log, f"""
        WITH {WINNING}
        SELECT (expires - 1) // $epoch * $epoch AS window_start, category,
               floor(sum(price)::DOUBLE / count(*) + 0.5)::BIGINT
        FROM winning GROUP BY ALL
    """, epoch=EPOCH_MS)


def q5_thesis(log: str, settings: Any) -> list[Row]:
    """The auctions with the most bids of each sliding window that starts with the events or later.

    Reading taken: windows of `window_size_sec` epochs every `window_period_sec` epochs; those that
    begin before the epoch of the first event are left out, those that reach past the last are not.
    """
    return ask(log, """
        WITH placed AS (
            SELECT auction, unnest(
                range(date_time - date_time % $period, date_time - $size, -$period)
            ) AS window_start
            FROM bid
        ),
        counted AS (SELECT window_start, auction, count(*) AS num FROM placed GROUP BY ALL)
        SELECT * FROM counted
        WHERE window_start >= (
            SELECT min(coalesce(person.date_time, auction.date_time, bid.date_time))
                   // $epoch * $epoch FROM event)
        QUALIFY num = max(num) OVER (PARTITION BY window_start)
    """, epoch=EPOCH_MS, **spans(settings))


def q6_thesis(log: str, settings: Any) -> list[Row]:
    """The mean price of every full group of ten winning bids of a seller.

    Reading taken: a seller's winning bids are grouped in the order in which their auctions close,
    by auction number where two close at once; the mean is a float; what is left over is not given.
    The first column is the seller (the thesis as printed has the price of the group's first bid).
    """
    del settings
    rows = ask(log, f"""
        WITH {WINNING} SELECT seller, price FROM winning ORDER BY seller, expires, auction
    """)
    means = []
    for seller, wins in groupby(rows, key=itemgetter(0)):
        prices = [price for _, price in wins]
        for end in range(GROUP, len(prices) + 1, GROUP):
            means.append((seller, sum(prices[end - GROUP : end]) / GROUP))
    return means


def q7_thesis(log: str, settings: Any) -> list[Row]:
    """One bid with the highest price of its fixed window, cut to (auction, price, bidder).

    Reading taken: among equal prices the earliest bid, then the lowest auction, then bidder.
    """
    return ask(log, """
        SELECT date_time - date_time % $size AS window_start, auction, price, bidder
        FROM bid QUALIFY row_number() OVER (
            PARTITION BY date_time - date_time % $size
                ORDER BY price DESC, date_time, auction, bidder) = 1
    """, **spans(settings))


def q9_thesis(log: str, settings: Any) -> list[Row]:
    """The highest valid price of each auction that has one."""
    del settings
    return ask(log, f"WITH {WINNING} SELECT auction, price FROM winning")


def q12_thesis(log: str, settings: Any) -> list[Row]:
    """How many bids each bidder has in all.

    The thesis asks for sessions by the wall clock. Which there are is not determined; the bids of
    each bidder's sessions add up to these.
    """
    del settings
    return ask(log, "SELECT bidder, count(*) FROM bid GROUP BY bidder")
