"""What a consumer group is told of a pipeline, and what is said where it cannot be told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.io.kafka.client import GroupOffsets
from headrace.io.kafka.transactions import Address, TransactionalProducer
from headrace.lab.experiments.kafka.broker import Broker

POSITION = {"t": {"0": 7, "1": 9}}


class LateAnswers:
    """As much of a consumer as answers when it is asked for what has come, as librdkafka does."""

    def __init__(self, settings: dict[str, Any], error: Any) -> None:
        self._tell: Callable[[Any, list[Any]], None] = settings["on_commit"]
        self._error, self._open = error, []  # type: ignore[var-annotated]

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        self._open.append(offsets)

    def poll(self, seconds: float) -> None:
        assert seconds == 0
        while self._open:
            self._tell(self._error, self._open.pop(0))


@pytest.mark.parametrize("whose", ["the group's", "a partition's"])
def test_a_commit_that_fails_later_is_told_of(
    whose: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = "GROUP_AUTHORIZATION_FAILED for s3cret"

    def consumer(settings: dict[str, Any]) -> Any:
        return LateAnswers(settings, error if whose == "the group's" else None)

    def part(topic: str, number: int, offset: int) -> Any:
        return SimpleNamespace(
            topic=topic, partition=number, offset=offset,
            error=error if whose == "a partition's" and number == 1 else None,
        )

    monkeypatch.setattr("confluent_kafka.Consumer", consumer)
    monkeypatch.setattr("confluent_kafka.TopicPartition", part)
    group = GroupOffsets("watchers", {"bootstrap.servers": "b:1", "sasl.password": "s3cret"})
    with caplog.at_level(logging.WARNING):
        group.reached(POSITION)
    (said,) = caplog.messages
    assert "the offsets of group watchers could not be committed" in said
    assert "GROUP_AUTHORIZATION_FAILED" in said and "s3cret" not in said


def test_a_commit_that_comes_through_is_not_spoken_of(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.topic(2)
    assert broker.committed("watch-client", topic, 2) == [-1001, -1001]  # it has loaded its groups
    group = GroupOffsets("watch-client", {"bootstrap.servers": broker.servers})
    with caplog.at_level(logging.WARNING):
        group.reached({topic: {"0": 3, "1": 0}})
        group.reached({topic: {"0": 5, "1": 0}})
        group.close()
    assert broker.committed("watch-client", topic, 2) == [5, 0]
    assert caplog.messages == []


def test_a_producer_is_connected_before_it_asks_for_what_waits_half_a_second_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    class Producer:
        def __init__(self, settings: dict[str, Any], **_: Any) -> None:
            assert settings["transactional.id"] == "n"

        def list_topics(self, timeout: float) -> None:
            calls.append("list_topics")
            assert timeout < 5
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def init_transactions(self, timeout: float) -> None:
            del timeout
            calls.append("init_transactions")

    monkeypatch.setattr("confluent_kafka.Producer", Producer)
    TransactionalProducer(
        Address(step="s", topic="t", options={"bootstrap.servers": "127.0.0.1:9"}, name="n")
    )
    assert calls == ["list_topics", "init_transactions"], "the second one says what is wrong"
