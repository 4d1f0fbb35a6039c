"""Kafka to Kafka through Spark, with a real broker: kills and restarts, and Beam's own pipelines.

Each driver is a process of its own: it is killed, and its session must have the connector's jars
from its start.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.spark.jars import fetch, fetched
from headrace.errors import HeadraceError
from headrace.lab.experiments.kafka.broker import Broker
from tests.kafka import driver
from tests.places import SLOW

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
#: What is there for each driver to read: 20 s of event time, so that windows close in its epochs.
PORTION = 200
#: More than there are: a driver that is to be killed does not drain.
NEVER = 10**9
#: Where drivers are killed, one after the other; each is followed by the next. All gaps without
#: Spark, and with a real broker: test_exactly_once.py.
GAPS = ["staged:*"]
KINDS = ["KEYED"]
if SLOW:
    GAPS += ["after_sinks:*", "committed:*", "removed:*", "after_manifest:*"]
    GAPS += ["before_sinks:*", "before_tasks:*"]
    KINDS += ["KEYLESS"]


@pytest.fixture(scope="module", autouse=True)
def connector() -> None:
    """Spark's connector, fetched if it can be."""
    try:
        if not fetched("kafka"):
            fetch("kafka")
    except HeadraceError as error:
        pytest.skip(f"no connector of Spark's: {error}")


def run(module: str, *arguments: str, crash: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, text=True, capture_output=True,
        env={**os.environ, "HEADRACE_CRASH": crash}, timeout=800, check=False,
    )


def found_in(messages: list[Any]) -> dict[tuple[str, int], list[int]]:
    """What a reader of committed messages finds; a message that is there twice fails."""
    found: dict[tuple[str, int], list[int]] = {}
    for message in messages:
        value = json.loads(message.value())
        name = (message.key().decode(), value["window"])
        assert name not in found, f"{name} was published twice"
        found[name] = value["found"]
    return found


def test_windows_of_a_topic_are_written_once_over_kills_in_every_gap(
    broker: Broker, tmp_path: Path
) -> None:
    """One of the three partitions is never heard of: it holds the watermark for its idle time."""
    source, target = broker.topic(3), broker.topic(2)
    arguments = [broker.servers, source, target, str(tmp_path / "checkpoint")]
    total = 0
    for gap in GAPS:
        broker.put(source, driver.messages(total, total + PORTION, 3))
        total += PORTION
        killed = run("tests.kafka.driver", *arguments, str(NEVER), crash=gap)
        assert killed.returncode == -signal.SIGKILL, (gap, killed.stdout, killed.stderr[-3000:])
    done = run("tests.kafka.driver", *arguments, str(total))
    assert done.returncode == 0, done.stderr[-3000:]
    assert "state DRAINED" in done.stdout
    assert found_in(broker.read(target)) == driver.right(total)
    assert broker.committed(f"watch-{source}", source, 3) == [total // 2, total // 2, 0]


def test_beams_own_kafka_pipelines_run_as_they_ship(broker: Broker) -> None:
    options = "--runner=headrace.SparkRunner --spark_master=local[2] --progress=off --shards=2"
    for kind in KINDS:
        done = run(
            "tests.kafka.beam_driver", broker.servers, kind, f"--test-pipeline-options={options}"
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "written and read" in done.stdout
