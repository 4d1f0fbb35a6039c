"""One read or write of Kafka after the other, in one session; prints what each has found, as JSON.

`python -m tests.kafka.matrix_driver SERVERS REGISTRY FOLDER`: the broker and the registry are the
test's. Every case makes its own topic: 20 messages, one each second, in turns in two partitions.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka as BeamsRead
from apache_beam.io.kafka import WriteToKafka as BeamsWrite
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from google.protobuf.struct_pb2 import Value  # type: ignore[import-untyped]

import headrace
from headrace.io import (
    Avro,
    Json,
    Monotonic,
    Protobuf,
    ReadFromKafka,
    SchemaRegistry,
    WriteToKafka,
)
from headrace.lab.experiments.kafka.broker import create

MESSAGES, PARTITIONS = 20, 2
BEGIN_MS, STEP_MS = 1_700_000_000_000, 1_000
RIDE = {
    "type": "record", "name": "Ride",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}  # fmt: skip
RIDES = [{"id": number, "who": who} for number, who in enumerate(("ann", "bob", "cy"))]
LINES = ["a b", "b c b", "c"]
SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer"
DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer"


def at_second(number: int) -> float:
    """Give the event time of a message."""
    return (BEGIN_MS + number * STEP_MS) / 1000


def words(line: str) -> list[str]:
    """Split a line."""
    return re.findall(r"\w+", line)


def told(pair: Any) -> tuple[str, str]:
    """Make a message of a count."""
    return pair[0], str(pair[1])


class Cases:
    """All cases; each gives what the test expects by hand.

    Args:
        servers: the broker's.
        registry: the address of a schema registry.
        folder: for checkpoints and what pipelines write.
    """

    def __init__(self, servers: str, registry: str, folder: Path) -> None:
        self._servers, self._registry, self._folder = servers, registry, folder

    # -- what is read

    def _filled(self, name: str = "") -> str:
        topic = create(self._servers, name or f"m-{uuid.uuid4().hex[:12]}", PARTITIONS)
        self._put(topic, range(MESSAGES), PARTITIONS)
        return topic

    def _put(self, topic: str, numbers: range, partitions: int) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._servers})
        for n in numbers:
            producer.produce(
                topic, b'{"n": %d}' % n, b"k%d" % n, partition=n % partitions,
                timestamp=BEGIN_MS + n * STEP_MS,
            )
        assert producer.flush(60) == 0

    def _lines(self, build: Callable[[beam.Pipeline], Any], *flags: str) -> list[str]:
        """Run a batch pipeline; give its elements as lines."""
        place = self._folder / uuid.uuid4().hex
        place.mkdir()
        given = PipelineOptions(["--progress=off", "--shards=2", *flags])
        with beam.Pipeline(runner=headrace.SparkRunner(), options=given) as pipeline:
            made = build(pipeline) | "Line" >> beam.Map(json.dumps)
            _ = made | beam.io.WriteToText(str(place / "lines"))
        found = [line for path in place.iterdir() for line in path.read_text().splitlines()]
        return sorted(found)

    def _numbers(self, topics: Any = None, **more: Any) -> list[int]:
        read = ReadFromKafka(self._servers, topics, value=Json(), **more)
        lines = self._lines(lambda p: p | read | "N" >> beam.Map(lambda m: m.value["n"]))
        return sorted(json.loads(line) for line in lines)

    def start_time(self) -> Any:
        """From a time to what is there."""
        return self._numbers(self._filled(), start=at_second(7), end="latest")

    def start_offsets(self) -> Any:
        """From an offset in one partition, and from the first in the other."""
        topic = self._filled()
        return self._numbers(topic, start={topic: {0: 4, 1: "earliest"}}, end="latest")

    def end_time(self) -> Any:
        """Up to a time."""
        return self._numbers(self._filled(), start="earliest", end=at_second(12))

    def end_offsets(self) -> Any:
        """Up to offsets, which are not read any more."""
        topic = self._filled()
        return self._numbers(topic, start="earliest", end={topic: {0: 3, 1: 2}})

    def pattern(self) -> Any:
        """All topics of a form, and no other."""
        name = f"p-{uuid.uuid4().hex[:8]}"
        topics = [self._filled(f"{name}-{end}") for end in ("a", "b", "other")]
        read = ReadFromKafka(
            self._servers, pattern=f"{name}-[ab]", columns=("topic", "value"), start="earliest",
            end="latest",
        )
        lines = self._lines(lambda p: p | read | "Topic" >> beam.Map(lambda m: m.topic))
        return [lines.count(json.dumps(topic)) for topic in topics]

    # -- formats, there and back

    def _back(self, elements: list[Any], form: Any, plain: Callable[[Any], Any]) -> list[Any]:
        topic = create(self._servers, f"f-{uuid.uuid4().hex[:12]}", 1)
        given = PipelineOptions(["--progress=off", "--shards=2"])
        with beam.Pipeline(runner=headrace.SparkRunner(), options=given) as pipeline:
            pairs = pipeline | beam.Create(elements) | beam.Map(lambda value: (None, value))
            _ = pairs | WriteToKafka(self._servers, topic, value=form)
        read = ReadFromKafka(self._servers, topic, value=form, start="earliest", end="latest")
        lines = self._lines(lambda p: p | read | "Plain" >> beam.Map(lambda m: plain(m.value)))
        return sorted((json.loads(line) for line in lines), key=str)

    def avro_with_a_registry(self) -> Any:
        """The schema goes to the registry, and is asked of it by number."""
        form = Avro(RIDE, registry=SchemaRegistry(self._registry), subject="matrix-value")
        return self._back(RIDES, form, dict)

    def avro_alone(self) -> Any:
        """The record alone."""
        return self._back(RIDES, Avro(RIDE), dict)

    def protobuf(self) -> Any:
        """Messages of a class."""
        made = [Value(string_value=who) for who in ("ann", "bob")]
        return self._back(made, Protobuf(Value), lambda value: value.string_value)

    # -- streams

    def _streamed(self, read: Any, checkpoint: str, wanted: int, grow: Any = None) -> list[int]:
        """Run a stream until so many numbers are there; give those of this run."""
        place = self._folder / f"{checkpoint}-{uuid.uuid4().hex[:6]}"
        given = PipelineOptions([
            "--progress=off", "--shards=2", f"--checkpoint={self._folder / checkpoint}",
        ])  # fmt: skip
        pipeline = beam.Pipeline(runner=headrace.SparkRunner(), options=given)
        values = pipeline | "Read" >> read | "N" >> beam.Map(lambda m: (json.loads(m[1])["n"],))
        _ = values | "Out" >> headrace.io.WriteToSpark(
            str(place), format="json", schema="n long", mode="append"
        )
        result = pipeline.run()
        found: list[int] = []
        for _turn in range(240):
            found = sorted(_in_files(place))
            if len(found) >= wanted:
                break
            if found and grow is not None:
                grow = grow()
            result.wait_until_finish(duration=500)
        result.cancel()
        return sorted(_in_files(place))

    def group(self) -> Any:
        """Beam's read begins where its group stands; the checkpoint comes before the group."""
        topic = self._filled()
        group = f"g-{uuid.uuid4().hex[:8]}"
        self._commit(group, topic, {0: 6})
        config = {"bootstrap.servers": self._servers, "group.id": group,
                  "auto.offset.reset": "earliest"}  # fmt: skip

        def read() -> Any:
            return BeamsRead(
                config, [topic], commit_offset_in_finalize=True, value_deserializer=DESERIALIZER
            )

        first = self._streamed(read(), "group", 14)
        self._commit(group, topic, {0: 0, 1: 0})
        self._put(topic, range(MESSAGES, MESSAGES + 4), PARTITIONS)
        return [first, self._streamed(read(), "group", 4)]

    def _commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": group})
        parts = [TopicPartition(topic, part, offset) for part, offset in offsets.items()]
        consumer.commit(offsets=parts, asynchronous=False)
        consumer.close()

    def new_partition(self) -> Any:
        """A partition that comes while the stream runs is read from its first message."""
        from confluent_kafka.admin import AdminClient, NewPartitions

        topic = create(self._servers, f"n-{uuid.uuid4().hex[:12]}", 1)
        self._put(topic, range(10), 1)

        def grow() -> None:
            admin = AdminClient({"bootstrap.servers": self._servers})
            admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
            self._put(topic, range(10, 20), 2)

        read = ReadFromKafka(
            self._servers, topic, value="text", start="earliest", watermark=Monotonic(idle_after=2)
        )
        return self._streamed(_Pairs(read), "new-partition", 20, grow)

    # -- Beam's own transforms

    def word_count(self) -> Any:
        """Lines of one topic, counted by word, to another, by Beam's own transforms."""
        lines, counts = (create(self._servers, f"w-{uuid.uuid4().hex[:12]}", 2) for _ in range(2))
        config = {"bootstrap.servers": self._servers, "auto.offset.reset": "earliest"}
        given = PipelineOptions(["--progress=off", "--shards=2"])
        with beam.Pipeline(runner=headrace.SparkRunner(), options=given) as pipeline:
            made = pipeline | beam.Create([("", line) for line in LINES])
            _ = made | BeamsWrite(
                config, lines, key_serializer=SERIALIZER, value_serializer=SERIALIZER
            )
        with beam.Pipeline(runner=headrace.SparkRunner(), options=given) as pipeline:
            _ = (
                pipeline
                | BeamsRead(
                    config, [lines], key_deserializer=DESERIALIZER,
                    value_deserializer=DESERIALIZER, max_num_records=len(LINES),
                )
                | "Lines" >> beam.Values()
                | "Words" >> beam.FlatMap(words).with_output_types(str)
                | beam.WindowInto(FixedWindows(3600))
                | beam.combiners.Count.PerElement()
                | "Told" >> beam.Map(told).with_output_types(tuple[str, str])
                | BeamsWrite(
                    config, counts, key_serializer=SERIALIZER, value_serializer=SERIALIZER
                )
            )
        read = ReadFromKafka(
            self._servers, counts, key="text", value="text", start="earliest", end="latest"
        )
        return [json.loads(line) for line in self._lines(
            lambda p: p | read | "Count" >> beam.Map(lambda m: [m.key, m.value])
        )]  # fmt: skip


class _Pairs(beam.PTransform):  # type: ignore[misc]
    """Makes pairs of our read's records, as Beam's gives them."""

    def __init__(self, read: ReadFromKafka) -> None:
        super().__init__()
        self._read = read

    def expand(self, pbegin: Any) -> Any:
        return pbegin | self._read | "Pair" >> beam.Map(lambda m: (m.key, m.value))


def _in_files(place: Path) -> Iterator[int]:
    """Give the numbers in the finished folders of epochs."""
    for path in place.glob("epoch=*/*.json"):
        for line in path.read_text().splitlines():
            yield json.loads(line)["n"]


NAMES = [name for name in vars(Cases) if not name.startswith("_")]


def main(servers: str, registry: str, folder: str, *names: str) -> None:
    """Run all cases, or those that are named."""
    cases = Cases(servers, registry, Path(folder))
    for name in names or NAMES:
        print("FOUND", json.dumps([name, getattr(cases, name)()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
