"""Kafka behind the verbs of `publish`: transactions of the client library `confluent-kafka`.

The marker is the offset that a consumer group of the sink's own has committed for partition 0 of
the sink's topic; a transaction moves it together with its messages. The name of the transactions
is the sink's own too: the broker lets only the newest producer of that name go on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from headrace.errors import PublishError
from headrace.io.kafka.client import client
from headrace.io.kafka.options import for_client, scrubbed
from headrace.io.kafka.publish import AwayError, Position

_LOG = logging.getLogger(__name__)

#: How long one question to the broker may take before it counts as away.
_SECONDS = 30.0
#: How long a producer is given to connect before it is asked for what it cannot do without.
_CONNECT_SECONDS = 2.0
#: What asking again does not mend: names of errors of librdkafka.
_FINAL = frozenset({
    "MSG_SIZE_TOO_LARGE", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED", "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION",
    "INVALID_TRANSACTION_TIMEOUT", "_INVALID_ARG", "TOPIC_EXCEPTION", "POLICY_VIOLATION",
    "INVALID_RECORD", "UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a sink publishes, and under which name."""

    step: str  # of the pipeline, for people
    topic: str  # of messages that name none; its partition 0 has the marker
    options: Mapping[str, str]
    name: str  # of its transactions and of the group that holds the marker


def name_of(prefix: str, writer: str) -> str:
    """Give the name of a sink of a run; the same after a restart, and nobody else's."""
    return f"{prefix}{hashlib.sha256(writer.encode()).hexdigest()[:24]}"


