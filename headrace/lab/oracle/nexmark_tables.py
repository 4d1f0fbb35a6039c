"""The logged NEXMark events as SQL tables, and the winning bids that several questions start from.

Takes a glob of Parquet files and a query over the tables `event`, `person`, `auction` and `bid`,
gives rows. Knows nothing of pipelines: every answer is a batch query over the finished log.

`event` is the log as it is. The others have the fields of one kind of record and `number`, the
place in the order of arrival. Times are whole milliseconds since 1970 (`date_time`, `expires`):
what questions go by is the time in the record, which is the time of the event cut to milliseconds.
"""

from __future__ import annotations

from typing import Any

from headrace.lab.oracle import duck
from headrace.lab.workload import Row

_TABLES = """
    CREATE VIEW event AS SELECT * FROM read_parquet('{log}');
    CREATE VIEW person AS SELECT number, unnest(person) FROM event WHERE kind = 0;
    CREATE VIEW auction AS SELECT number, unnest(auction) FROM event WHERE kind = 1;
    CREATE VIEW bid AS SELECT number, unnest(bid) FROM event WHERE kind = 2;
"""

#: The winning bid of each auction that has one: the highest price, among equals the earliest, among
#: those the lowest bidder. A bid counts from before its auction opens until just before it
#: expires, if it reaches the reserve; the initial bid does not matter.
WINNING = """
    winning AS (
        SELECT a.id AS auction, a.category, a.seller, a.expires,
               b.bidder, b.price, b.date_time AS bid_time
        FROM auction a JOIN bid b ON b.auction = a.id
        WHERE b.date_time < a.expires AND b.price >= a.reserve
        QUALIFY row_number() OVER (
            PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder
        ) = 1
    )
"""


def ask(log: str, query: str, **values: int) -> list[Row]:
    """Answer a query over the tables of this module.

    Args:
        log: a glob of Parquet files.
        query: SQL; `$name` stands for a value.
        values: the values by name; those that the query does not use are left out.
    """
    used = {name: value for name, value in values.items() if f"${name}" in query}
    return duck.ask(_TABLES.format(log=log.replace("'", "''")), query, values=used)


def spans(settings: Any) -> dict[str, int]:
    """Give the lengths that questions ask for: `size`, `period`, in milliseconds."""
    return {
        "size": settings.window_size_sec * 1_000,
        "period": settings.window_period_sec * 1_000,
    }
