"""Three topics, a windowed join with state, and kills of driver, worker and broker: a command.

`python -m tests.kafka.campaign --kills 50 --seed 1`: two topics of eight partitions are joined by
key in windows of 10 s, every result of a key is numbered by state, and the third topic gets them.
All the while somebody is killed: the driver, a Python worker, the broker (which is started again).
At the end each window of each key must be in the third topic once, with the sums that a plain loop
works out, and the numbers of each key must be 1, 2, 3, ... without a gap.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.metrics.metric import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.io import Json, Monotonic, ReadFromKafka, WriteToKafka
from tests.kafka.broker import Broker, running
from tests.kafka.driver import READ, read_by

ROOT = Path(__file__).parents[2]
WINDOW, KEYS, PARTITIONS = 10, 20, 8
BEGIN_MS, STEP_MS = 1_700_000_000_000, 20


class Number(beam.DoFn):  # type: ignore[misc]
    """Numbers the results of a key."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self, element: Any, window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Any:
        """Give the result with its number."""
        key, (start, orders, payments) = element
        seen.add(1)
        yield key, {"window": start, "orders": orders, "payments": payments, "number": seen.read()}


def joined(element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
    """Add up both sides of a join."""
    key, sides = element
    return key, (int(window.start), sum(sides["orders"]), sum(sides["payments"]))


def noted(record: Any) -> Any:
    """Count a message; give its key and number."""
    Metrics.counter("driver", READ).inc()
    return record.key, record.value


def drive(servers: str, topics: list[str], checkpoint: str, wanted: int) -> None:
    """Run the pipeline until so many messages were read, by all drivers together; then drain."""
    options = PipelineOptions([
        "--spark_master=local[2]", f"--checkpoint={checkpoint}", "--shards=4", "--progress=off",
        f"--state_dir={checkpoint}-copies",
    ])  # fmt: skip
    pipeline = beam.Pipeline(runner=headrace.SparkRunner(), options=options)
    sides = {
        name: (
            pipeline
            | name >> ReadFromKafka(
                servers, topic, start="earliest", key="text", value=Json(), max_per_epoch=2_000,
                watermark=Monotonic(idle_after=5),
            )
            | f"{name} number" >> beam.Map(noted)
            | f"{name} windows" >> beam.WindowInto(FixedWindows(WINDOW))
        )
        for name, topic in zip(("orders", "payments"), topics[:2], strict=True)
    }  # fmt: skip
    _ = (
        sides
        | beam.CoGroupByKey()
        | "Sum" >> beam.Map(joined)
        | "All" >> beam.WindowInto(beam.window.GlobalWindows())
        | beam.ParDo(Number())
        | WriteToKafka(servers, topics[2], key="text", value=Json(), max_per_transaction=50)
    )
    result = pipeline.run()
    while read_by(result, READ) < wanted:
        result.wait_until_finish(duration=500)
    print("state", result.drain(), flush=True)


def messages(side: int, first: int, last: int) -> list[dict[str, Any]]:
    """Make the messages of one side."""
    return [
        {
            "value": b"%d" % (n * (side + 1)), "key": b"k%02d" % (n % KEYS),
            "partition": n % PARTITIONS, "timestamp": BEGIN_MS + n * STEP_MS,
        }
        for n in range(first, last)
    ]  # fmt: skip


def right(last: int) -> dict[tuple[str, int], tuple[int, int]]:
    """Work out the answer by a plain loop."""
    found: dict[tuple[str, int], list[int]] = {}
    for n in range(last):
        window = (BEGIN_MS + n * STEP_MS) // 1000 // WINDOW * WINDOW
        sums = found.setdefault((f"k{n % KEYS:02d}", window), [0, 0])
        sums[0] += n
        sums[1] += 2 * n
    return {name: (sums[0], sums[1]) for name, sums in found.items()}


def problems(broker: Broker, topic: str, last: int) -> list[str]:
    """Hold the third topic against the answer."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    numbers: dict[str, list[int]] = {}
    wrong = []
    for message in broker.read(topic):
        value = json.loads(message.value())
        name = (message.key().decode(), value["window"])
        if name in found:
            wrong.append(f"{name} is there twice")
        found[name] = (value["orders"], value["payments"])
        numbers.setdefault(name[0], []).append(value["number"])
    wanted = right(last)
    wrong += [f"{name} is missing" for name in wanted.keys() - found.keys()]
    wrong += [f"{name} is {found[name]}, not {wanted.get(name)}" for name in found
              if found[name] != wanted.get(name)]
    wrong += [f"{key} has the numbers {sorted(n)}" for key, n in numbers.items()
              if sorted(n) != list(range(1, len(n) + 1))]
    return wrong


class Driver:
    """The driver's process."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.campaign", "--drive", *arguments], cwd=ROOT,
                stdout=out, stderr=out, start_new_session=True,
            )

    def kill(self) -> None:
        """End it with all of its children, as a machine that fails would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_worker(self, chance: random.Random) -> bool:
        """End one of its Python workers, if there is one."""
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
            workers = [p for p in below if "headrace.worker.daemon" in " ".join(p.cmdline())]
            if workers:
                chance.choice(workers).kill()
            return bool(workers)
        except psutil.NoSuchProcess:
            return False


def campaign(kills: int, seed: int, total: int, pause: float) -> int:
    """Run it all; 1 if something is wrong."""
    chance = random.Random(seed)
    done: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as name:
        folder = Path(name)
        with running(folder / "broker") as broker:
            topics = [broker.topic(PARTITIONS) for _ in range(3)]
            wanted = 2 * (total // kills) * kills
            arguments = [broker.servers, *topics, str(folder / "checkpoint"), str(wanted)]
            log = folder / "driver.log"
            driver = Driver(arguments, log)
            fed, ended = 0, 0
            for number in range(kills):
                more = total // kills
                for side in (0, 1):
                    broker.put(topics[side], messages(side, fed, fed + more))
                fed += more
                time.sleep(chance.uniform(0.3, 1.0) * pause)
                kind = ("driver", "worker", "broker", "worker", "driver")[number % 5]
                if kind == "worker" and not driver.kill_worker(chance):
                    kind = "driver"
                if kind == "broker":
                    broker.kill()
                    time.sleep(chance.uniform(0, 3))
                    broker.start()
                elif kind == "driver":
                    driver.kill()
                done[kind] += 1
                if driver.process.poll() is not None:
                    ended += 1
                    driver = Driver(arguments, log)
                print(f"kill {number + 1} of {kills}: {kind}", flush=True)
            while driver.process.wait() != 0:
                ended += 1
                if ended > 3 * kills + 10:
                    print(log.read_text(errors="replace")[-4000:])
                    return 1
                driver = Driver(arguments, log)
            wrong = problems(broker, topics[2], fed)
            print(f"{sum(done.values())} kills ({dict(done)}), {2 * fed:,} messages, "
                  f"{len(right(fed)):,} results: {len(wrong)} wrong")
            for sentence in wrong[:20]:
                print(f"  {sentence}")
            return 1 if wrong else 0


def main() -> int:
    """Read the arguments."""
    if sys.argv[1:2] == ["--drive"]:
        servers, *topics, checkpoint, messages_wanted = sys.argv[2:]
        drive(servers, topics, checkpoint, int(messages_wanted))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.campaign")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--messages", type=int, default=100_000, help="of each topic")
    parser.add_argument("--pause", type=float, default=20.0, help="seconds between two kills")
    given = parser.parse_args()
    return campaign(given.kills, given.seed, given.messages, given.pause)


if __name__ == "__main__":
    sys.exit(main())
