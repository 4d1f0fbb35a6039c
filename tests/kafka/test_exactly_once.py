"""A streaming pipeline into Kafka: a driver that ends in any gap, and messages seen once each."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import TimestampedValue

from headrace.engine.publishing import Publishing
from headrace.errors import CheckpointError, OptionError
from headrace.io import WriteToKafka
from headrace.lab.experiments.kafka.broker import Broker
from headrace.lab.experiments.kafka.memory_broker import MemoryKafka
from headrace.state.crash_points import Point, Publication, observed
from headrace.testing import LocalRunner
from headrace.testing.host import LocalHost

pytestmark = [pytest.mark.timeout(300)]

EPOCHS = 5
KEYS = ("a", "b", "c")
RIGHT = Counter((key, n) for key in KEYS for n in range(1, EPOCHS + 1))
#: Of the driver; those of tasks are the same to a sink.
GAPS = [
    Point.BEFORE_TASKS, Point.BEFORE_SINKS, Point.BETWEEN_SINKS, Point.AFTER_SINKS,
    Point.AFTER_MANIFEST, *Publication,
]  # fmt: skip


class Count(beam.DoFn):  # type: ignore[misc]
    """Tells how often a key came so far, with a mark that is another one in every attempt."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self,
        pair: tuple[str, int],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Iterator[tuple[str, str]]:
        seen.add(1)
        yield pair[0], f"{pair[0]} {seen.read()} {uuid.uuid4().hex}"


def run(folder: Path, servers: str, topic: str, **more: Any) -> Any:
    result = started(folder, servers, topic, **more)
    result.wait_until_finish()
    return result


def started(folder: Path, servers: str, topic: str, *, shards: int = 2, **more: Any) -> Any:
    options = [f"--checkpoint={folder / 'checkpoint'}", f"--shards={shards}", "--progress=off"]
    options += more.pop("options", [])
    pipeline = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(options))
    script = test_stream.TestStream()
    for epoch in range(EPOCHS):
        script = script.add_elements([TimestampedValue((key, epoch), epoch) for key in KEYS])
    _ = (
        pipeline
        | script.advance_watermark_to_infinity()
        | beam.ParDo(Count())
        | WriteToKafka(servers, topic, key="text", value="text", max_per_transaction=2, **more)
    )
    return pipeline.run()


class EndedError(Exception):
    """The driver ends here."""


def ending(*gaps: tuple[Any, int]) -> Any:
    left = list(gaps)

    def end(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) in left:
            left.remove((point, epoch))
            raise EndedError

    return observed(end)


def counted(values: list[bytes]) -> Counter[tuple[str, int]]:
    parts = [value.decode().split() for value in values]
    return Counter((key, int(n)) for key, n, _ in parts)


@pytest.mark.parametrize("gap", GAPS)
def test_a_driver_that_ends_in_a_gap_is_followed_by_one_that_publishes_each_message_once(
    memory_kafka: MemoryKafka, tmp_path: Path, gap: Any
) -> None:
    with ending((gap, 3)), pytest.raises(EndedError):
        run(tmp_path, "b:1", "t")
    run(tmp_path, "b:1", "t", shards=3)
    found = memory_kafka.topics["t"]
    assert counted([message[3] for message in found]) == RIGHT
    assert {message[2] for message in found} == {b"a", b"b", b"c"}
    # Nothing is left in the outbox but who may write there.
    assert not [p for p in (tmp_path / "checkpoint" / "outbox").rglob("*.parquet")]


def test_drivers_that_end_in_one_gap_after_the_other(
    memory_kafka: MemoryKafka, tmp_path: Path
) -> None:
    order = [(gap, epoch) for epoch in range(1, 5) for gap in GAPS]
    ended = 0
    for gap, epoch in order:
        with ending((gap, epoch)):
            try:
                run(tmp_path, "b:1", "t", shards=1 + epoch % 3)
            except EndedError:
                ended += 1
    run(tmp_path, "b:1", "t")
    assert ended >= len(Publication) * 4
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT


def test_the_next_epoch_runs_while_one_is_published_and_counts_if_that_is_killed(
    memory_kafka: MemoryKafka, tmp_path: Path
) -> None:
    """The publication of epoch 2 stands still until epoch 3 counts, and then never goes on."""
    counts = threading.Event()
    epochs: list[int] = []

    def look(point: Any, epoch: int, *more: str) -> None:
        del more
        if point is Point.AFTER_MANIFEST:
            epochs.append(epoch)
            if epoch == 3:
                counts.set()
        elif (point, epoch) == (Publication.STAGED, 2):
            assert counts.wait(60)
            raise EndedError

    with observed(look), pytest.raises(EndedError):
        run(tmp_path, "b:1", "t")
    assert epochs == [0, 1, 2, 3]  # what is set aside and not published is of two epochs at most
    assert len(memory_kafka.topics["t"]) == len(KEYS)
    run(tmp_path, "b:1", "t", shards=3)
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT


