"""Answers to the NEXMark questions, from the logged events.

Every function takes a glob of Parquet files and the settings (read by attribute), and gives the
rows that a run over those events must give, in any order. All are batch definitions: the whole log
is known, windows that are still open after the last event are answered too, and nothing is late.

Where a streaming run may rightly differ from that, the function says so. Two things hold for all:

* an event that arrives behind the watermark is dropped by a run and counted here, so a log with
  such events (delayed ones, annotated `LATE`) has no exact answer;
* *winning bids* (q4, q6, q9): a run keeps a bid whose auction is not known yet for a while only,
  two times the mean length of an auction. Bids come at most 197 events before their auction, so
  nothing is lost unless `num_in_flight_auctions` is 5 or less, or parallel generators put an
  auction much later than the bids on it (a part that lasts longer than that while: with the
  default settings more than 3,333 events per generator). Then a run has fewer or lower winning
  bids; a batch run never does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.lab.oracle.nexmark_tables import WINNING, ask, spans
from headrace.lab.oracle.nexmark_thesis import (
    q4_thesis,
    q5_thesis,
    q6_thesis,
    q7_thesis,
    q9_thesis,
    q12_thesis,
)
from headrace.lab.workload import Row

__all__ = [
    "q0", "q1", "q2", "q3", "q4", "q4_thesis", "q5", "q5_thesis", "q6", "q6_thesis", "q7",
    "q7_thesis", "q8", "q9", "q9_thesis", "q10", "q11", "q12", "q12_thesis", "q13", "q14", "q15",
    "q16",
]

_STATES = ("OR", "ID", "CA")

_ISO = "strftime(make_timestamp(({ms}) * 1000), '%Y-%m-%dT%H:%M:%S.%gZ')"

_SESSIONS = """
    marked AS (
        SELECT *, date_time - lag(date_time) OVER w < $gap AS joins
        FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY date_time, number)
    ),
    numbered AS (
        SELECT *, count(*) FILTER (joins IS NOT TRUE) OVER (
            PARTITION BY bidder ORDER BY date_time, number
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS session
        FROM marked
    )
"""


def q0(log: str, settings: Any) -> list[Row]:
    """Every event, as JSON text."""
    del settings
    return ask(log, """
        SELECT CASE kind
            WHEN 0 THEN to_json({
                'id': person.id, 'name': person.name, 'emailAddress': person.email_address,
                'creditCard': person.credit_card, 'city': person.city, 'state': person.state,
                'dateTime': person.date_time, 'extra': person.extra})
            WHEN 1 THEN to_json({
                'id': auction.id, 'itemName': auction.item_name,
                'description': auction.description, 'initialBid': auction.initial_bid,
                'reserve': auction.reserve, 'dateTime': auction.date_time,
                'expires': auction.expires, 'seller': auction.seller,
                'category': auction.category, 'extra': auction.extra})
            ELSE to_json({
                'auction': bid.auction, 'bidder': bid.bidder, 'price': bid.price,
                'dateTime': bid.date_time, 'extra': bid.extra})
        END::VARCHAR FROM event
    """)


def q1(log: str, settings: Any) -> list[Row]:
    """Every bid with its price in another currency, cut to whole cents."""
    del settings
    return ask(log, "SELECT auction, bidder, price * 89 // 100, date_time, extra FROM bid")


def q2(log: str, settings: Any) -> list[Row]:
    """Auction and price of the bids on every so-many-th auction."""
    return ask(
        log,
        "SELECT auction, price FROM bid WHERE auction % $skip = 0",
        skip=settings.auction_skip,
    )


def q3(log: str, settings: Any) -> list[Row]:
    """Who sells in category 10 and lives in Oregon, Idaho or California.

    A seller of whom nothing was heard for `max_auctions_waiting_time` is forgotten: the person and
    the auctions that wait for one. The answer takes the events in the order of their times, equal
    ones in the order of the log, and lets the watermark follow each. A run whose watermark moves in
    larger steps forgets later, so it may find more pairs; in batch a timer fires only at the end.
    They are equal where no seller is silent that long between two events: always, with the
    generator's events, above some 84 events per second.
    """
    rows = ask(log, """
        SELECT seller AS key, date_time AS time, number, NULL AS name, NULL AS city,
               NULL AS state, id AS auction
        FROM auction WHERE category = 10
        UNION ALL
        SELECT id, date_time, number, name, city, state, NULL FROM person
        ORDER BY time, number
    """)
    people = (row for row in rows if row[6] is not None or row[5] in _STATES)
    return list(_suggestions(people, settings.max_auctions_waiting_time * 1_000))


def _suggestions(rows: Iterable[Row], patience_ms: int) -> Iterable[Row]:
    """Join sellers with auctions (key, time, number, name, city, state, auction or None)."""
    people: dict[int, Row] = {}
    waiting: dict[int, list[int]] = {}
    forget_at: dict[int, int] = {}
    for key, time, _, *person, auction in rows:
        if forget_at.get(key, time + 1) <= time:
            people.pop(key, None)
            waiting.pop(key, None)
        forget_at[key] = time + patience_ms
        if auction is None:
            if key not in people:  # a second person of the same id is an error, and ignored
                people[key] = tuple(person)
                yield from ((*person, early) for early in waiting.pop(key, ()))
        elif key in people:
            yield (*people[key], auction)
        else:
            waiting.setdefault(key, []).append(auction)


def q4(log: str, settings: Any) -> list[Row]:
    """The mean winning price per category, in sliding windows of the last moment of the auction."""
    return ask(log, f"""
        WITH {WINNING},
        placed AS (
            SELECT category, price, expires - 1 AS time,
                   unnest(range(time - time % $period, time - $size, -$period)) AS window_start
            FROM winning
        )
        SELECT window_start, category, floor(sum(price)::DOUBLE / count(*) + 0.5)::BIGINT
        FROM placed GROUP BY ALL
    """, **spans(settings))


def q5(log: str, settings: Any) -> list[Row]:
    """The auctions with the most bids of each sliding window, and how many they have."""
    return ask(log, """
        WITH placed AS (
            SELECT auction, unnest(
                range(date_time - date_time % $period, date_time - $size, -$period)
            ) AS window_start
            FROM bid
        ),
        counted AS (SELECT window_start, auction, count(*) AS num FROM placed GROUP BY ALL)
        SELECT * FROM counted QUALIFY num = max(num) OVER (PARTITION BY window_start)
    """, **spans(settings))


def q6(log: str, settings: Any) -> list[Row]:
    """The last value for each seller: mean of the ten latest winning bids, and how many there were.

    A run gives a row at every change; only the one with the most wins is determined. "Latest" goes
    by the time of the bid, then by its price.
    """
    del settings
    return ask(log, f"""
        WITH {WINNING},
        ranked AS (
            SELECT seller, price, count(*) OVER (PARTITION BY seller) AS wins,
                   row_number() OVER (
                       PARTITION BY seller ORDER BY bid_time DESC, price DESC) AS place
            FROM winning
        )
        SELECT seller, floor(sum(price)::DOUBLE / count(*) + 0.5)::BIGINT, any_value(wins)
        FROM ranked WHERE place <= 10 GROUP BY seller
    """)


def q7(log: str, settings: Any) -> list[Row]:
    """All bids with the highest price of their fixed window."""
    return ask(log, """
        SELECT date_time - date_time % $size AS window_start,
               auction, bidder, price, date_time, extra
        FROM bid QUALIFY price = max(price) OVER (PARTITION BY date_time - date_time % $size)
    """, **spans(settings))


def q8(log: str, settings: Any) -> list[Row]:
    """The people who opened an auction in the same fixed window in which they came, per auction."""
    return ask(log, """
        SELECT p.id, p.name, a.reserve FROM person p JOIN auction a
        ON a.seller = p.id AND a.date_time // $size = p.date_time // $size
    """, **spans(settings))


def q9(log: str, settings: Any) -> list[Row]:
    """The winning bid of each auction.

    Of two bids on one auction at the same price in the same millisecond Beam lets either win; here
    it is the bidder with the lower number.
    """
    del settings
    return ask(log, f"WITH {WINNING} SELECT auction, bidder, price, bid_time, expires FROM winning")


def q10(log: str, settings: Any) -> list[Row]:
    """The last moment of each fixed window that has events, and the message that it is written."""
    moment = _ISO.format(ms="coalesce(person.date_time, auction.date_time, bid.date_time)"
                            " // $size * $size + $size - 1")
    return ask(log, f"""
        SELECT DISTINCT {moment} AS moment, 'written for timestamp ' || moment FROM event
    """, **spans(settings))


def q11(log: str, settings: Any) -> list[Row]:
    """The sessions of each bidder: how many bids, first moment, end.

    A run may give a session in several parts; they add up to the count given here.
    """
    return ask(log, f"""
        WITH {_SESSIONS}
        SELECT bidder, count(*), min(date_time), max(date_time) + $gap
        FROM numbered GROUP BY bidder, session
    """, gap=settings.window_size_sec * 1_000)


def q12(log: str, settings: Any) -> list[Row]:
    """How many bids each bidder has in all.

    Windows in processing time are not determined; what a run gives adds up to these.
    """
    del settings
    return ask(log, "SELECT bidder, count(*) FROM bid GROUP BY bidder")


def q13(log: str, settings: Any) -> list[Row]:
    """Every bid, with the text that the side table has for its bidder."""
    return ask(log, """
        SELECT auction, bidder, price, date_time, (bidder % $rows)::VARCHAR FROM bid
    """, rows=settings.side_input_row_count)


def q14(log: str, settings: Any) -> list[Row]:
    """Every bid, with the side table's text for its bidder and the bounds of its session."""
    first, last = _ISO.format(ms="min(date_time) OVER s"), _ISO.format(
        ms="max(date_time) OVER s + $gap")
    return ask(log, f"""
        WITH {_SESSIONS}
        SELECT auction, bidder, price, date_time,
               concat_ws(':', (bidder % $rows)::VARCHAR, {first}, {last})
        FROM numbered WINDOW s AS (PARTITION BY bidder, session)
    """, rows=settings.side_input_row_count, gap=settings.session_gap_sec * 1_000)


def q15(log: str, settings: Any) -> list[Row]:
    """Every event, as JSON text: grouping by random keys and back changes nothing."""
    return q0(log, settings)


def q16(log: str, settings: Any) -> list[Row]:
    """Every event, as JSON text: a reshuffle changes nothing."""
    return q0(log, settings)
