"""A topic read on a Spark Connect server whose Spark has the connector, with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.engine.sources.kafka_source import limited
from headrace.io import WriteToSpark
from headrace.io.kafka import ReadFromKafka
from headrace.lab.experiments.kafka.broker import Broker, jars, running
from headrace.state.crash_points import Point, observed
from tests.places import SLOW

pytestmark = [pytest.mark.timeout(600)]

GAPS = [Point.BEFORE_TASKS, Point.AFTER_MANIFEST]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if jars() is None:
        pytest.skip("scripts/ensure_kafka.sh says what is missing for a Kafka broker")
    with running(Path(tmp_path_factory.mktemp("kafka")) / "broker") as found:
        yield found


@pytest.fixture
def with_connector(remote: Any, connector: str) -> Any:
    if not connector:
        pytest.skip("no connector of Spark's: `headrace doctor --fetch kafka` says why")
    return remote


class EndedError(Exception):
    """The driver ends here."""


@pytest.mark.spark
@pytest.mark.parametrize("gap", GAPS if SLOW else GAPS[1:])
def test_each_message_comes_once_after_a_driver_that_ended_in_a_gap(
    broker: Broker, with_connector: Any, tmp_path: Path, gap: Point
) -> None:
    topic = broker.topic(2)
    sent: list[str] = []

    def put(*values: str) -> None:
        sent.extend(values)
        broker.put(topic, [
            {"value": value.encode(), "partition": at % 2} for at, value in enumerate(values)
        ])  # fmt: skip

    def run() -> None:
        flags = ["--progress=off", "--shards=2", "--available_now",
                 f"--checkpoint={tmp_path / 'checkpoint'}"]  # fmt: skip
        p = beam.Pipeline(headrace.SparkRunner(with_connector), PipelineOptions(flags))
        _ = (
            p
            | ReadFromKafka(
                broker.servers, topic, value="text", columns=["value"], start="earliest",
                max_per_epoch=2,
            )
            | beam.Map(lambda row: (row.value,))
            | WriteToSpark(str(tmp_path / "out"), schema="value string")
        )
        p.run().wait_until_finish()

    def end(point: Any, epoch: int, *more: str) -> None:
        del more
        if (point, epoch) == (gap, 3):
            raise EndedError

    put("a", "b", "c")
    run()
    put("d", "e")
    with observed(end), pytest.raises(EndedError):
        run()
    put("f")
    run()
    rows = with_connector.read.parquet(str(tmp_path / "out")).select("value").collect()
    assert sorted(row.value for row in rows) == sent


def test_every_partition_comes_on_by_its_share() -> None:
    start, end = {"t": {"0": 10, "1": 0}}, {"t": {"0": 110, "1": 50, "2": 50}}
    assert limited(start, end, 0) == end
    assert limited(start, end, 20) == {"t": {"0": 20, "1": 5, "2": 5}}
    assert limited(end, end, 20) == end
