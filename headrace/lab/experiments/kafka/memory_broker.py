"""A broker in memory: topics, markers and fences, as far as `WriteToKafka` knows them.

Stands behind the sink where `headrace.io.kafka.transactions` would have Kafka: four verbs, and a
connection that shuts out all older ones of the same sink. Put `MemoryKafka().producer` in place of
`headrace.io.kafka.sink.TransactionalProducer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headrace.io.kafka.publish import AwayError, Position
from headrace.io.kafka.transactions import Address

T = TypeVar("T")


class MemoryKafka:
    """All that a broker holds."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Any]] = {}
        self.markers: dict[str, int] = {}
        self.newest: dict[str, int] = {}
        self.away = 0  # so many verbs from now on fail

    def producer(self, address: Address) -> MemoryProducer:
        """Connect."""
        return MemoryProducer(self, address)

    def answer(self, verb: str, effect: Callable[[], T]) -> T:
        """Do what a verb asks for, unless nobody is to answer."""
        del verb
        if self.away:
            self.away -= 1
            message = "nobody answers"
            raise AwayError(message)
        return effect()


class MemoryProducer:
    """A connection; see `headrace.io.kafka.publish.Producer`."""

    def __init__(self, kafka: MemoryKafka, address: Address) -> None:
        self._kafka = kafka
        self._address = address
        self._open: list[tuple[str, Any]] = []
        self._after: Position | None = None
        self._number = kafka.answer("connect", self._shut_out)

    def position(self) -> Position | None:
        """Read the marker."""
        return self._kafka.answer("position", self._read)

    def stage(self, messages: Any, after: Position | None) -> None:
        """Begin a transaction: until it is committed nobody sees anything of it."""

        def take() -> None:
            self._check()
            self._open = [(message[0] or self._address.topic, message) for message in messages]
            self._after = after

        self._kafka.answer("stage", take)

    def commit(self) -> None:
        """Make messages and marker count together."""

        def count() -> None:
            self._check()
            for topic, message in self._open:
                self._kafka.topics.setdefault(topic, []).append(message)
            if self._after is not None:
                self._kafka.markers[self._address.name] = self._after.to_offset()

        self._kafka.answer("commit", count)

    def close(self) -> None:
        """Forget what is open."""
        self._open = []

    def _shut_out(self) -> int:
        name = self._address.name
        self._kafka.newest[name] = self._kafka.newest.get(name, 0) + 1
        return self._kafka.newest[name]

    def _read(self) -> Position | None:
        self._check()
        found = self._kafka.markers.get(self._address.name)
        return None if found is None else Position.from_offset(found)

    def _check(self) -> None:
        if self._kafka.newest[self._address.name] != self._number:
            message = "fenced"
            raise AwayError(message)
