"""Reads messages of Kafka's topics between offsets as batches of the columns that are wanted.

Takes what the driver has found out about a DataFrame, gives the columns that Spark would have
handed over, by the client library. Which offsets, and whether both give the same, is the driver's
to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.errors import TransportError
from headrace.plan.scans import MICROS, ScanColumn, TopicPart, TopicScan
from headrace.worker.batched.column_batches import COLUMN_ROWS

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

#: Messages fetched at once, and turned into columns while they are in the processor's cache: a
#: thousand take a third longer, each.
FETCH_MESSAGES = 500
#: Bytes of a batch of columns before it is handed on, however few messages they are.
BATCH_BYTES = 32 << 20
#: How long a partition that has messages to give may be silent; Spark's connector waits as long.
SILENCE_SECONDS = 120.0
#: How long one look for a message takes: between two, a task that is cancelled comes to its end.
_LOOK_SECONDS = 0.5

#: The one setting that nobody may read in an error.
_SECRET = "sasl.password"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MILLI = 1000  # microseconds

Settings = tuple[tuple[str, str], ...]


class _Connection:
    """A consumer, and what it has said that may pass by."""

    def __init__(self, settings: Settings) -> None:
        from confluent_kafka import Consumer

        self.said = ""
        self.secret = dict(settings).get(_SECRET, "")
        self.consumer = Consumer({**dict(settings), "error_cb": self._heard})

    def _heard(self, error: KafkaError) -> None:
        self.said = f" ({error.name()}: {error.str()})"


#: The connection of this process: making one costs more than a small epoch reads. There is one at
#: most: a worker serves one pipeline at a time.
_connections: dict[Settings, _Connection] = {}


def consumed(scan: TopicScan, parts: Sequence[TopicPart]) -> Iterator[pa.RecordBatch]:
    """Give the rows of these parts, in their order.

    Raises:
        TransportError: a message is there no more, or the broker does not give it.
    """
    for part in parts:
        if part.start < part.end:
            yield from _batches(scan, part)


def _batches(scan: TopicScan, part: TopicPart) -> Iterator[pa.RecordBatch]:
    columns = [_maker(column, part) for column in scan.columns]
    names = [column.name for column in scan.columns]
    held: list[list[pa.Array]] = []
    rows = size = 0

    def batch() -> pa.RecordBatch:
        if not names:
            return pa.RecordBatch.from_pylist([{}] * rows)
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays(arrays) for arrays in zip(*held, strict=True)], names
        )

    for messages in _fetched(scan, part):
        made = [make(messages) for make in columns]
        held.append(made)
        rows += len(messages)
        size += sum(array.nbytes for array in made)
        if rows >= COLUMN_ROWS or size >= BATCH_BYTES:
            yield batch()
            held, rows, size = [], 0, 0
    if rows:
        yield batch()


def _fetched(scan: TopicScan, part: TopicPart) -> Iterator[list[Message]]:
    """Give the messages of a part, some at a time."""
    connection = _connection(scan.settings)
    try:
        reading = _Reading(connection, part)
        while reading.at < part.end:
            if messages := reading.next():
                yield messages
        connection.consumer.unassign()  # what lies behind the part is not fetched any further
    except BaseException:
        # Whatever it was, the next task begins with a connection of which nothing is known.
        _connections.pop(scan.settings, None)
        connection.consumer.close()
        raise


class _Reading:
    """Where a consumer is in a part."""

    def __init__(self, connection: _Connection, part: TopicPart) -> None:
        from confluent_kafka import KafkaError, TopicPartition

        self.at = part.start
        self._connection, self._part = connection, part
        self._consumer = connection.consumer
        self._over = KafkaError._PARTITION_EOF  # noqa: SLF001 (its public name)
        self._heard = time.monotonic()
        self._consumer.assign([TopicPartition(part.topic, part.partition, part.start)])

    def next(self) -> list[Message]:
        """Give messages that are there, or wait for one, and go on behind them."""
        most = min(FETCH_MESSAGES, self._part.end - self.at)
        # The library waits for as many as it is asked for, and only markers of transactions may be
        # left to come: so it is not to wait, but where nothing is there, for a single one.
        found = self._consumer.consume(most, 0)
        if not found:
            one = self._consumer.poll(_LOOK_SECONDS)
            if one is None:
                self._see_that_it_answers()
                return []
            found = [one]
        self._heard = time.monotonic()
        messages = [message for message in found if message.error() is None]
        if len(messages) < len(found):
            for message in found:
                if message.error() is not None:
                    self._refuse(message)
        if messages:
            self.at = max(self.at, messages[-1].offset() + 1)
            if self.at > self._part.end:  # numbers are left out where markers and old keys were
                messages = [m for m in messages if m.offset() < self._part.end]
        return messages

    def _refuse(self, message: Message) -> None:
        """Hear what is no message: the end of the partition, or that something is wrong."""
        error = message.error()
        if error.code() == self._over:
            self.at = max(self.at, message.offset())
        elif message.topic() is None and not error.fatal():
            self._connection.said = f" ({error.name()}: {error.str()})"  # it may pass by
        else:
            raise TransportError(self._message(f"{error.name()}: {error.str()}"))

    def _see_that_it_answers(self) -> None:
        if time.monotonic() - self._heard > SILENCE_SECONDS:
            why = f"nothing came for {SILENCE_SECONDS:.0f} s{self._connection.said}"
            raise TransportError(self._message(why))

    def _message(self, why: str) -> str:
        part = self._part
        secret = self._connection.secret
        why = why.replace(secret, "(not shown)") if secret else why
        return (
            f"offset {self.at} of {part.topic}, partition {part.partition}, cannot be read, and "
            f"messages before {part.end} were promised: {why}. If they were deleted before they "
            "were read, failOnDataLoss=false in spark_options goes on without them"
        )


def _connection(settings: Settings) -> _Connection:
    """Give this process's connection with these settings."""
    if settings not in _connections:
        for other in _connections.values():
            other.consumer.close()
        _connections.clear()
        _connections[settings] = _Connection(settings)
    return _connections[settings]


