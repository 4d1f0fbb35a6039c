"""Pipelines over rows of a DataFrame, as their authors would write them, and the rows they read.

The questions are those of NEXMark, Yahoo and HiBench; the rows are made here, column by column, so
that nothing but the pipeline takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.combiners import CountCombineFn, MeanCombineFn
from apache_beam.transforms.window import FixedWindows, SlidingWindows

from headrace.lab.workloads.hibench.fixwindow import FirstAndCount
from headrace.lab.workloads.kernels.network import Network
from headrace.lab.workloads.kernels.settings import NetworkSettings
from headrace.lab.workloads.nexmark.q5 import KeepHottest, rows_from
from headrace.lab.workloads.nexmark.q7 import KeepHighest
from headrace.lab.workloads.windowed.aggregation import SumAndCount

AUCTIONS = 1_000
CAMPAIGNS = 100
ADS = 1_000
SERVERS = 20
USERS = 1_000
#: Event time between two events; ten seconds then hold 100,000 of them.
MICROS_APART = 100
_LOOK_UP = {f"ad-{i}": f"campaign-{i % CAMPAIGNS}" for i in range(ADS)}
_TYPES = ("view", "click", "purchase")

BIDS = "auction long not null, bidder long not null, price long not null, at double not null, " \
    "extra string not null"
VIEWS = "ad_id string not null, event_type string not null, user_id string not null, " \
    "at double not null"
ENTRIES = "server long not null, user long not null, at double not null"
VISITS = "ip string not null, time long not null, at double not null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pipeline and its rows."""

    words: str  # the columns of the rows
    table: Callable[[int], pa.Table]  # so many rows
    steps: Callable[[Any], Any]  # from rows to what is written
    schema: str  # of what is written
    timed: bool  # whether the column `at` gives the event time


def bids(rows: int) -> pa.Table:
    """Give bids of five columns."""
    random = np.random.default_rng(7)
    return pa.table(
        {
            "auction": random.integers(1_000, 1_000 + AUCTIONS, rows),
            "bidder": random.integers(1_000, 20_000, rows),
            "price": random.integers(1, 10**7, rows),
            "at": _times(rows),
            "extra": pa.array(["x" * 20]).take(pa.array(np.zeros(rows, np.int64))),
        }
    )


def views(rows: int) -> pa.Table:
    """Give events of ads."""
    random = np.random.default_rng(8)
    ads = pa.array([f"ad-{i}" for i in range(ADS)])
    users = pa.array([f"user-{i}" for i in range(5_000)])
    return pa.table(
        {
            "ad_id": ads.take(pa.array(random.integers(0, ADS, rows))),
            "event_type": pa.array(_TYPES).take(pa.array(random.integers(0, 3, rows))),
            "user_id": users.take(pa.array(random.integers(0, 5_000, rows))),
            "at": _times(rows),
        }
    )


def visits(rows: int) -> pa.Table:
    """Give visits of addresses, with their times in milliseconds."""
    random = np.random.default_rng(9)
    addresses = pa.array([f"10.0.{i // 256}.{i % 256}" for i in range(1_000)])
    at = _times(rows)
    return pa.table(
        {
            "ip": addresses.take(pa.array(random.integers(0, 1_000, rows))),
            "time": (at * 1_000).astype(np.int64),
            "at": at,
        }
    )


