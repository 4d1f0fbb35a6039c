"""Reads and writes of a real broker, case by case: where they begin and end, and what is in them.

One driver goes through all of them in one session; expected values are worked out by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.spark.jars import fetch, fetched
from headrace.errors import HeadraceError
from headrace.lab.experiments.kafka.broker import Broker
from tests.kafka.matrix_driver import NAMES
from tests.kafka.test_formats import Served

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
RIDES = [{"id": 0, "who": "ann"}, {"id": 1, "who": "bob"}, {"id": 2, "who": "cy"}]
#: Messages n = 0 to 19 lie in partition n % 2, at offset n // 2; message n is of second n.
RIGHT: dict[str, Any] = {
    "start_time": list(range(7, 20)),
    "start_offsets": sorted([8, 10, 12, 14, 16, 18, *range(1, 20, 2)]),
    "end_time": list(range(12)),
    "end_offsets": [0, 1, 2, 3, 4],
    "pattern": [20, 20, 0],
    "avro_with_a_registry": RIDES,
    "avro_alone": RIDES,
    "protobuf": ["ann", "bob"],
    # The group stands at offset 6 of partition 0, which is message 12, and nowhere in the other.
    "group": [sorted([12, 14, 16, 18, *range(1, 20, 2)]), [20, 21, 22, 23]],
    "new_partition": list(range(20)),
    "word_count": [["a", "1"], ["b", "3"], ["c", "2"]],
}


@pytest.fixture(scope="module")
def found(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    try:
        if not fetched("kafka"):
            fetch("kafka")
    except HeadraceError as error:
        pytest.skip(f"no connector of Spark's: {error}")
    registry = Served()
    folder = tmp_path_factory.mktemp("matrix")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kafka.matrix_driver", broker.servers, registry.url,
         str(folder)],
        cwd=ROOT, text=True, capture_output=True, timeout=550, check=False, env=dict(os.environ),
    )  # fmt: skip
    registry.server.shutdown()
    registry.server.server_close()
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    told = dict(json.loads(line.removeprefix("FOUND ")) for line in lines)
    told["asked"] = registry.asked
    told["said"] = done.stderr[-4000:]
    yield told


@pytest.mark.parametrize("name", NAMES)
def test_a_read_or_write_of_a_broker_gives_what_is_right(name: str, found: dict[str, Any]) -> None:
    assert name in found, found["said"]
    assert found[name] == RIGHT[name]


def test_the_registry_was_asked_by_writer_and_reader(found: dict[str, Any]) -> None:
    assert "/subjects/matrix-value/versions" in found["asked"]
    assert "/schemas/ids/1" in found["asked"]
