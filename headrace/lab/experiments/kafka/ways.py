"""One way from a Kafka topic to another, in a process of its own: headrace's, or Spark's alone.

Takes way, servers, source, target, folder and the messages of an epoch as arguments; the target `-`
is nowhere, which leaves the sink out. Says wall time, which begins when Spark is there, and
processor time of all its processes, with what starting Spark took and without.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any, NamedTuple

import psutil

#: Begins the line that says what it took.
RESULT = "result "
NOWHERE = "-"

#: What headrace's producer is told by default, so that the broker gets the same from both.
PRODUCER = {"compression.type": "lz4", "linger.ms": "20"}


def shout(row: Any) -> tuple[bytes, bytes]:
    """Change a message: stateless, in plain Python."""
    return row.key, row.value + b"!"


def ours(servers: str, source: str, target: str, folder: str, most: int) -> None:
    """Read, change and write with headrace."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    import headrace
    from headrace.io import ReadFromKafka, WriteToKafka

    spark = session()
    began = Moment.now()
    options = PipelineOptions([
        f"--checkpoint={folder}/checkpoint", "--available_now", "--progress=off", "--shards=2",
    ])  # fmt: skip
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(spark=spark), options=options)
    rows = pipeline | ReadFromKafka(
        servers, source, start="earliest", max_per_epoch=most,
        options={"isolation.level": "read_uncommitted"},
    )
    pairs = rows | beam.Map(shout)
    if target:
        _ = pairs | WriteToKafka(servers, target)
    pipeline.run().wait_until_finish()
    tell(began)


def native(servers: str, source: str, target: str, folder: str, most: int) -> None:
    """Read, change and write with Spark alone."""
    spark = session()
    began = Moment.now()
    frame = (
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        .option("subscribe", source).option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most).load()
        .selectExpr("key", "CAST(concat(CAST(value AS STRING), '!') AS BINARY) AS value")
    )  # fmt: skip
    writer = frame.writeStream.option("checkpointLocation", f"{folder}/spark")
    if target:
        writer = writer.format("kafka").option("topic", target).option(
            "kafka.bootstrap.servers", servers
        )
        for name, setting in PRODUCER.items():
            writer = writer.option(f"kafka.{name}", setting)
    else:
        writer = writer.format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()
    tell(began)


def session() -> Any:
    """Start Spark."""
    from headrace.engine.spark.jars import fetched
    from headrace.runner import session as started

    spark = started("local[2]", jars=[str(path) for path in fetched("kafka")])
    spark.range(1).count()
    return spark


class Moment(NamedTuple):
    """What was taken so far, by this process and all below it."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        """Look at the clock and at the processes."""
        cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        for child in psutil.Process().children(recursive=True):
            times = child.cpu_times()
            cpu += times.user + times.system
        return cls(time.monotonic(), cpu)


def tell(began: Moment) -> None:
    """Print what it took."""
    now = Moment.now()
    told = {"wall": now.wall - began.wall, "cpu": now.cpu, "run_cpu": now.cpu - began.cpu}
    print(RESULT + json.dumps(told), flush=True)


WAYS = {"spark": native, "headrace": ours}


def main(way: str, servers: str, source: str, target: str, folder: str, most: str) -> None:
    """Go one way."""
    WAYS[way](servers, source, "" if target == NOWHERE else target, folder, int(most))


if __name__ == "__main__":
    main(*sys.argv[1:])
