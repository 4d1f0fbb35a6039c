"""`WriteToKafka`: a collection becomes messages of a topic, each of which is seen once.

Describes messages and hands them to the outbox under their epoch's number; `publish` says what
becomes of them when the epoch counts. A batch pipeline publishes in one transaction, at its end.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import OptionError
from headrace.io.kafka.client import client
from headrace.io.kafka.formats import BYTES, encoder_of, is_plain
from headrace.io.kafka.options import checked
from headrace.io.kafka.outbox import ParquetOutbox
from headrace.io.kafka.publish import Producer, Publisher, Rules
from headrace.io.kafka.records import MESSAGE
from headrace.io.kafka.transactions import Address, TransactionalProducer, name_of, publish_once
from headrace.io.sinks import Delivery, Lease, Sink
from headrace.plan.datasets import Dataset, kafka_topics
from headrace.plan.shapes import RecordShape, ScalarKind, ScalarShape, Shape, TupleShape

#: Messages of one transaction. An epoch with more is published in several.
TRANSACTION_MESSAGES = 500_000
_LOST = ("refuse", "publish", "skip")
_TIMES = ("publish", "event")


class WriteToKafka(beam.PTransform):  # type: ignore[misc]
    """Write messages to Kafka, in transactions: readers of committed messages see each once.

    An element is a `KafkaRecord` or any record with a field `value` (and perhaps key, headers,
    topic, partition and timestamp), a pair of key and value, or else a value. In a streaming
    pipeline the messages of an epoch are set aside in the checkpoint, and published when the epoch
    counts; in a batch pipeline they are published in one transaction at its end. Needs the extra
    `kafka`.

    Args:
        servers: the brokers, `"host:9092,host:9092"`.
        topic: where messages go that name no topic of their own. It must be there: its partition 0
            also has the marker by which a restart knows what was published.
        key: how keys become bytes: `"bytes"`, `"text"`, `Json()`, `Avro(...)`, `Protobuf(...)` or a
            function. None stays None.
        value: the same for values; None is a message without a value, a tombstone.
        message: makes a record, a pair or a value of an element, first of all.
        timestamps: "publish": messages have the time at which they are published; "event": the
            event time of their element. A record's own timestamp comes first.
        max_per_transaction: messages in one transaction.
        name_prefix: how the names of its transactions and of its marker's group begin; for brokers
            that allow names by their beginnings.
        if_marker_lost: what a start does that finds messages to publish and a broker that has lost
            the marker: "refuse", "publish" them (perhaps again) or "skip" them.
        options: options of Kafka's clients, such as `security.protocol` or `compression.type`.
        ordered: messages are published in the order of a run on one shard.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        key: Any = BYTES,
        value: Any = BYTES,
        message: Callable[[Any], Any] | None = None,
        timestamps: str = "publish",
        max_per_transaction: int = TRANSACTION_MESSAGES,
        name_prefix: str = "headrace-",
        if_marker_lost: str = "refuse",
        options: Mapping[str, Any] | None = None,
        ordered: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(topic, str) or not topic:
            msg = f"WriteToKafka: topic={topic!r} is no name of a topic"
            raise OptionError(msg)
        for name, given, known in (
            ("timestamps", timestamps, _TIMES), ("if_marker_lost", if_marker_lost, _LOST),
        ):
            if given not in known:
                words = " or ".join(map(repr, known))
                msg = f"WriteToKafka: {name}={given!r} is not known; give {words}"
                raise OptionError(msg)
        if max_per_transaction < 1:
            msg = f"WriteToKafka: max_per_transaction={max_per_transaction} is not 1 or more"
            raise OptionError(msg)
        client("WriteToKafka")
        encode = _Encode(
            encoder_of("WriteToKafka", key), encoder_of("WriteToKafka", value), message
        )
        self._encode = _Timed(encode) if timestamps == "event" else encode
        self._sink = KafkaSink(
            topic=topic, options=checked("WriteToKafka", servers, options), prefix=name_prefix,
            rules=Rules(most=max_per_transaction, if_marker_lost=if_marker_lost), ordered=ordered,
        )  # fmt: skip

    def expand(self, pcoll: Any) -> Any:
        """Make messages, and hand them over."""
        made = pcoll | "Message" >> (
            beam.ParDo(self._encode) if isinstance(self._encode, _Timed) else beam.Map(self._encode)
        ).with_output_types(tuple)
        return made | "Publish" >> self._sink