class TransactionalProducer:
    """One producer. Making it shuts out all older ones of the name, and ends what they had open.

    Args:
        address: where to.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._library = client("WriteToKafka")
        self._said = ""  # what the library last complained of, in the background
        given = for_client(address.options)
        # A key goes to the partition to which Java's producers send it.
        defaults = {
            "linger.ms": "20", "compression.type": "lz4", "partitioner": "murmur2_random",
            "queue.buffering.max.messages": "500000",
            "log_level": "3",  # a broker that asks for patience is worth no warning
        }  # fmt: skip
        with self._asking("shut out older producers"):
            self._consumer = self._library.Consumer(
                {**_plain(given), "group.id": address.name, "enable.auto.commit": False,
                 "isolation.level": "read_committed"}, logger=_LOG,
            )  # fmt: skip
            self._producer = self._library.Producer(
                {**defaults, **given, "transactional.id": address.name, "error_cb": self._heard},
                logger=_LOG,
            )
            self._group = self._consumer.consumer_group_metadata()
            with suppress(self._library.KafkaException):  # the next call says what is wrong
                # Before it is connected, the library asks for the coordinator once, gets no answer,
                # and asks again after half a second.
                self._producer.list_topics(timeout=_CONNECT_SECONDS)
            self._producer.init_transactions(_SECONDS)

    def position(self) -> Position | None:
        """Read the marker, once no transaction is about to change it."""
        mark = self._library.TopicPartition(self._address.topic, 0)
        with self._asking("read the marker"):
            try:
                (found,) = self._consumer.committed([mark], timeout=_SECONDS)
            except self._library.KafkaException as raised:
                if raised.args[0].name() == "_TIMED_OUT":
                    self._refuse_unstable(mark)
                raise
            if found.error is not None:
                raise self._library.KafkaException(found.error)
        return None if found.offset < 0 else Position.from_offset(found.offset)

    def _refuse_unstable(self, mark: Any) -> None:
        """Say it if the broker keeps a transaction on the marker open; the client only waits.

        A consumer of uncommitted messages does not wait for it: if that one is answered, it is the
        transaction that the other one waited for. (The client library could be asked outright, by
        `AdminClient.list_consumer_group_offsets`; librdkafka 2.16.0 ends the process there when the
        broker says NOT_COORDINATOR, as one that was started again does for a while.)
        """
        consumer = self._library.Consumer(
            {**_plain(for_client(self._address.options)), "group.id": self._address.name,
             "enable.auto.commit": False, "isolation.level": "read_uncommitted"}, logger=_LOG,
        )  # fmt: skip
        try:
            (found,) = consumer.committed([mark], timeout=_SECONDS)
            if found.error is not None:
                return
        except self._library.KafkaException:
            return  # it does not answer at all
        finally:
            consumer.close()
        msg = (
            f"{self._address.step}: could not read the marker: a transaction on it is open in the "
            f"broker although every producer named {self._address.name!r} was shut out. If this "
            "stays, the broker has lost the end of a transaction (it was killed just then): find "
            "and end it with `kafka-transactions.sh find-hanging` and `abort`. A transaction that "
            "was committed is in the outbox no longer: look into the topic before you abort it"
        )
        raise AwayError(msg)

    def stage(self, messages: Iterable[Any], after: Position | None) -> None:
        """Begin a transaction, send messages in it, and move the marker, if there is to be one."""
        producer, topic = self._producer, self._address.topic
        produce = producer.produce
        with self._asking("publish"):
            producer.begin_transaction()
            for own, partition, key, value, timestamp, headers in messages:
                # Most messages have nothing more, and a call with names takes longer.
                bare = partition is None and timestamp is None and not headers
                while True:
                    try:
                        # Most messages have nothing more, and a call with names takes longer.
                        if bare:
                            produce(own or topic, value, key)
                        else:
                            more = _more(partition, timestamp, headers)
                            produce(own or topic, value, key, **more)
                        break
                    except BufferError:
                        producer.poll(0.05)
            self._flush()
            if after is not None:
                mark = self._library.TopicPartition(topic, 0, after.to_offset())
                producer.send_offsets_to_transaction([mark], self._group, _SECONDS)

    def _flush(self) -> None:
        """Wait until the broker has all messages, for as long as it takes more of them."""
        left = len(self._producer)
        while left:
            before, left = left, self._producer.flush(_SECONDS)
            if left == before:
                reason = f"{left} messages wait, and none of them was taken for {_SECONDS:.0f} s"
                error = self._library.KafkaError(self._library.KafkaError._TIMED_OUT, reason)  # noqa: SLF001 (its public name)
                raise self._library.KafkaException(error)

    def commit(self) -> None:
        """Make the transaction count."""
        with self._asking("commit"):
            self._producer.commit_transaction(_SECONDS)

    def close(self) -> None:
        """Let go; a transaction that is open is ended by the next producer of the name."""
        with suppress(Exception):
            self._producer.purge()
        with suppress(Exception):
            self._consumer.close()

    def _heard(self, error: Any) -> None:
        self._said = str(error)
        # Told in the background and nowhere else: the verbs would only find that time is over.
        if error.name() in _FINAL:
            self._said = f"{error.name()}: {error.str()}"

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        library = self._library
        try:
            yield
        except library.KafkaException as raised:
            error = raised.args[0]
            reason = f"{error.name()}, {error.str()}"
            if self._said and self._said not in reason:
                reason += f" ({self._said})"
            reason = scrubbed(reason, self._address.options)
            msg = f"{self._address.step}: could not {what}: {reason}"
            final = error.name() in _FINAL or self._said.partition(":")[0] in _FINAL
            kind = PublishError if final else AwayError
            raise kind(msg) from None


def publish_once(address: Address, messages: Iterable[Any]) -> None:
    """Publish all messages in one transaction: readers of committed messages see all, or none.

    A transaction that is open for longer than `transaction.timeout.ms` is ended by the broker.
    """
    try:
        producer = TransactionalProducer(address)
        try:
            producer.stage(messages, None)
            producer.commit()
        finally:
            producer.close()
    except AwayError as error:
        msg = (
            f"{error}. Readers of committed messages see nothing of it; run the pipeline again. If "
            "it took long, raise the option transaction.timeout.ms"
        )
        raise PublishError(msg) from None


def _more(partition: int | None, timestamp: int | None, headers: Any) -> dict[str, Any]:
    """Give what `produce` is told beside topic, value and key."""
    found: dict[str, Any] = {}
    if partition is not None:
        found["partition"] = partition
    if timestamp is not None:
        found["timestamp"] = timestamp
    if headers:
        found["headers"] = [
            (h["key"], h["value"]) if isinstance(h, dict) else (h[0], h[1]) for h in headers
        ]
    return found


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    """Leave out what is a producer's alone: a consumer warns of it."""
    mine = ("acks", "linger.", "batch.", "compression.", "transaction.", "queue.", "message.")
    return {name: value for name, value in options.items() if not name.startswith(mine)}

