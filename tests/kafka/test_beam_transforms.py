"""Beam's own Kafka transforms, as users write them, without any Java of Beam's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils import subprocess_server

import headrace
from headrace.compiler.compile import compile_pipeline
from headrace.errors import OptionError, UnsupportedTransformError
from headrace.io.frames import frames_of
from headrace.lab.experiments.kafka.memory_broker import MemoryKafka
from headrace.testing import LocalRunner

SERVERS = {"bootstrap.servers": "b:1"}
_SERIALIZATION = "org.apache.kafka.common.serialization."


@pytest.fixture(autouse=True)
def no_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may fetch one."""

    def fetch(*args: Any, **kwargs: Any) -> Any:
        pytest.fail("a jar was asked for")

    monkeypatch.setattr(subprocess_server.JavaJarServer, "local_jar", fetch)


def read_options(transform: Any) -> dict[str, str]:
    """What Spark's connector would be told."""
    pipeline = beam.Pipeline(runner=headrace.SparkRunner())
    _ = pipeline | transform
    (frame,) = frames_of(pipeline).sources.values()
    told: dict[str, str] = {}

    class Reader:
        def format(self, name: str) -> Reader:
            told["format"] = name
            return self

        def options(self, **given: str) -> Reader:
            told.update(given)
            return self

        def load(self) -> Reader:
            return self

        def limit(self, most: int) -> Reader:
            told["limit"] = str(most)
            return self

        def selectExpr(self, *_: str) -> Reader:
            return self

    class Session:
        read = readStream = Reader()

    frame.made(Session())
    return told


def test_a_read_is_replaced_before_it_is_expanded() -> None:
    told = read_options(
        ReadFromKafka({**SERVERS, "auto.offset.reset": "earliest", "fetch.min.bytes": "7"},
                      ["a", "b"])
    )  # fmt: skip
    assert told["format"] == "kafka"
    assert told["subscribe"] == "a,b"
    assert told["startingOffsets"] == "earliest"
    assert told["kafka.bootstrap.servers"] == "b:1"
    assert told["kafka.fetch.min.bytes"] == "7"
    assert told["kafka.isolation.level"] == "read_committed"


def test_a_read_begins_at_a_time_and_ends_after_a_number_of_records() -> None:
    told = read_options(
        ReadFromKafka(SERVERS, ["a"], start_read_time=1_700_000_000_123, max_num_records=10)
    )
    assert told["startingTimestamp"] == "1700000000123"
    assert (told["endingOffsets"], told["limit"]) == ("latest", "10")


@pytest.mark.parametrize(("arguments", "bounded"), [({}, False), ({"max_num_records": 5}, True)])
def test_the_pipeline_of_a_read_can_be_compiled(arguments: dict[str, Any], bounded: bool) -> None:
    """Also by way of its proto, into which Beam's own transform could not go."""
    pipeline = beam.Pipeline(runner=headrace.SparkRunner())
    found = pipeline | ReadFromKafka(
        {**SERVERS, "auto.offset.reset": "earliest"}, ["a"], with_metadata=True,
        redistribute=True, redistribute_num_keys=np.int32(2), **arguments,
    )
    assert found.is_bounded is bounded
    _ = found | beam.Map(lambda record: (record.topic, record.timestampTypeName, record.headers))
    proto = pipeline.to_runner_api()
    assert compile_pipeline(proto, shards=2, name="p", streaming=not bounded).supersteps


def test_a_read_that_would_begin_where_it_ends_is_refused_with_the_remedy() -> None:
    pipeline = beam.Pipeline(runner=headrace.SparkRunner())
    with pytest.raises(UnsupportedTransformError, match="it would read nothing") as refused:
        _ = pipeline | "Grind" >> ReadFromKafka(SERVERS, ["a"], max_num_records=10)
    assert '"auto.offset.reset": "earliest"' in str(refused.value)
    told = read_options(
        ReadFromKafka({**SERVERS, "auto.offset.reset": "earliest"}, ["a"], max_num_records=10)
    )
    assert told["startingOffsets"] == "earliest"