def moving_bids(rows: int) -> pa.Table:
    """Give bids whose auctions change as NEXMark's do: half on a hot one, half on the last 100."""
    random = np.random.default_rng(10)
    newest = np.arange(rows) // 50 * 3
    cold = np.maximum(newest - random.integers(0, 100, rows), 0)
    auction = np.where(random.integers(0, 2, rows) > 0, newest // 100 * 100, cold)
    return bids(rows).set_column(0, "auction", pa.array(1_000 + auction))


def entries(rows: int) -> pa.Table:
    """Give entries to servers by users."""
    random = np.random.default_rng(11)
    return pa.table(
        {
            "server": random.integers(0, SERVERS, rows),
            "user": random.integers(0, USERS, rows),
            "at": _times(rows),
        }
    )


def _times(rows: int) -> Any:
    return np.arange(rows) * (MICROS_APART / 1e6)


def in_euros(rows: Any) -> Any:
    """NEXMark 1: the price of every bid in euros."""
    return rows | "Convert" >> beam.Map(
        lambda bid: (bid.auction, bid.bidder, bid.price * 89 // 100, bid.at, bid.extra)
    )


def chosen(rows: Any) -> Any:
    """NEXMark 2: the bids on some auctions."""
    return (
        rows
        | "Chosen" >> beam.Filter(lambda bid: bid.auction % 123 == 0)
        | "Cut" >> beam.Map(lambda bid: (bid.auction, bid.price))
    )


def counted(rows: Any) -> Any:
    """NEXMark 5, its first half: the bids on each auction in sliding windows."""
    return (
        rows
        | "Auction" >> beam.Map(lambda bid: (bid.auction, 1)).with_output_types(tuple[int, int])
        | "Window" >> beam.WindowInto(SlidingWindows(10, 5))
        | "Count" >> beam.CombinePerKey(sum)
    )


def hottest(rows: Any) -> Any:
    """NEXMark 5: the auctions with the most bids of each window."""
    return (
        counted(rows)
        | "Hottest" >> beam.CombineGlobally(KeepHottest()).without_defaults()
        | "Rows" >> beam.FlatMap(rows_from(-(2**63))).with_output_types(tuple[int, int, int])
    )


def highest(rows: Any) -> Any:
    """NEXMark 7: the bids with the highest price of each window."""
    return (
        rows
        | "Window" >> beam.WindowInto(FixedWindows(10))
        | "Highest" >> beam.CombineGlobally(KeepHighest()).without_defaults()
        | "Rows" >> beam.FlatMap(lambda bids: bids).with_output_types(
            tuple[int, int, int, float, str]
        )
    )


def averaged(rows: Any) -> Any:
    """The average price of each auction in sliding windows, by a CombineFn of the user's."""
    return (
        rows
        | "Pair" >> beam.Map(lambda bid: (bid.auction, bid.price)).with_output_types(
            tuple[int, int]
        )
        | "Window" >> beam.WindowInto(SlidingWindows(8, 4))
        | "Combine" >> beam.CombinePerKey(SumAndCount())
        | "Row" >> beam.MapTuple(lambda key, found: (key, found[0] / found[1], found[1]))
    )


def viewed(rows: Any) -> Any:
    """Yahoo: the views of each campaign in windows of ten seconds."""
    return (
        rows
        | "Views" >> beam.Filter(lambda event: event.event_type == "view")
        | "Campaign" >> beam.Map(
            lambda event: (_LOOK_UP[event.ad_id], 1)
        ).with_output_types(tuple[str, int])
        | "Window" >> beam.WindowInto(FixedWindows(10))
        | "Count" >> beam.CombinePerKey(CountCombineFn())
    )


def visited(rows: Any) -> Any:
    """HiBench fixwindow: the first visit of each address in ten seconds, and how many."""
    return (
        rows
        | "Pair" >> beam.Map(lambda visit: (visit.ip, visit.time)).with_output_types(
            tuple[str, int]
        )
        | "Window" >> beam.WindowInto(FixedWindows(10))
        | "Combine" >> beam.CombinePerKey(FirstAndCount())
        | "Row" >> beam.MapTuple(lambda ip, found: (ip, *found))
    )


def suspected(rows: Any) -> Any:
    """Kernel network: users with many entries on some server, counted by server and user."""
    return rows | Network(
        NetworkSettings(window_ms=10_000, server_threshold=7, user_threshold=20)
    )


def summarised(rows: Any) -> Any:
    """The prices of each auction and thousand of bidders, aggregated by Beam's `GroupBy`."""
    return (
        rows
        | "Window" >> beam.WindowInto(FixedWindows(10))
        | "Group" >> beam.GroupBy("auction", thousand=lambda bid: bid.bidder // 1_000)
        .aggregate_field("price", sum, "total")
        .aggregate_field("price", max, "highest")
        .aggregate_field("price", MeanCombineFn(), "mean")
        .aggregate_field("price", CountCombineFn(), "bids")
    )


CASES: dict[str, Case] = {
    "q1": Case(words=BIDS, table=bids, steps=in_euros, schema=BIDS, timed=False),
    "q2": Case(
        words=BIDS, table=bids, steps=chosen, schema="auction long, price long", timed=False
    ),
    "q5-count": Case(
        words=BIDS, table=bids, steps=counted, schema="auction long, bids long", timed=True
    ),
    "q5-moving": Case(
        words=BIDS, table=moving_bids, steps=counted, schema="auction long, bids long", timed=True
    ),
    "q5": Case(
        words=BIDS, table=moving_bids, steps=hottest,
        schema="start long, auction long, bids long", timed=True,
    ),
    "q7": Case(words=BIDS, table=bids, steps=highest, schema=BIDS, timed=True),
    "average": Case(
        words=BIDS, table=moving_bids, steps=averaged,
        schema="auction long, mean double, bids long", timed=True,
    ),
    "yahoo": Case(
        words=VIEWS, table=views, steps=viewed, schema="campaign string, views long", timed=True
    ),
    "network": Case(
        words=ENTRIES, table=entries, steps=suspected,
        schema="start long, user long, servers long, entries long", timed=True,
    ),
    "group-by": Case(
        words=BIDS, table=bids, steps=summarised,
        schema="auction long, thousand long, total long, highest long, mean double, bids long",
        timed=True,
    ),
    "fixwindow": Case(
        words=VISITS, table=visits, steps=visited,
        schema="ip string, first long, visits long", timed=True,
    ),
}