class KafkaSink(Sink):
    """The leaf behind `WriteToKafka`: takes rows of messages."""

    needs = "kafka"
    has_outbox = True

    def __init__(
        self, *, topic: str, options: Mapping[str, str], prefix: str, rules: Rules, ordered: bool
    ) -> None:
        super().__init__(MESSAGE, ordered=ordered)
        self._topic, self._options, self._prefix, self._rules = topic, options, prefix, rules
        self._outbox: ParquetOutbox | None = None
        self._publisher: Publisher | None = None

    def deliver(self, frame: Any, lease: Lease) -> None:  # noqa: ARG002 (every sink is given it)
        """Publish a whole collection, in one transaction."""
        rows = frame.toLocalIterator() if hasattr(frame, "toLocalIterator") else frame.collect()
        publish_once(self._address(uuid.uuid4().hex), rows)

    def names(self) -> tuple[Dataset, ...]:
        """Give the topic's name."""
        return kafka_topics(self._options["bootstrap.servers"], [self._topic])

    def check_epochs(self, name: str) -> None:
        """Every topic can be written by epochs."""

    def prepare_epochs(self, session: Any, delivery: Delivery) -> None:
        """Claim the outbox for a driver."""
        if not delivery.outbox:
            msg = (
                f"{self.label}: messages are set aside in the checkpoint until they are published, "
                "and this one is in memory; give --checkpoint a folder"
            )
            raise OptionError(msg)
        folder = hashlib.sha256(delivery.claim.writer.encode()).hexdigest()[:16]
        self._outbox = ParquetOutbox(f"{delivery.outbox}/{folder}", session)
        self._outbox.claim(delivery)
        address = self._address(delivery.claim.writer)

        def connect() -> Producer:
            return TransactionalProducer(address)

        self._publisher = Publisher(
            self.label, connect, self._outbox, fence=delivery.fence, rules=self._rules,
            gap=delivery.gap, pause=delivery.pause,
        )

    def files_at(self, checkpoint: str) -> bool:
        """Workers write the files of the outbox where it is on a disk that they share."""
        return "://" not in checkpoint

    def staging(self, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch."""
        assert self._outbox is not None
        return self._outbox.staging(attempt)

    def deliver_files(self, delivery: Delivery, names: Sequence[str]) -> None:
        """Set an epoch's messages aside; once, even if called twice."""
        assert self._outbox is not None
        self._outbox.take(delivery, names)

    def deliver_epoch(self, frame: Any, delivery: Delivery) -> None:
        """Set an epoch's messages aside; once, even if called twice."""
        assert self._outbox is not None
        self._outbox.write(frame, delivery)

    def publish(self, delivery: Delivery, give_up: Callable[[], bool]) -> None:
        """Publish all that epochs up to this one, which counts, have set aside."""
        assert self._publisher is not None
        self._publisher.publish(
            delivery.epoch, give_up=give_up, forget_later=delivery.remove_later
        )

    def close(self) -> None:
        """Let the producer go."""
        if self._publisher is not None:
            self._publisher.close()

    def _address(self, writer: str) -> Address:
        return Address(
            step=self.label, topic=self._topic, options=self._options,
            name=name_of(self._prefix, writer),
        )


class _Encode:
    """Makes the row of a message of an element, on a worker."""

    def __init__(
        self, key: Callable[[Any], bytes], value: Callable[[Any], bytes],
        message: Callable[[Any], Any] | None,
    ) -> None:
        self._key, self._value, self._message = key, value, message

    def __call__(self, element: Any) -> tuple[Any, ...]:
        return self.row(element, None)

    def for_columns(self, shape: Shape) -> Callable[[Any], tuple[Any, ...]] | None:
        """Name the function that gives the same for elements of a shape; None: there is none.

        Bytes are messages as they are, so that keys and values can stay columns.
        """
        if self._message is not None or not (is_plain(self._key) and is_plain(self._value)):
            return None
        match shape:
            case TupleShape(items=(key, value)) if _is_bytes(key) and _is_bytes(value):
                return _of_pair
            case RecordShape(names=names, items=items) if names == ("key", "value"):
                return _of_record if all(map(_is_bytes, items)) else None
            case RecordShape(names=("value",), items=(value,)) if _is_bytes(value):
                return _of_value_alone
            case ScalarShape() if _is_bytes(shape):
                return _of_value
        return None

    def row(self, element: Any, millis: int | None) -> tuple[Any, ...]:
        """Give topic, partition, key, value, timestamp and headers."""
        if self._message is not None:
            element = self._message(element)
        if hasattr(element, "value"):
            key, value = getattr(element, "key", None), element.value
            topic, partition = getattr(element, "topic", None), getattr(element, "partition", None)
            own = getattr(element, "timestamp", None)
            if own is not None:
                millis = int(own.micros) // 1000 if isinstance(own, Timestamp) else int(own)
            headers = _headers(getattr(element, "headers", None))
        else:
            pair = isinstance(element, tuple) and len(element) == 2
            key, value = element if pair else (None, element)
            topic = partition = headers = None
        return (
            topic, partition, None if key is None else self._key(key),
            None if value is None else self._value(value), millis, headers,
        )


def _of_pair(element: Any) -> tuple[Any, ...]:
    return None, None, element[0], element[1], None, None


def _of_record(element: Any) -> tuple[Any, ...]:
    return None, None, element.key, element.value, None, None


def _of_value_alone(element: Any) -> tuple[Any, ...]:
    return None, None, None, element.value, None, None


def _of_value(element: Any) -> tuple[Any, ...]:
    return None, None, None, element, None, None


def _is_bytes(shape: Shape) -> bool:
    return isinstance(shape, ScalarShape) and shape.kind is ScalarKind.BYTES


class _Timed(beam.DoFn):  # type: ignore[misc]
    """The same, with the element's event time where it is a time in Kafka's range."""

    def __init__(self, encode: _Encode) -> None:
        self._encode = encode

    def process(self, element: Any, at: Any = beam.DoFn.TimestampParam) -> Any:
        """Give one row."""
        micros = at.micros
        # Beam's least and greatest times are no times of anything; Kafka's begin in 1970.
        usual = 0 <= micros < 253_402_300_800_000_000
        yield self._encode.row(element, micros // 1000 if usual else None)


def _headers(given: Any) -> list[tuple[str, bytes | None]] | None:
    if not given:
        return None
    pairs: Any = given.items() if isinstance(given, Mapping) else given
    found = []
    for header in pairs:
        name, value = (header.key, header.value) if hasattr(header, "key") else header
        found.append((name, value.encode() if isinstance(value, str) else value))
    return found