# Columns ------------------------------------------------------------------------------------------

Make = Callable[["list[Message]"], pa.Array]


def _maker(column: ScanColumn, part: TopicPart) -> Make:
    """Give what makes a column of messages."""
    if column.path == ("topic", "partition"):
        name = pa.scalar(f"{part.topic}-{part.partition}")
        return lambda messages: pa.repeat(name, len(messages))
    if column.path == ("timestamp",):
        return _micros if column.kind == MICROS else _times
    if column.path == ("topic",):
        return lambda messages: pa.repeat(pa.scalar(part.topic), len(messages))
    if column.path == ("partition",):
        number = pa.scalar(part.partition, pa.int32())
        return lambda messages: pa.repeat(number, len(messages))
    (what,) = column.path
    return _MAKERS[what]


def _keys(messages: list[Message]) -> pa.Array:
    return pa.array([message.key() for message in messages], pa.binary())


def _values(messages: list[Message]) -> pa.Array:
    return pa.array([message.value() for message in messages], pa.binary())


def _offsets(messages: list[Message]) -> pa.Array:
    return pa.array([message.offset() for message in messages], pa.int64())


def _micros(messages: list[Message]) -> pa.Array:
    millis = [message.timestamp()[1] for message in messages]
    return pa.array(np.array(millis, np.int64) * _MILLI)


def _times(messages: list[Message]) -> pa.Array:
    return _micros(messages).cast(pa.timestamp("us", tz="UTC"))


def _kinds(messages: list[Message]) -> pa.Array:
    # The library has numbers of its own, one more than Kafka's: 0 is none, 1 the producer's.
    return pa.array([message.timestamp()[0] - 1 for message in messages], pa.int32())


def _headers(messages: list[Message]) -> pa.Array:
    found = [
        [{"key": key, "value": value} for key, value in headers] if headers else None
        for headers in (message.headers() for message in messages)
    ]
    return pa.array(found, _HEADERS)


_MAKERS: Mapping[str, Make] = {
    "key": _keys, "value": _values, "offset": _offsets, "timestampType": _kinds,
    "headers": _headers,
}  # fmt: skip
