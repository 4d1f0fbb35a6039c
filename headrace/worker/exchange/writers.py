"""Writes a stage's output into super tuples, one writer per channel; of groupings: `group_writer`.

Takes windowed values, one by one or in batches, gives super tuples to a `send` function. What kind
of channel it is was settled when the writer was built, so no element asks again.
"""

from __future__ import annotations

from collections.abc import Callable

from apache_beam.coders.coder_impl import create_OutputStream

from headrace.worker.batched.batches import Meta, batch_of, elements
from headrace.worker.batched.column_batches import as_rows
from headrace.worker.batched.ends import Writer, takes_columns
from headrace.worker.batched.plain_values import is_frozen
from headrace.worker.batched.weights import WAITING_BYTES, weight
from headrace.worker.beam_types import Element, Value, WindowedCoder
from headrace.worker.columns.values import ColumnValues
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple

Send = Callable[[SuperTuple], None]

#: Elements handed to a neighbouring stage at once.
LOCAL_BATCH_ELEMENTS = 1_000


class Fanout:
    """Hands each element to the writers of several channels."""

    def __init__(self, writers: list[Writer]) -> None:
        self._writers = writers
        self.takes_columns = any(map(takes_columns, writers))

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        rest = [writer for writer in self._writers if not takes_columns(writer)]
        for writer in self._writers:
            if takes_columns(writer):
                writer.write_columns(values, meta)
        if rest:
            for rows, its in as_rows(values, meta):
                for writer in rest:
                    writer.write(rows, its)

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        for writer in self._writers:
            writer.process(element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        for writer in self._writers:
            writer.write(values, meta)

    def flush(self) -> None:
        """Ship what is held."""
        for writer in self._writers:
            writer.flush()


class LocalWriter:
    """Hands elements to a stage of the same superstep, as the objects they are."""

    def __init__(
        self,
        push: Callable[[list[Value], Meta], None],
        push_columns: Callable[[ColumnValues, Meta], None] | None = None,
    ) -> None:
        """Describe a neighbour: `push_columns` is given where it keeps columns."""
        self._push = push
        self._push_columns = push_columns
        self.takes_columns = push_columns is not None
        self._held: list[Value] = []
        self._bytes = 0

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._held.append(element)
        self._bytes += weight((element.value,))
        # What may change while it waits (a list, a view of state) is handed over at once.
        if (
            len(self._held) >= LOCAL_BATCH_ELEMENTS
            or self._bytes >= WAITING_BYTES
            or not is_frozen(element.value)
        ):
            self.flush()

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        self.flush()
        self._push(values, meta)

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        assert self._push_columns is not None
        self.flush()
        self._push_columns(values, meta)

    def flush(self) -> None:
        """Ship what is held."""
        if self._held:
            held, self._held, self._bytes = self._held, [], 0
            self._push(*batch_of(held))


class RowWriter:
    """Encodes windowed values one after the other; deals them out, keys them, or copies them."""

    def __init__(
        self,
        channel: int,
        windowed_coder: WindowedCoder,
        send: Send,
        *,
        shards: int,
        first_shard: int,
        super_tuple_bytes: int,
        rank: Rank = Rank.DATA,
        shard_of: ShardOf | None = None,
        copy_to_all: bool = False,
    ) -> None:
        self._channel = channel
        self._send = send
        self._rank = rank
        self._seq = 0
        self._copies = range(shards) if copy_to_all else None
        self._encode = windowed_coder.get_impl().encode_to_stream
        self._limit = super_tuple_bytes
        width = 1 if copy_to_all else shards
        self._streams = [create_OutputStream() for _ in range(width)]
        self._counts = [0] * width
        self._process = (
            self._keyed(shard_of) if shard_of is not None
            else self._dealt(first_shard % width, width)
        )

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        self._process(element)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        process = self._process
        for element in elements(values, meta):
            process(element)

    def _dealt(self, first: int, width: int) -> Callable[[Element], None]:
        put = self._put
        turn = first

        def process(element: Element) -> None:
            nonlocal turn
            turn = turn + 1 if turn + 1 < width else 0
            put(turn, element)

        return process

    def _keyed(self, shard_of: ShardOf) -> Callable[[Element], None]:
        put, where = self._put, shard_of.any

        def process(element: Element) -> None:
            put(where(element.value[0]), element)

        return process

    def _put(self, slot: int, element: Element) -> None:
        stream = self._streams[slot]
        self._encode(element, stream, True)
        self._counts[slot] += 1
        if stream.size() >= self._limit:
            self._ship(slot)

    def _ship(self, slot: int) -> None:
        count = self._counts[slot]
        if not count:
            return
        payload = self._streams[slot].get()
        for shard in self._copies if self._copies is not None else (slot,):
            self._send(
                SuperTuple(
                    shard, self._rank, self._channel, PayloadKind.ROWS, self._seq, count, payload
                )
            )
        self._seq += count
        self._streams[slot] = create_OutputStream()
        self._counts[slot] = 0

    def flush(self) -> None:
        """Ship what is held."""
        for slot in range(len(self._streams)):
            self._ship(slot)
