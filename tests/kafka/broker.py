"""A Kafka broker on this machine, in KRaft mode: one process, on free ports of loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: A JVM on a busy machine.
START_SECONDS = 180.0

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
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
    found = subprocess.run(
        [str(ROOT / "scripts/ensure_kafka.sh")], capture_output=True, text=True, check=False
    )
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def create(servers: str, topic: str, partitions: int) -> str:
    """Make a topic."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(topic, partitions, 1)])
    made[topic].result(60)
    return topic


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
            _PROPERTIES.format(port=self.port, controller=free_port(), folder=folder),
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

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        from confluent_kafka.admin import AdminClient

        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._properties)], stdout=log, stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
                if admin.list_topics(timeout=2).brokers:
                    self._transact()
                    return
            except Exception as error:
                if time.monotonic() > end or self._process.poll() is not None:
                    said = (self._folder / "broker.log").read_text(errors="replace")[-2000:]
                    message = f"the broker has not started: {error}\n{said}"
                    raise AssertionError(message) from error
            time.sleep(0.2)

    def _transact(self) -> None:
        """See a transaction through.

        A broker answers before it has found the way to itself by which it ends transactions. One
        that was begun before it was killed, and is to be ended just then, was seen to hang for
        good: whoever has its id waits for ever.
        """
        from confluent_kafka import Producer

        producer = Producer({
            "bootstrap.servers": self.servers, "log_level": 0,
            "transactional.id": f"start-{uuid.uuid4().hex}",
        })  # fmt: skip
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce(self.topic(), b"started")
        producer.commit_transaction(10)

    def kill(self) -> None:
        """End the broker as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

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
        assert producer.flush(60) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """All messages of a topic, as a reader of committed data sees them, by partition."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer({
            "bootstrap.servers": self.servers, "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": isolation, "enable.auto.commit": False,
            "enable.partition.eof": True, "auto.offset.reset": "earliest",
        })  # fmt: skip
        try:
            parts = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, part, 0) for part in parts])
            open_parts, found = set(parts), []
            while open_parts:
                came = consumer.consume(10_000, 1.0) or [consumer.poll(30)]
                for message in came:
                    assert message is not None, f"nothing of {topic} came within 30 s"
                    if message.error() is None:
                        found.append(message)
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        open_parts.discard(message.partition())
            return found
        finally:
            consumer.close()


    def count(self, topic: str) -> int:
        """How many messages a reader of committed ones sees."""
        return len(self.read(topic))

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
    assert library is not None
    broker = Broker(folder, library)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        if "HEADRACE_KEEP" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)
