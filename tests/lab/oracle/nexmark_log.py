"""NEXMark events for tests: made by hand, logged as Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lab.workloads.nexmark.generator import SCHEMA

#: A full ten seconds, so that windows of the default length start here.
T0 = 1_436_918_400_000

Record = dict[str, Any]

KINDS = ("person", "auction", "bid")


def settings(**changed: Any) -> Any:
    """The settings that questions read, with NEXMark's defaults for one generator."""
    values = {
        "window_size_sec": 10, "window_period_sec": 5, "auction_skip": 123, "session_gap_sec": 600,
        "max_auctions_waiting_time": 600, "side_input_row_count": 500,
        "num_in_flight_auctions": 100,
        "num_event_generators": 1, "first_event_rate": 10_000, "next_event_rate": 10_000,
        "rate_unit": "PER_SECOND", "out_of_order_group_size": 1, "watermark_holdback_sec": 0,
    }
    return SimpleNamespace(**(values | changed))


def person(key: int, at: int, **changed: Any) -> Record:
    """A person who comes `at` ms after T0."""
    return {"id": key, "name": "Kate Noris", "email_address": "a@b.com", "credit_card": "1 2",
            "city": "Bend", "state": "OR", "date_time": T0 + at, "extra": "p"} | changed


def auction(key: int, at: int, expires: int, **changed: Any) -> Record:
    """An auction that opens and expires so many ms after T0."""
    return {"id": key, "item_name": "lamp", "description": "red", "initial_bid": 50, "reserve": 100,
            "date_time": T0 + at, "expires": T0 + expires, "seller": 1, "category": 10,
            "extra": "a"} | changed


def bid(on: int, at: int, price: int, bidder: int = 1, extra: str = "b") -> Record:
    """A bid on an auction, `at` ms after T0."""
    return {"auction": on, "bidder": bidder, "price": price, "date_time": T0 + at, "extra": extra}


def kind_of(record: Record) -> str:
    """The kind of a record, seen by its fields."""
    return "person" if "name" in record else "auction" if "item_name" in record else "bid"


def table(records: Iterable[Record], first: int = 0) -> pa.Table:
    """The records as rows of a log, numbered as they come."""
    rows = []
    for number, record in enumerate(records, first):
        kind = kind_of(record)
        rows.append({
            "number": number, "time": record["date_time"] * 1_000,
            "nanos": record["date_time"] * 1_000_000, "kind": KINDS.index(kind),
            **{name: record if name == kind else None for name in KINDS},
        })
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write(folder: Path, records: Iterable[Record]) -> str:
    """Log the records to one file of the folder; gives the glob that an oracle reads."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(records), folder / "events.parquet")
    return str(folder / "*.parquet")
