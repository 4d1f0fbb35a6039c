"""Yahoo's tables in a Redis server: ads and their campaigns, windows and their counts.

The layout is Yahoo's own, so that its tools read what we write:

    campaigns            set of campaign ids
    <ad id>              campaign id
    <campaign id>        hash: window start in ms -> window id, "windows" -> list id
    <list id>            list of window starts
    <window id>          hash: seen_count, time_updated (ms)

Takes a client of `connect`, knows nothing of Beam. One difference: counts are set, not added to.
A window is written once, when it is complete, and a batch that is repeated after a failure must not
count twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from headrace.errors import OptionError


def connect(address: str) -> Any:
    """Open a client of the server at host:port; texts come back as texts.

    The package `redis` is needed by this option alone, so it is loaded here.

    Raises:
        OptionError: the package is not installed.
    """
    host, _, port = address.rpartition(":")
    try:
        package = import_module("redis")
    except ModuleNotFoundError:
        msg = "the Yahoo benchmark's Redis option needs the package redis: pip install redis"
        raise OptionError(msg) from None
    return package.Redis(host=host, port=int(port), decode_responses=True)


def store_ads_at(address: str, table: Mapping[str, str]) -> None:
    """Store the table from ads to campaigns at a server.

    Raises:
        OptionError: no server answers there.
    """
    with connect(address) as client:
        try:
            store_ads(client, table)
        except import_module("redis").exceptions.ConnectionError as error:
            msg = f"redis={address}: no Redis server answers there ({error})"
            raise OptionError(msg) from error


def store_ads(client: Any, table: Mapping[str, str]) -> None:
    """Store the table from ads to campaigns."""
    client.mset(dict(table))
    client.sadd("campaigns", *set(table.values()))


def find_campaigns(client: Any, ads: Iterable[str]) -> dict[str, str | None]:
    """Look many ads up in one round trip; None for those the table does not know."""
    asked = list(dict.fromkeys(ads))
    return dict(zip(asked, client.mget(asked), strict=True)) if asked else {}


def store_counts(client: Any, rows: Iterable[tuple[str, int, int]], now_ms: int) -> None:
    """Store counts (campaign, window start in ms, count): one round trip to look, one to write.

    The second is a transaction: a window never stands in its campaign without its list and count.
    """
    rows = list(rows)
    with client.pipeline(transaction=False) as looking:
        for campaign, start, _ in rows:
            looking.hmget(campaign, [str(start), "windows"])
        found = looking.execute()
    lists: dict[str, str] = {}  # those made here: a campaign may have several windows in a batch
    with client.pipeline(transaction=True) as writing:
        for (campaign, start, count), (window_id, list_id) in zip(rows, found, strict=True):
            if window_id is None:
                window_id = str(uuid.uuid4())
                list_id = list_id or lists.setdefault(campaign, str(uuid.uuid4()))
                writing.sadd("campaigns", campaign)
                writing.hset(campaign, mapping={str(start): window_id, "windows": list_id})
                writing.lpush(list_id, start)
            writing.hset(window_id, mapping={"seen_count": count, "time_updated": now_ms})
        writing.execute()