def test_stages_end_once_and_before_the_last_publication_is_waited_for(
    memory_kafka: MemoryKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    end_stages, wait = LocalHost.end_stages, Publishing.wait

    def noted_end(host: LocalHost, *which: Any) -> None:
        order.append("stages end")
        end_stages(host, *which)

    def noted_wait(publishing: Publishing) -> None:
        order.append("waits")
        wait(publishing)

    monkeypatch.setattr(LocalHost, "end_stages", noted_end)
    monkeypatch.setattr(Publishing, "wait", noted_wait)
    run(tmp_path, "b:1", "t")
    assert order[-2:] == ["stages end", "waits"]
    assert order.count("stages end") == 1
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT


def test_a_run_that_is_stopped_while_the_broker_is_away_ends_and_leaves_what_waits(
    memory_kafka: MemoryKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = threading.Event()

    def look(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (Point.AFTER_MANIFEST, 2):
            memory_kafka.away = 10**9
        if (point, epoch) == (Point.AFTER_MANIFEST, 3):
            counts.set()

    with observed(look), caplog.at_level(logging.WARNING):
        result = started(tmp_path, "b:1", "t")
        assert counts.wait(60)
        result.cancel()
    assert "messages wait in the outbox" in caplog.text
    memory_kafka.away = 0
    run(tmp_path, "b:1", "t")
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT


def test_messages_of_one_key_keep_their_order(memory_kafka: MemoryKafka, tmp_path: Path) -> None:
    with ending((Publication.STAGED, 2)), pytest.raises(EndedError):
        run(tmp_path, "b:1", "t")
    run(tmp_path, "b:1", "t")
    for key in KEYS:
        numbers = [
            int(m[3].split()[1]) for m in memory_kafka.topics["t"] if m[2] == key.encode()
        ]
        assert numbers == list(range(1, EPOCHS + 1))


def test_a_broker_that_is_away_for_a_while_is_waited_for_and_told_of(
    memory_kafka: MemoryKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (Point.AFTER_MANIFEST, 2):
            memory_kafka.away = 4

    with observed(leave), caplog.at_level(logging.WARNING):
        run(tmp_path, "b:1", "t")
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT
    assert "kept and tried again: nobody answers" in caplog.text


def test_a_checkpoint_in_memory_has_no_place_for_an_outbox(memory_kafka: MemoryKafka) -> None:
    pipeline = beam.Pipeline(
        runner=LocalRunner(), options=PipelineOptions(["--streaming", "--progress=off"])
    )
    _ = pipeline | beam.Create([b"a"]) | WriteToKafka("b:1", "t")
    with pytest.raises(OptionError, match="give --checkpoint a folder"):
        pipeline.run().wait_until_finish()


def test_an_older_copy_of_the_checkpoint_is_refused(
    memory_kafka: MemoryKafka, tmp_path: Path
) -> None:
    import shutil

    copied = tmp_path / "copy"

    def copy(point: Any, epoch: int, *more: str) -> None:
        del more
        # Nobody writes then: the next epoch has not begun, nor what is published behind it.
        if (point, epoch) == (Point.AFTER_MANIFEST, 1):
            shutil.copytree(tmp_path / "checkpoint", copied / "checkpoint")

    with observed(copy):
        run(tmp_path, "b:1", "t")
    with pytest.raises(CheckpointError, match="an older copy of it was restored"):
        run(copied, "b:1", "t")
    assert counted([message[3] for message in memory_kafka.topics["t"]]) == RIGHT


def test_batch_pipelines_publish_in_one_transaction(
    monkeypatch: pytest.MonkeyPatch, memory_kafka: MemoryKafka
) -> None:
    monkeypatch.setattr(
        "headrace.io.kafka.transactions.TransactionalProducer", memory_kafka.producer
    )
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        numbers = pipeline | beam.Create(range(100))
        _ = numbers | beam.Map(lambda n: (b"%d" % n, b"x")) | WriteToKafka("b:1", "t")
    assert sorted(int(m[2]) for m in memory_kafka.topics["t"]) == list(range(100))
    assert memory_kafka.markers == {}


#: Where drivers end, one after the other. The first gaps of a publication are met by a start, which
#: publishes what the driver before has left; the last ones behind the next epoch, which may count.
ENDINGS = [
    (Point.AFTER_SINKS, 1), (Point.AFTER_MANIFEST, 1), *((gap, 1) for gap in Publication),
    *((gap, epoch) for epoch, gap in enumerate(Publication, 2)),
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_with_a_real_broker_each_message_is_seen_once(broker: Broker, tmp_path: Path) -> None:
    """One run, ended in every gap of a publication, with the broker killed in between."""
    topic = broker.topic(3)
    for number, end in enumerate(ENDINGS):  # epoch 0 has no messages
        with ending(end), pytest.raises(EndedError):
            run(tmp_path, broker.servers, topic)
        if number == 3:
            broker.kill()
            broker.start()
    run(tmp_path, broker.servers, topic)
    found = broker.read(topic)
    assert counted([message.value() for message in found]) == RIGHT
    # A reader of everything sees what was sent and never counted, too: the kills did hit.
    assert len(broker.read(topic, "read_uncommitted")) > len(found)


@pytest.mark.spark
def test_a_hanging_transaction_is_told_of(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction on the marker that nobody ends: the broker answers, the sink says why not."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from headrace.io.kafka import transactions
    from headrace.io.kafka.publish import AwayError

    monkeypatch.setattr(transactions, "_SECONDS", 5.0)
    topic = broker.topic()
    hanging = Producer({"bootstrap.servers": broker.servers, "transactional.id": "another"})
    group = Consumer({"bootstrap.servers": broker.servers, "group.id": "sink"})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 7)], group.consumer_group_metadata(), 30
    )
    producer = transactions.TransactionalProducer(
        transactions.Address(
            step="Write", topic=topic, options={"bootstrap.servers": broker.servers}, name="sink"
        )
    )
    try:
        with pytest.raises(AwayError, match="Write: .* a transaction on it is open in the broker"):
            producer.position()
        hanging.abort_transaction(30)
        assert producer.position() is None
    finally:
        producer.close()
        group.close()
