"""A streaming pipeline from Kafka to Kafka, in a process of its own that can be killed.

`python -m tests.kafka.driver SERVERS IN OUT CHECKPOINT MESSAGES`: counts values by key in windows
of 10 s of event time, and writes one message for each key and window. Drains when so many messages
have been read, by all drivers together, and ends.
"""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.io import Json, Monotonic, ReadFromKafka, WriteToKafka

WINDOW = 10
READ = "read"
#: Readings of a topic of tests: one every 100 ms of event time, for five keys.
STEP_MS, KEYS, BEGIN_MS = 100, 5, 1_700_000_000_000


def messages(first: int, last: int, partitions: int) -> list[dict[str, Any]]:
    """Make readings; the last partition stays empty."""
    return [
        {
            "value": b'{"n": %d}' % n, "key": b"k%d" % (n % KEYS),
            "partition": n % (partitions - 1), "timestamp": BEGIN_MS + n * STEP_MS,
        }
        for n in range(first, last)
    ]  # fmt: skip


def right(last: int) -> dict[tuple[str, int], list[int]]:
    """Work out by hand what must be in the topic: how many readings, and their sum."""
    found: dict[tuple[str, int], list[int]] = {}
    for n in range(last):
        window = (BEGIN_MS + n * STEP_MS) // 1000 // WINDOW * WINDOW
        entry = found.setdefault((f"k{n % KEYS}", window), [0, 0])
        entry[0] += 1
        entry[1] += n
    return found


def summed(values: Any) -> list[int]:
    """Give number and sum."""
    numbers = list(values)
    return [len(numbers), sum(numbers)]


def with_window(pair: Any, window: Any = beam.DoFn.WindowParam) -> Any:
    """Name the window in the value."""
    return pair[0], {"window": int(window.start), "found": summed(pair[1])}


def read_by(result: Any, name: str) -> int:
    """Give how many messages were read in epochs that count, also by drivers before this one."""
    found = result.metrics().query(MetricsFilter().with_name(name))["counters"]
    return sum(metric.committed for metric in found)


def noted(record: Any) -> Any:
    """Count a message; give its key and number."""
    Metrics.counter("driver", READ).inc()
    return record.key, record.value["n"]


def main(servers: str, source: str, target: str, checkpoint: str, wanted: int) -> None:
    """Run until so many messages have been read."""
    options = PipelineOptions([
        "--spark_master=local[2]", f"--checkpoint={checkpoint}", "--shards=2", "--progress=off",
        f"--state_dir={checkpoint}-copies",
    ])  # fmt: skip
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(), options=options)
    _ = (
        pipeline
        | ReadFromKafka(
            servers, source, start="earliest", key="text", value=Json(), max_per_epoch=150,
            watermark=Monotonic(idle_after=2), group_id=f"watch-{source}",
        )
        | beam.Map(noted)
        | beam.WindowInto(FixedWindows(WINDOW))
        | beam.GroupByKey()
        | "Window" >> beam.Map(with_window)
        | WriteToKafka(servers, target, key="text", value=Json(), max_per_transaction=7)
    )
    result = pipeline.run()
    while read_by(result, READ) < wanted:
        result.wait_until_finish(duration=500)
    # For the time in which the partition that nobody wrote to falls idle.
    result.wait_until_finish(duration=3_000)
    print("state", result.drain(), "epoch", result.stream_status.epoch, flush=True)


if __name__ == "__main__":
    servers, source, target, checkpoint, messages_wanted = sys.argv[1:]
    main(servers, source, target, checkpoint, int(messages_wanted))
