"""What the tests of Kafka share: a broker in memory, and a real one where it can be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.io.kafka.publish import AwayError, Position
from headrace.io.kafka.transactions import Address
from tests.kafka.broker import Broker, jars, running


class MemoryKafka:
    """Topics, markers and fences of a broker, as far as a sink knows them."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Any]] = {}
        self.markers: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.away = 0  # so many verbs from now on fail
        kafka = self

        class Producer:
            def __init__(self, address: Address) -> None:
                kafka.asked()
                self._address = address
                self._number = kafka.newest[address.name] = kafka.newest.get(address.name, 0) + 1
                self._open: list[tuple[str, Any]] = []
                self._after: Position | None = None

            def _check(self) -> None:
                kafka.asked()
                if kafka.newest[self._address.name] != self._number:
                    message = "fenced"
                    raise AwayError(message)

            def position(self) -> Position | None:
                self._check()
                found = kafka.markers.get(self._address.name)
                return None if found is None else Position.from_offset(found)

            def stage(self, messages: Any, after: Position | None) -> None:
                self._check()
                self._open = [(m[0] or self._address.topic, m) for m in messages]
                self._after = after

            def commit(self) -> None:
                self._check()
                for topic, message in self._open:
                    kafka.topics.setdefault(topic, []).append(message)
                if self._after is not None:
                    kafka.markers[self._address.name] = self._after.to_offset()

            def close(self) -> None:
                self._open = []

        self.producer = Producer

    def asked(self) -> None:
        """Fail if nobody is to answer."""
        if self.away:
            self.away -= 1
            message = "nobody answers"
            raise AwayError(message)


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
