"""A Kafka broker on this machine, in KRaft mode: one process, on free ports of loopback.

Started by measurements, fault campaigns and tests alike; it can be killed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import OptionError, TransportError
from headrace.lab.commands import PACKAGES

#: Names a folder with the jars of a broker.
FOLDER = "HEADRACE_KAFKA_BROKER"
#: A JVM on a busy machine.
START_SECONDS = 180.0

#: Where a broker keeps what consumer groups have committed, in the two partitions asked for below.
_GROUPS = "__consumer_offsets"
#: A name of a group for each partition: its hash, as Java has it, is 97, 98.
_A_GROUP_OF_EACH = ("a", "b")

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=1500
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
num.partitions=1
log.retention.ms=-1
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def jars() -> Path | None:
    """Where the broker's jars are; None if they cannot be had here."""
    script = PACKAGES / "scripts" / "ensure_kafka.sh"
    if script.is_file():
        found = subprocess.run([str(script)], capture_output=True, text=True, check=False)
        return Path(found.stdout.strip()) if found.returncode == 0 else None
    told = os.environ.get(FOLDER, "")
    return Path(told) if told and any(Path(told).glob("kafka_2.13-*.jar")) else None


def free_port(*others: int) -> int:
    """A port of loopback that nobody has, and that the system gives to nobody who names none.

    A broker is told its port before it starts, and has it again when it comes back. Those that the
    system hands out go to each connection that is made meanwhile.
    """
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        first = 49_152  # where they begin by agreement
    room = min(12_000, first - 1_024)
    for _ in range(100):
        asked = first - 1 - secrets.randbelow(room) if room > 0 else 0  # 0: whichever it gives
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", asked))
            port = int(probe.getsockname()[1])
            if port not in others:
                return port
    msg = f"no port below {first} is free"
    raise TransportError(msg)


