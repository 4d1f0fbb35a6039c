"""Holds the rows that workers read from a topic themselves against Spark's, batch by batch.

`python -m tests.kafka.scan_driver SERVERS TOPIC FOLDER`: prints what it has found, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.engine.scans.choose import partitions_of, scan_of
from headrace.engine.spark.jars import fetched
from headrace.io import Json, ReadFromKafka
from headrace.runner import session
from headrace.worker.ends.scans import read_scan

BATCH = 500
EVERYTHING = (
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
)  # fmt: skip


class Number(NamedTuple):
    """What a value might hold."""

    n: int


NUMBER: Any = Number  # the annotation of `Json` knows texts alone


def messages(count: int) -> list[dict[str, Any]]:
    """Make messages with and without keys, values and headers."""
    return [
        {
            "value": None if n % 7 == 0 else b"v%d" % n, "key": None if n % 3 == 0 else b"k%d" % n,
            "partition": n % 2, "timestamp": 1_700_000_000_000 + n,
            "headers": None if n % 2 else [("h", b"%d" % n), ("none", None)],
        }
        for n in range(count)
    ]  # fmt: skip


def read(servers: str, topic: str, **more: Any) -> ReadFromKafka:
    """Ask for a batch from the first message on."""
    return ReadFromKafka(servers, topic, start="earliest", max_per_epoch=BATCH, **more)


def asked(given: ReadFromKafka, spark: Any) -> Any:
    """Give the DataFrame that a pipeline would ask for."""
    import apache_beam as beam

    pipeline = beam.Pipeline()
    _ = pipeline | given
    (rows,) = [
        part.transform
        for part in pipeline.transforms_stack[0].parts[0].parts
        if hasattr(part.transform, "frame")
    ]
    return rows.frame.made(spark)


Frame = Callable[[Any, str, str], Any]
#: What workers read, and by what options.
READ: dict[str, Frame] = {
    "committed": lambda s, a, t: asked(read(a, t), s),
    "all parts": lambda s, a, t: asked(read(a, t, columns=EVERYTHING, value=json.loads), s),
    "plain": lambda s, a, t: s.readStream.format("kafka").options(
        subscribe=t, startingOffsets="earliest", maxOffsetsPerTrigger=BATCH,
        **{"kafka.bootstrap.servers": a},
    ).load().select("value", "partition"),
}  # fmt: skip
#: What is left to Spark.
LEFT: dict[str, Frame] = {
    "text": lambda s, a, t: asked(read(a, t, value="text"), s),
    "json": lambda s, a, t: asked(read(a, t, value=Json(NUMBER)), s),
    "an event time of its own": lambda s, a, t: asked(
        read(a, t, timestamp="CAST(CAST(value AS STRING) AS DOUBLE)"), s
    ),
    "lost data": lambda s, a, t: asked(read(a, t, spark_options={"failOnDataLoss": "false"}), s),
    "filtered": lambda s, a, t: READ["plain"](s, a, t).where("partition = 1"),
}  # fmt: skip


def main(servers: str, topic: str, folder: str) -> None:
    """Look at each of them."""
    spark = session("local[2]", jars=[str(path) for path in fetched("kafka")])
    differ: list[str] = []
    rows: dict[str, int] = {}
    for name, make in READ.items():
        frame = make(spark, servers, topic)
        scan = scan_of(frame)

        def arrived(batch: Any, number: int, name: str = name, scan: Any = scan) -> None:
            if number:
                return
            mine = [
                pa.Table.from_batches(list(read_scan(scan, parts))).to_pylist()
                for parts in partitions_of(batch, scan) or ()
            ]
            theirs = batch.toArrow().to_pylist()
            rows[name] = len(theirs)
            if sorted(map(repr, sum(mine, []))) != sorted(map(repr, theirs)):
                differ.append(f"{name}: {mine[0][:2]} is not {theirs[:2]}")

        query = frame.writeStream.foreachBatch(arrived).trigger(availableNow=True).option(
            "checkpointLocation", f"{folder}/{name}"
        ).start()
        query.awaitTermination()
    left = [name for name, make in LEFT.items() if scan_of(make(spark, servers, topic)) is None]
    print(json.dumps({"differ": differ, "rows": rows, "left to Spark": sorted(left)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
