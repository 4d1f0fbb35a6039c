"""The rows that travel between supersteps: super tuples and their headers.

Takes and gives Arrow record batches. Knows the header, not what the payload means.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

import pyarrow as pa


class PayloadKind(IntEnum):
    """What the bytes of a super tuple are. A new kind gets the next number."""

    ROWS = 0  # windowed values, one after the other, by the channel's coder
    KEYED_ROWS = 1  # encoded key, then the windowed value without its key, one after the other
    GROUPED = 2  # primitive keys, and for each the list of its primitive values
    GROUPED_WINDOWED = 3  # the same, once per set of windows
    REPORT = 4  # metrics and other logs of a task, for the driver
    COLUMNS = 5  # one Arrow record batch without its schema
    PULSE = 6  # watermarks of channels, from one task to one shard
    HIGHS = 7  # how far the event times of a DataFrame's partitions have come
    MERGED_ROWS = 8  # encoded key, then an accumulator that stands for several elements, and so on
    GROUPED_SPANS = 9  # primitive keys, and for each its primitive values and their windows
    KEYED_COLUMNS = 10  # keys and values as Arrow columns, with the windows that they stand in
    NUMBERED_PAIRS = 11  # primitive keys, and pairs of them in the order of their numbers
    PLAIN_ROWS = 12  # what all share of time, windows and pane; then primitive keys and pairs


class Rank(IntEnum):
    """Who is read first on a shard: side inputs before the data that look at them.

    Pulses too, as they say which windows of a side input are whole.
    """

    SIDE_INPUT = 0
    PULSE = 0
    DATA = 1
    REPORT = 2


#: Channel number of rows addressed to the driver.
REPORT_CHANNEL = -1

SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("channel", pa.int32(), nullable=False),
        pa.field("kind", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("elements", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("numbers", pa.binary(), nullable=False),
    ]
)

_BYTES = ("payload", "numbers")

#: The same schema in Spark's words, for the engine.
SPARK_SCHEMA = (
    "shard int not null, rank int not null, channel int not null, kind int not null, "
    "seq bigint not null, elements bigint not null, payload binary not null, "
    "numbers binary not null"
)


class SuperTuple(NamedTuple):
    """One row: many elements of one channel for one shard."""

    shard: int
    rank: int
    channel: int
    kind: int
    seq: int  # number of the first element among those its writer sent
    elements: int
    payload: bytes
    numbers: bytes = b""  # order numbers of the elements, see `order_numbers`; empty: none


def to_batch(rows: list[SuperTuple]) -> pa.RecordBatch:
    """Pack rows into one Arrow batch."""
    columns = list(zip(*rows, strict=True))
    return pa.RecordBatch.from_arrays(
        [pa.array(c, type=f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def from_batch(batch: pa.RecordBatch) -> Iterator[SuperTuple]:
    """Unpack the rows of an Arrow batch; payloads are copied out one at a time."""
    names = batch.schema.names
    heads = [batch.column(names.index(f.name)).to_pylist() for f in SCHEMA if f.name not in _BYTES]
    payloads, numbers = (batch.column(names.index(name)) for name in _BYTES)
    for i, head in enumerate(zip(*heads, strict=True)):
        yield SuperTuple._make((*head, payloads[i].as_py(), numbers[i].as_py()))
