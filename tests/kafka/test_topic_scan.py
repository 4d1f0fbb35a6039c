"""Workers that read topics themselves: messages between offsets, each once, with all parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.engine.scans.projections import NotPlain
from headrace.engine.scans.topic_scans import _settings
from headrace.engine.spark.jars import fetch, fetched
from headrace.errors import HeadraceError, TransportError
from headrace.lab.experiments.kafka.broker import Broker
from headrace.plan.scans import MICROS, ScanColumn, TopicPart, TopicScan
from headrace.worker.ends import topic_scan
from headrace.worker.ends.topic_scan import consumed
from tests.kafka import scan_driver

pytestmark = [pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
KINDS = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestampType": "int", "headers": "array<struct<key:string,value:binary>>",
}  # fmt: skip
COLUMNS = (
    *(ScanColumn(name, (name,), kind) for name, kind in KINDS.items()),
    ScanColumn("at", ("timestamp",), "timestamp"),
    ScanColumn("micros", ("timestamp",), MICROS),
    ScanColumn("source", ("topic", "partition"), "string"),
)
JUST_VALUES = (ScanColumn("value", ("value",), "binary"),)
BEGIN = 1_700_000_000_000


@pytest.fixture(autouse=True)
def no_consumers() -> Iterator[None]:
    """No consumer is left behind: its threads would look for a broker that is gone."""
    yield
    for connection in topic_scan._connections.values():
        connection.consumer.close()
    topic_scan._connections.clear()


def scan(broker: Broker, columns: Any = JUST_VALUES, **more: str) -> TopicScan:
    options = {"bootstrap.servers": broker.servers, **more}
    settings = _settings({f"kafka.{name}": value for name, value in options.items()})
    return TopicScan(tuple(columns), tuple(sorted(settings.items())))


def values(asked: TopicScan, *parts: TopicPart) -> list[int]:
    tables = list(consumed(asked, parts))
    return [int(value) for table in tables for value in table.column("value").to_pylist()]


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"value": b"%d" % n, "partition": 0} for n in range(count)]


def test_every_part_of_a_message_is_what_was_sent(broker: Broker) -> None:
    topic = broker.topic(2)
    broker.put(topic, [
        {"value": b"v", "key": b"k", "partition": 1, "timestamp": BEGIN,
         "headers": [("a", b"1"), ("a", None), ("b", b"")]},
        {"value": None, "key": b"gone", "partition": 1, "timestamp": BEGIN + 7},
        {"value": b"", "key": b"", "partition": 1, "timestamp": BEGIN + 1},
    ])  # fmt: skip
    (batch,) = consumed(scan(broker, COLUMNS), [TopicPart(topic, 1, 0, 3)])
    found = batch.to_pydict()
    assert found.pop("key") == [b"k", b"gone", b""]
    assert found.pop("value") == [b"v", None, b""]
    assert found.pop("headers") == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b""}],
        None, None,
    ]  # fmt: skip
    assert found.pop("micros") == [(BEGIN + n) * 1000 for n in (0, 7, 1)]
    assert found.pop("at") == pa.array(
        [(BEGIN + n) * 1000 for n in (0, 7, 1)], pa.timestamp("us", tz="UTC")
    ).to_pylist()
    assert found == {
        "topic": [topic] * 3, "partition": [1] * 3, "offset": [0, 1, 2], "timestampType": [0] * 3,
        "source": [f"{topic}-1"] * 3,
    }  # fmt: skip


def test_parts_are_read_from_their_first_to_before_their_last_in_their_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_scan, "COLUMN_ROWS", 1_000)
    topic = broker.topic(2)
    broker.put(topic, numbered(5_000))
    asked = scan(broker)
    assert values(asked, TopicPart(topic, 0, 0, 5_000)) == list(range(5_000))
    parts = [
        TopicPart(topic, 0, 4_000, 4_700), TopicPart(topic, 0, 17, 17), TopicPart(topic, 0, 3, 9),
    ]  # fmt: skip
    assert values(asked, *parts) == [*range(4_000, 4_700), *range(3, 9)]


def test_numbers_without_a_message_end_a_part_all_the_same(broker: Broker) -> None:
    """Markers of transactions have numbers; what was aborted has some too, and is no message."""
    from confluent_kafka import Producer

    topic = broker.topic(1)
    producer = Producer({
        "bootstrap.servers": broker.servers, "transactional.id": uuid.uuid4().hex,
    })  # fmt: skip
    producer.init_transactions(60)
    for count, ending in ((5, "commit"), (4, "abort"), (3, "commit"), (2, "abort")):
        producer.begin_transaction()
        for n in range(count):
            producer.produce(topic, b"%d" % (100 * count + n), partition=0)
        producer.flush(60)
        getattr(producer, f"{ending}_transaction")(60)
    committed, aborted = [500, 501, 502, 503, 504, 300, 301, 302], [400, 401, 402, 403, 200, 201]
    end = 5 + 1 + 4 + 1 + 3 + 1 + 2 + 1
    readers = {name: scan(broker, **{"isolation.level": name})
               for name in ("read_committed", "read_uncommitted")}  # fmt: skip
    assert values(readers["read_committed"], TopicPart(topic, 0, 0, end)) == committed
    everything = values(readers["read_uncommitted"], TopicPart(topic, 0, 0, end))
    assert sorted(everything) == sorted(committed + aborted)
    assert values(readers["read_committed"], TopicPart(topic, 0, 3, 8)) == [503, 504]
    assert values(readers["read_committed"], TopicPart(topic, 0, 6, 12)) == [300]


def test_what_is_not_there_is_an_error_that_says_which_offset(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_scan, "SILENCE_SECONDS", 1.0)
    topic = broker.topic(1)
    broker.put(topic, numbered(3))
    with pytest.raises(TransportError, match=rf"offset 70 of {topic}, partition 0, cannot be read"):
        values(scan(broker), TopicPart(topic, 0, 70, 80))
    assert values(scan(broker), TopicPart(topic, 0, 0, 3)) == [0, 1, 2]
    with pytest.raises(TransportError, match="partition 9"):
        values(scan(broker), TopicPart(topic, 9, 0, 3))


def test_a_broker_that_is_away_is_named_when_patience_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_scan, "SILENCE_SECONDS", 1.0)
    settings = _settings({"kafka.bootstrap.servers": "127.0.0.1:1"})
    asked = TopicScan(JUST_VALUES, tuple(sorted(settings.items())))
    with pytest.raises(TransportError, match=r"nothing came for 1 s \(_\w+: .*127\.0\.0\.1:1"):
        values(asked, TopicPart("t", 0, 0, 3))


def test_options_that_the_client_library_might_take_otherwise_are_left_to_spark() -> None:
    told = {"kafka.bootstrap.servers": "a:9092"}
    assert _settings(told)["isolation.level"] == "read_uncommitted"  # as Java's client has it
    assert "hush" not in repr(TopicScan((), (("sasl.password", "hush"),)))
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
    known = _settings({**told, "kafka.sasl.jaas.config": f'{login}password="p";',
                       "failOnDataLoss": "true", "maxOffsetsPerTrigger": "3"})  # fmt: skip
    assert (known["sasl.username"], known["sasl.password"]) == ("u", "p")
    for name, value in {
        "failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "1", "groupIdPrefix": "x",
        "kafka.group.id": "g", "kafka.max.partition.fetch.bytes": "9",
        "kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS",
        "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;",
    }.items():  # fmt: skip
        with pytest.raises(NotPlain):
            _settings({**told, name: value})
    by_ssl = {**told, "kafka.security.protocol": "SASL_SSL"}
    java_logs_in = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "ca.pem"}
    java_trusts = {"kafka.sasl.jaas.config": f'{login}password="p";'}
    for more in (java_logs_in, java_trusts):
        with pytest.raises(NotPlain):
            _settings({**by_ssl, **more})
    secure = _settings({**by_ssl, **java_logs_in, **java_trusts})
    assert (secure["ssl.ca.location"], secure["sasl.username"]) == ("ca.pem", "u")


@pytest.mark.spark
def test_workers_are_given_the_rows_that_spark_gives(broker: Broker, tmp_path: Path) -> None:
    """In a process of its own, whose session has the connector's jars from its start."""
    try:
        if not fetched("kafka"):
            fetch("kafka")
    except HeadraceError as error:
        pytest.skip(f"no connector of Spark's: {error}")
    topic = broker.topic(3)
    broker.put(topic, scan_driver.messages(700))
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.scan_driver", broker.servers, topic, str(tmp_path)],
        cwd=ROOT, text=True, capture_output=True, env=dict(os.environ), timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["differ"] == []
    assert found["rows"] == {"committed": 500, "all parts": 500, "plain": 500}
    assert found["left to Spark"] == sorted(scan_driver.LEFT)
