"""Writes elements with their order numbers into super tuples, whatever the channel's kind.

Each element is encoded by itself and its size noted, so that a reader can put elements of several
rows into order without decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream

from headrace.plan.order import PortOrder
from headrace.worker.batched.batches import Columns, Meta, elements, numbered
from headrace.worker.batched.cause import Cause
from headrace.worker.beam_types import Element, OutStream, Value, WindowedCoder
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.order_numbers import Numberer, Numbers, pack
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.writers import Send

#: Writes one element into a stream of bytes.
Encode = Callable[[Element, OutStream], None]
#: Gives the slots that values go to.
Where = Callable[[list[Value]], Sequence[int]]


class OrderedWriter:
    """Encodes elements one after the other, for one slot each; a slot is a shard or all of them.

    Args:
        channel: where they go.
        encode: writes an element.
        where: says to which slot.
        slots: for each slot, the shards that get what is in it.
        send: takes the rows.
        order: how numbers are made.
        kind: of the payload.
        rank: of the rows.
        super_tuple_bytes: size of a row.
    """

    def __init__(
        self,
        channel: int,
        encode: Encode,
        where: Where,
        slots: list[tuple[int, ...]],
        send: Send,
        *,
        order: PortOrder,
        kind: PayloadKind,
        rank: Rank,
        super_tuple_bytes: int,
    ) -> None:
        self._channel, self._encode, self._where, self._slots = channel, encode, where, slots
        self._send, self._kind, self._rank = send, kind, rank
        self._limit = super_tuple_bytes
        self._width = order.number_bytes
        self._numberer = Numberer(order)
        self._streams = [create_OutputStream() for _ in slots]
        self._numbers: list[list[int]] = [[] for _ in slots]
        self._sizes: list[list[int]] = [[] for _ in slots]
        self._seq = 0

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        (slot,) = self._where([element.value])
        stream = self._streams[slot]
        before = stream.size()
        self._encode(element, stream)
        self._numbers[slot].append(self._numberer.one(Cause.number))
        self._sizes[slot].append(stream.size() - before)
        if stream.size() >= self._limit:
            self._ship(slot)

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        self.put(values, meta, self._numberer.each(causes(values, meta)))

    def put(self, values: list[Value], meta: Meta, numbers: Numbers) -> None:
        """Take a batch that is numbered already."""
        encode, limit, streams = self._encode, self._limit, self._streams
        all_numbers, all_sizes = self._numbers, self._sizes
        slots = self._where(values)
        for element, number, slot in zip(elements(values, meta), numbers, slots, strict=True):
            stream = streams[slot]
            before = stream.size()
            encode(element, stream)
            size = stream.size()
            all_numbers[slot].append(number)
            all_sizes[slot].append(size - before)
            if size >= limit:
                self._ship(slot)

    def _ship(self, slot: int) -> None:
        numbers, sizes = self._numbers[slot], self._sizes[slot]
        if not numbers:
            return
        payload = self._streams[slot].get()
        packed = pack(numbers, self._width, sizes)
        for shard in self._slots[slot]:
            self._send(
                SuperTuple(
                    shard, self._rank, self._channel, self._kind, self._seq, len(numbers),
                    payload, packed,
                )
            )
        self._seq += len(numbers)
        self._streams[slot] = create_OutputStream()
        self._numbers[slot], self._sizes[slot] = [], []

    def ship(self) -> None:
        """Ship what is held."""
        for slot in range(len(self._slots)):
            self._ship(slot)

    def flush(self) -> None:
        """Ship what is held, and begin anew."""
        self.ship()
        self._numberer.forget()


class OrderedLocalWriter:
    """Hands elements to a stage of the same superstep, with their numbers."""

    def __init__(self, push: Callable[[list[Value], Meta], None], order: PortOrder) -> None:
        self._push = push
        self._numberer = Numberer(order)

    def process(self, element: Element) -> None:
        """Take one windowed value."""
        number = self._numberer.one(Cause.number)
        self._push([element.value], numbered([element.value], element, [number]))

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""
        numbers = self._numberer.each(causes(values, meta))
        self._push(values, numbered(values, meta, numbers))

    def flush(self) -> None:
        """Nothing is held."""
        self._numberer.forget()


def causes(values: list[Value], meta: Meta) -> Numbers:
    """Give the number of what caused each value of a batch."""
    if type(meta) is Columns and meta.numbers is not None:
        return meta.numbers
    return [Cause.number] * len(values)  # type: ignore[list-item]  # refused by the numberer


def row_encoder(windowed_coder: WindowedCoder) -> Encode:
    """Write windowed values, as `PayloadKind.ROWS` has them."""
    encode = windowed_coder.get_impl().encode_to_stream
    return lambda element, stream: encode(element, stream, True)


def keyed_row_encoder(windowed_coder: WindowedCoder) -> Encode:
    """Write keys and windowed values without them, as `PayloadKind.KEYED_ROWS` has them."""
    pair = windowed_coder.wrapped_value_coder
    encode_key = pair.key_coder().get_impl().encode
    encode_rest = coders.WindowedValueCoder(
        pair.value_coder(), windowed_coder.window_coder
    ).get_impl().encode_to_stream

    def encode(element: Element, stream: OutStream) -> None:
        key, value = element.value
        stream.write(encode_key(key), True)
        encode_rest(element.with_value(value), stream, True)

    return encode


def by_key(windowed_coder: WindowedCoder, shards: int) -> Where:
    """Send each element to the shard of its key."""
    shard_of = ShardOf(windowed_coder.wrapped_value_coder.key_coder(), shards)

    def where(values: list[Value]) -> Sequence[int]:
        keys = [key for key, _ in values]
        return shard_of.each_of_any(keys)

    return where


def in_turn(first: int, shards: int) -> Where:
    """Deal elements out to the shards, one after the other."""
    turn = first % shards

    def where(values: list[Value]) -> Sequence[int]:
        nonlocal turn
        found = [slot % shards for slot in range(turn, turn + len(values))]
        turn = (turn + len(values)) % shards
        return found

    return where


def to_one(values: list[Value]) -> Sequence[int]:
    """Send all to the first slot."""
    return [0] * len(values)
