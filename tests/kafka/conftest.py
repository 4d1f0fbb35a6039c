"""What the tests of Kafka share: a broker in memory, and a real one where it can be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.lab.experiments.kafka.broker import Broker, jars, running
from headrace.lab.experiments.kafka.memory_broker import MemoryKafka


@pytest.fixture
def memory_kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """A broker in memory, behind the sink of this process."""
    kafka = MemoryKafka()
    monkeypatch.setattr("headrace.io.kafka.sink.TransactionalProducer", kafka.producer)
    return kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker; tests that ask for it are left out where its jars cannot be had."""
    if jars() is None:
        pytest.skip("scripts/ensure_kafka.sh says what is missing for a Kafka broker")
    with running(Path(tmp_path_factory.mktemp("kafka")) / "broker") as found:
        yield found