def create(servers: str, topic: str, partitions: int) -> str:
    """Make a topic."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(topic, partitions, 1)])
    made[topic].result(60)
    return topic


class Answer(NamedTuple):
    """How many values, and the sum of their check sums: in whatever order they are."""

    messages: int
    sums: int

    @classmethod
    def of(cls, values: Iterable[bytes]) -> Answer:
        """Look at values."""
        count = sums = 0
        for value in values:
            count += 1
            sums += zlib.crc32(value)
        return cls(count, sums)


class Broker:
    """One broker; it can be killed and started again on its data."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder = folder
        self._library = library
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._properties = folder / "server.properties"
        self._properties.write_text(
            _PROPERTIES.format(port=self.port, controller=free_port(self.port), folder=folder),
            encoding="utf-8",
        )
        with (folder / "format.log").open("wb") as log:
            subprocess.run(
                [*self._java("kafka.tools.StorageTool"), "format", "--standalone", "-t",
                 "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._properties)],
                check=True, stdout=log, stderr=log,
            )

    def _java(self, main: str) -> list[str]:
        return [
            "java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{self._library}/*", main,
        ]

    @property
    def pid(self) -> int:
        """The process of a broker that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the broker, and wait until it answers, and answers for consumer groups too.

        Kafka 4.3.1 may lose the latter for good when it starts on its data: it begins to load the
        groups as the leader it was before, is no leader while it registers anew, and takes the
        failure of that load for the answer to the next one too. Clients are told NOT_COORDINATOR
        until it is started again, which is what this does.
        """
        end = time.monotonic() + START_SECONDS
        self._launch(end)
        while not self._knows_groups():
            if time.monotonic() > end:
                msg = f"the broker answers for no consumer groups after {START_SECONDS:.0f} s"
                raise TransportError(msg)
            self.crash()
            self._launch(end)

    def _launch(self, end: float) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._properties)], stdout=log, stderr=log,
                start_new_session=True,
            )
        while not self._answers():
            if time.monotonic() > end or self._process.poll() is not None:
                said = (self._folder / "broker.log").read_text(errors="replace")[-2000:]
                msg = f"the broker has not started\n{said}"
                raise TransportError(msg)
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether the broker tells who it is."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        try:
            admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
            return bool(admin.list_topics(timeout=10).brokers)
        except KafkaException:
            return False

    def _knows_groups(self, seconds: float = 15.0) -> bool:
        """Whether the broker answers for consumer groups, or comes to, in time."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        end = time.monotonic() + seconds
        for group in _A_GROUP_OF_EACH:
            consumer = Consumer({
                "bootstrap.servers": self.servers, "group.id": group, "log_level": 0
            })  # fmt: skip
            try:
                if _GROUPS not in consumer.list_topics(timeout=30).topics:
                    return True  # no group yet, so there is nothing to load
                while True:
                    try:
                        consumer.committed([TopicPartition(_GROUPS, 0)], timeout=seconds)
                        break
                    except KafkaException:
                        if time.monotonic() > end:
                            return False
                        time.sleep(0.1)
            finally:
                consumer.close()
        return True

    def kill(self) -> None:
        """End the broker as a crash would, while no transaction is being ended.

        A broker that is killed between the end of a transaction and the markers that say so in the
        partitions forgets the markers when it starts: Kafka 4.3.1 as the only broker calls the
        transaction complete, and readers of committed messages wait for ever (KIP-664 calls it a
        hanging transaction). What the sink does then is `test_a_hanging_transaction_is_told_of`.
        """
        if self._process is not None:
            self._settle()
            self.crash()

    def crash(self) -> None:
        """End the broker at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _settle(self, seconds: float = 10.0) -> None:
        """Wait until all that was sent is committed or taken back, for a while."""
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        parts = {
            TopicPartition(name, part): OffsetSpec.latest()
            for name, topic in admin.list_topics(timeout=30).topics.items()
            for part in topic.partitions
        }
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            committed, sent = (
                {part: found.result().offset for part, found in asked.items()}
                for asked in (
                    admin.list_offsets(parts, isolation_level=level)
                    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
                )
            )
            if committed == sent:
                return
            time.sleep(0.02)

    def create(self, topic: str, partitions: int = 1) -> str:
        """Make a topic."""
        return create(self.servers, topic, partitions)

    def topic(self, partitions: int = 1) -> str:
        """Make a topic of a name that nobody has."""
        return self.create(f"t-{uuid.uuid4().hex[:12]}", partitions)

    def put(self, topic: str, messages: Iterable[Mapping[str, Any]]) -> None:
        """Send messages: `value`, and perhaps key, partition, timestamp (ms) and headers."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for message in messages:
            while True:
                try:
                    producer.produce(topic, **message)
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(60)
        if left:
            msg = f"{left} messages were not sent within 60 s"
            raise TransportError(msg)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of a topic, as a reader of committed data sees them, by partition."""
        return list(self.messages(topic, isolation))

    def messages(self, topic: str, isolation: str = "read_committed") -> Iterator[Any]:
        """Give the same one by one: millions need not be in memory together."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer({
            "bootstrap.servers": self.servers, "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": isolation, "enable.auto.commit": False,
            "enable.partition.eof": True, "auto.offset.reset": "earliest",
        })  # fmt: skip
        try:
            parts = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, part, 0) for part in parts])
            open_parts = set(parts)
            while open_parts:
                came = consumer.consume(10_000, 1.0) or [consumer.poll(30)]
                for message in came:
                    if message is None:
                        msg = f"nothing of {topic} came within 30 s"
                        raise TransportError(msg)
                    if message.error() is None:
                        yield message
                    elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its only name)
                        open_parts.discard(message.partition())
        finally:
            consumer.close()

    def answer(self, topic: str) -> Answer:
        """What a reader of committed messages sees, in short."""
        return Answer.of(message.value() for message in self.messages(topic))

    def do_a_transaction(self) -> None:
        """Publish nothing in a transaction: the first one waits for topics of the broker's own."""
        from headrace.io.kafka.publish import Position
        from headrace.io.kafka.transactions import Address, TransactionalProducer

        producer = TransactionalProducer(Address(
            step="first", topic=self.topic(), options={"bootstrap.servers": self.servers},
            name="headrace-lab-first",
        ))  # fmt: skip
        try:
            producer.stage((), Position(0, 0))
            producer.commit()
        finally:
            producer.close()

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """The offsets that a consumer group has committed."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group})
        try:
            parts = [TopicPartition(topic, number) for number in range(partitions)]
            return [part.offset for part in consumer.committed(parts, timeout=30)]
        finally:
            consumer.close()


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """A broker for the length of a block."""
    library = jars()
    if library is None:
        msg = (
            "there is no Kafka broker here: name a folder with the jars of org.apache.kafka:"
            f"kafka_2.13 in {FOLDER}; scripts/ensure_kafka.sh of the project fetches them by Maven"
        )
        raise OptionError(msg)
    broker = Broker(folder, library)
    try:
        broker.start()
        yield broker
    finally:
        broker.crash()
        if "HEADRACE_KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)
