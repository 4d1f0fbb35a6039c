"""Messages a second through a stateless pipeline, beside native Spark's in the same run: a command.

`python -m tests.kafka.throughput --messages 2000000`: a topic is filled, then read, changed and
written to another topic, by Spark alone and by headrace, in turn, each in a process of its own.
Also to nowhere, which leaves the sink out. Gives wall time and processor time of all processes of
each; the broker's own is told apart, as it shares the machine. The number of messages is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from tests.kafka.broker import Broker, running

ROOT = Path(__file__).parents[2]
PARTITIONS = 4


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
    began = time.monotonic()
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
    began = time.monotonic()
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
    else:
        writer = writer.format("noop")
    writer.trigger(availableNow=True).start().awaitTermination()
    tell(began)


def session() -> Any:
    """Start Spark, which is not measured."""
    from headrace.engine.jars import fetched
    from headrace.runner import session as started

    spark = started("local[2]", jars=[str(path) for path in fetched("kafka")])
    spark.range(1).count()
    return spark


def tell(began: float) -> None:
    """Print what it took, of this process and all below it."""
    wall = time.monotonic() - began
    cpu = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for child in psutil.Process().children(recursive=True):
        times = child.cpu_times()
        cpu += times.user + times.system
    print("result", json.dumps({"wall": wall, "cpu": cpu}), flush=True)


def measured(
    broker: Broker, way: str, source: str, target: str, most: int, messages: int
) -> dict[str, float]:
    """Run one way in a process of its own."""
    assert broker._process is not None
    server = psutil.Process(broker._process.pid)
    before = sum(server.cpu_times()[:2])
    with tempfile.TemporaryDirectory(prefix="headrace-throughput-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.kafka.throughput", "--way", way, broker.servers, source,
             target or "-", folder, str(most)],
            cwd=ROOT, text=True, capture_output=True, check=False, env=dict(os.environ),
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    if not lines:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, float] = json.loads(lines[-1].removeprefix("result "))
    found["broker"] = sum(server.cpu_times()[:2]) - before
    if target:
        there = broker.count(target)
        if there != messages:
            message = f"{way}: {there} messages of {messages} are in the target"
            raise SystemExit(message)
    return found


def main() -> int:
    """Read the arguments."""
    if sys.argv[1:2] == ["--way"]:
        way, servers, source, target, folder, most = sys.argv[2:]
        run = ours if way == "headrace" else native
        run(servers, source, "" if target == "-" else target, folder, int(most))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.throughput")
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=100, help="of a value")
    parser.add_argument("--per-epoch", type=int, default=500_000)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-kafka-") as name,
        running(Path(name) / "broker") as broker,
    ):
        source = broker.topic(PARTITIONS)
        value = b"x" * given.bytes
        broker.put(source, (
            {"value": value, "key": b"%d" % (n % 1000), "partition": n % PARTITIONS}
            for n in range(given.messages)
        ))  # fmt: skip
        print("| way | to | messages/s of wall time | CPU s | of the broker |")
        print("|---|---|---|---|---|")
        for to in ("nowhere", "Kafka"):
            for way in ("spark", "headrace"):
                target = broker.topic(PARTITIONS) if to == "Kafka" else ""
                found = measured(broker, way, source, target, given.per_epoch, given.messages)
                rate = given.messages / found["wall"]
                cpu = f"{found['cpu']:.1f} | {found['broker']:.1f}"
                print(f"| {way} | {to} | {rate:,.0f} | {cpu} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
