"""Three topics, a windowed join with state, and kills of driver, worker and broker.

Two topics of eight partitions are joined by key in windows of 10 s, every result of a key is
numbered by state, and the third topic gets them. All the while somebody is killed: the driver, a
Python worker, the broker (which is started again). At the end each window of each key must be in
the third topic once, with the sums that a plain loop works out, and the numbers of each key must be
1, 2, 3, ... without a gap.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.metrics.metric import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows

import headrace
from headrace.io import Json, Monotonic, ReadFromKafka, WriteToKafka
from headrace.lab.commands import python_path, say
from headrace.lab.ending import Ending
from headrace.lab.experiments.kafka.broker import Broker, running
from headrace.lab.results.summary import Better, Figure

#: This module, as a process of its own runs it.
_THIS = "headrace.lab.experiments.faults.kafka"
READ = "read"
WINDOW, KEYS, PARTITIONS = 10, 20, 8
BEGIN_MS, STEP_MS = 1_700_000_000_000, 20


class Number(beam.DoFn):  # type: ignore[misc]
    """Numbers the results of a key."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008 (Beam's way)
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


def read_by(result: Any) -> int:
    """Give how many messages were read in epochs that count, also by drivers before this one."""
    found = result.metrics().query(MetricsFilter().with_name(READ))["counters"]
    return sum(metric.committed for metric in found)


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
    while read_by(result) < wanted:
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
                [sys.executable, "-m", _THIS, *arguments], stdout=out, stderr=out,
                start_new_session=True, env={**os.environ, "PYTHONPATH": python_path()},
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tortured:
    """What a campaign has shown."""

    kills: dict[str, int]  # who was killed -> how often
    messages: int
    results: int
    wrong: tuple[str, ...]  # a sentence each

    @property
    def ending(self) -> Ending:
        """The word for it."""
        return Ending.WRONG if self.wrong else Ending.RIGHT

    def figures(self) -> tuple[Figure, ...]:
        """Give it in the lab's form."""
        wrong = float(len(self.wrong))
        return (Figure(
            system="headrace", question="join of two topics", experiment="faults kafka",
            name="results lost, doubled or changed", unit="results", better=Better.LOWER,
            value=wrong, low=wrong, high=wrong, repeats=(wrong,), void="",
        ),)

    def lines(self) -> list[str]:
        """Say it."""
        said = f"{sum(self.kills.values())} kills ({self.kills}), {self.messages:,} messages, "
        said += f"{self.results:,} results: {len(self.wrong)} wrong"
        return [said, *(f"  {sentence}" for sentence in self.wrong[:20])]


def campaign(kills: int, seed: int, total: int, pause: float) -> Tortured:
    """Feed, kill, and hold what came against the answer.

    Args:
        kills: in all.
        seed: of who is killed when.
        total: messages of each of the two topics.
        pause: seconds between two kills, at most.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-") as name:
        folder = Path(name)
        with running(folder / "broker") as broker:
            topics = [broker.topic(PARTITIONS) for _ in range(3)]
            more = total // kills
            arguments = [
                broker.servers, *topics, str(folder / "checkpoint"), str(2 * more * kills)
            ]
            torture = _Torture(broker, arguments, folder / "driver.log", random.Random(seed))
            for number in range(kills):
                for side in (0, 1):
                    first = number * more
                    broker.put(topics[side], messages(side, first, first + more))
                kind = torture.kill(("driver", "worker", "broker", "worker", "driver")[number % 5],
                                    pause)
                say(f"kill {number + 1} of {kills}: {kind}")
            given_up = torture.ended(3 * kills + 10)
            fed = more * kills
            wrong = given_up or problems(broker, topics[2], fed)
            return Tortured(
                kills=dict(torture.done), messages=2 * fed, results=len(right(fed)),
                wrong=tuple(wrong),
            )


class _Torture:
    """A driver that is killed and started again."""

    def __init__(
        self, broker: Broker, arguments: list[str], log: Path, chance: random.Random
    ) -> None:
        self._broker, self._arguments, self._log, self._chance = broker, arguments, log, chance
        self._driver = Driver(arguments, log)
        self._starts = 0
        self.done: Counter[str] = Counter()

    def kill(self, kind: str, pause: float) -> str:
        """Wait, and kill somebody; says whom."""
        time.sleep(self._chance.uniform(0.3, 1.0) * pause)
        if kind == "worker" and not self._driver.kill_worker(self._chance):
            kind = "driver"
        if kind == "broker":
            self._broker.kill()
            time.sleep(self._chance.uniform(0, 3))
            self._broker.start()
        elif kind == "driver":
            self._driver.kill()
        self.done[kind] += 1
        if self._driver.process.poll() is not None:
            self._again()
        return kind

    def ended(self, most: int) -> list[str]:
        """Wait until the driver ends well, starting it again; says what is wrong if it does not."""
        while self._driver.process.wait() != 0:
            if self._starts > most:
                said = self._log.read_text(errors="replace").strip().splitlines()
                return [f"the driver does not end well: {said[-1] if said else 'no words'}"]
            self._again()
        return []

    def _again(self) -> None:
        self._starts += 1
        self._driver = Driver(self._arguments, self._log)


if __name__ == "__main__":
    servers, *topics, checkpoint, wanted = sys.argv[1:]
    drive(servers, topics, checkpoint, int(wanted))
