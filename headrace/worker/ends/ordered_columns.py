"""Puts the rows that leave an ordered plan into order: the merge at its end.

Takes super tuples of columns, sorted by their least numbers, gives Arrow batches in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from headrace.worker.exchange.merge import Merger
from headrace.worker.exchange.order_numbers import unpack


def decode_in_order(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], order_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Give the batches that `ColumnWriter`s wrote, with their rows in order."""
    merger: Merger[pa.RecordBatch] = Merger(_concat, _take)
    for batch in batches:
        payloads, numbers = batch.column("payload"), batch.column("numbers")
        for payload, packed in zip(payloads, numbers, strict=True):
            rows = pa.ipc.read_record_batch(payload.as_buffer(), schema)
            found = unpack(packed.as_py(), order_bytes).numbers
            for merged in merger.add(found, rows):
                yield merged.content
    for merged in merger.flush():
        yield merged.content


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def _take(batch: pa.RecordBatch, places: list[int]) -> pa.RecordBatch:
    if places and places[-1] - places[0] == len(places) - 1 and places == list(
        range(places[0], places[-1] + 1)
    ):
        return batch.slice(places[0], len(places))
    return batch.take(pa.array(places, pa.int64()))
