"""Reads the super tuples that bring elements to a stage, some elements at a time."""

from __future__ import annotations

from collections.abc import Iterator

from apache_beam.coders.coder_impl import create_InputStream

from headrace.errors import TransportError
from headrace.worker.batched.batches import BATCH_VALUES, Meta, batch_of
from headrace.worker.beam_types import Decode, Value
from headrace.worker.exchange.plain_rows import read_plain_rows
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple


def row_batches(
    row: SuperTuple, decode: Decode, most: int
) -> Iterator[tuple[list[Value], Meta]]:
    """Give the elements of a row.

    Args:
        row: of elements for a stage.
        decode: reads a windowed value of the channel from a stream.
        most: elements of a batch.

    Raises:
        TransportError: the row is for a grouping, or for nobody.
    """
    room = min(BATCH_VALUES, most)
    if row.kind == PayloadKind.PLAIN_ROWS:
        yield from read_plain_rows(row.payload, decode, room)
        return
    if row.kind != PayloadKind.ROWS:
        msg = f"channel {row.channel} was sent a payload of kind {row.kind}"
        raise TransportError(msg)
    stream = create_InputStream(row.payload)
    while stream.size() > 0:
        found: list[Value] = []
        while stream.size() > 0 and len(found) < room:
            found.append(decode(stream, True))
        yield batch_of(found)