class GroupOfKafka:
    """As much of a consumer as tells where its group stands: one partition of two."""

    offsets: ClassVar[dict[int, int]] = {}

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["group.id"] == "watchers"

    def list_topics(self, **_: Any) -> Any:
        parts = SimpleNamespace(partitions={0: None, 1: None}, error=None)
        return SimpleNamespace(topics={"a": parts})

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 10, 50

    def committed(self, asked: list[Any], **_: Any) -> list[Any]:
        for each in asked:
            each.offset = self.offsets.get(each.partition, -1001)
        return asked

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    ("offsets", "reset", "begins"),
    [
        ({0: 17}, "latest", '{"a": {"0": 17, "1": 50}}'),
        ({0: 17}, "earliest", '{"a": {"0": 17, "1": -2}}'),
        ({0: 17, 1: 50}, "none", '{"a": {"0": 17, "1": 50}}'),
        ({0: 3, 1: 20}, "earliest", '{"a": {"0": -2, "1": 20}}'),  # 3 is there no more
        ({}, "earliest", "earliest"),
        ({}, "latest", "latest"),
    ],
    ids=["one of two", "one of two, earliest", "both", "one is gone", "none", "none, latest"],
)
def test_a_read_begins_where_its_group_stands(
    monkeypatch: pytest.MonkeyPatch, offsets: dict[int, int], reset: str, begins: str
) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", GroupOfKafka)
    monkeypatch.setattr(GroupOfKafka, "offsets", offsets)
    config = {**SERVERS, "group.id": "watchers", "auto.offset.reset": reset}
    assert read_options(ReadFromKafka(config, ["a"]))["startingOffsets"] == begins


def test_a_group_that_stands_nowhere_is_refused_where_there_is_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", GroupOfKafka)
    none = {**SERVERS, "group.id": "watchers", "auto.offset.reset": "none"}
    with pytest.raises(OptionError, match="auto.offset.reset is none"):
        read_options(ReadFromKafka(none, ["a"]))
    latest = {**SERVERS, "group.id": "watchers"}
    with pytest.raises(UnsupportedTransformError, match="it would read nothing"):
        read_options(ReadFromKafka(latest, ["a"], max_num_records=5))


def test_a_time_to_begin_at_comes_before_what_a_group_has_committed() -> None:
    config = {**SERVERS, "group.id": "watchers"}
    told = read_options(ReadFromKafka(config, ["a"], start_read_time=1_700_000_000_000))
    assert told["startingTimestamp"] == "1700000000000"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"value_deserializer": "io.confluent.kafka.serializers.KafkaAvroDeserializer"}, "Java"),
        ({"value_deserializer": f"{_SERIALIZATION}UUIDDeserializer"}, "ByteArrayDeserializer"),
        ({"max_read_time": 5}, "max_read_time"),
        ({"consumer_factory_fn_class": "a.B", "consumer_factory_fn_params": {"a": "b"}},
         "consumer_factory_fn_class"),
    ],
)  # fmt: skip
def test_what_only_java_could_do_is_refused_by_name(arguments: dict[str, Any], said: str) -> None:
    pipeline = beam.Pipeline(runner=headrace.SparkRunner())
    with pytest.raises(UnsupportedTransformError, match=said):
        _ = pipeline | "Grind" >> ReadFromKafka(SERVERS, ["a"], **arguments)


def test_pairs_are_written_by_beams_write(
    memory_kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.io.kafka.transactions.TransactionalProducer", memory_kafka.producer
    )
    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions([])) as pipeline:
        _ = (
            pipeline
            | beam.Create([(7, "a"), (-1, "b")])
            | WriteToKafka(
                SERVERS, "t", key_serializer=f"{_SERIALIZATION}LongSerializer",
                value_serializer=f"{_SERIALIZATION}StringSerializer",
            )
        )
    written = sorted((m[2], m[3]) for m in memory_kafka.topics["t"])
    assert written == [(b"\0\0\0\0\0\0\0\x07", b"a"), (b"\xff" * 8, b"b")]


def test_rows_with_headers_are_written_by_beams_write(
    memory_kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headrace.io.kafka.transactions.TransactionalProducer", memory_kafka.producer
    )
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        _ = (
            pipeline
            | beam.Create([1])
            | beam.Map(lambda _: beam.Row(
                key=b"k", value=b"v", headers=[beam.Row(key="h", value=b"x")], topic="other",
                partition=2, timestamp=1234,
            ))
            | WriteToKafka(SERVERS, "t", with_headers=True)
        )  # fmt: skip
    ((topic, partition, key, value, timestamp, headers),) = memory_kafka.topics["other"]
    assert (topic, partition, key, value, timestamp) == ("other", 2, b"k", b"v", 1234)
    assert [tuple(dict(h).values()) if isinstance(h, dict) else tuple(h) for h in headers] == [
        ("h", b"x")
    ]
