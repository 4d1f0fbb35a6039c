"""Messages a second through a stateless pipeline from Kafka to Kafka, beside native Spark's.

A topic is filled, then read, changed and written to another one, by Spark alone and by headrace, in
turns, each in a process of its own; also to nowhere, which leaves the sink out. The broker's own
processor time is told apart, as it shares the machine. The messages of each target are counted,
and their check sums added up.
Each way is gone with a quarter of the messages too: what both took apart is what messages take,
without what it takes to begin, whichever size a run has.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from headrace.lab.commands import get_ready, number, python_path, say, takes_save, today
from headrace.lab.experiments.kafka.broker import Answer, Broker, running
from headrace.lab.experiments.kafka.ways import NOWHERE, RESULT, WAYS
from headrace.lab.results.dated import envelope, named, save
from headrace.lab.results.summary import Better, Figure

FORMAT = 4
#: The shorter run has so many times fewer messages.
SHORTER = 4
PARTITIONS = 4
#: What an event of the topic is about.
_PAGES = (b"home", b"search", b"cart", b"checkout", b"account", b"help")
_HOW = "headrace.lab.experiments.kafka.ways"
#: What a way tells of itself.
_TOLD = ("wall", "cpu", "run_cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one way took."""

    way: str
    to: str  # Kafka, or nowhere
    messages: int
    wall_seconds: float
    cpu_seconds: float  # with what starting Spark took
    run_cpu_seconds: float  # without
    broker_cpu_seconds: float
    there: int | None  # messages in the target; None: there is none
    others: bool = False  # so many as there should be, and not those
    failure: str = ""  # the last words of a process that told nothing

    @property
    def void(self) -> str:
        """Why it does not count; empty if it does."""
        if self.failure:
            return f"it failed: {self.failure}"
        if self.others:
            return "wrong answer: other messages than those that were sent are in the target"
        if self.there is None or self.there == self.messages:
            return ""
        return f"wrong answer: {self.there:,} messages of {self.messages:,} are in the target"

    @property
    def rate(self) -> float:
        """Messages in a second of wall time."""
        return self.messages / (self.wall_seconds or 1.0)


def figures(cases: Sequence[Case]) -> tuple[Figure, ...]:
    """Give cases in the lab's form: the median of the rounds and their range."""
    found = []
    for (way, to), (short, rounds) in _by_way(cases).items():
        void = next((case.void for case in (*short, *rounds) if case.void), "")
        more = list(map(beyond, short, rounds)) if not void else []
        for name, unit, better, values in (
            ("rate", "messages/s", Better.HIGHER, [case.rate for case in rounds]),
            ("cpu", "s", Better.LOWER, [case.cpu_seconds for case in rounds]),
            ("cpu of the run", "s", Better.LOWER, [case.run_cpu_seconds for case in rounds]),
            ("cpu of the broker", "s", Better.LOWER, [case.broker_cpu_seconds for case in rounds]),
            ("rate beyond the start", "messages/s", Better.HIGHER, [each.rate for each in more]),
            ("cpu beyond the start", "us/message", Better.LOWER, [
                each.run_cpu_seconds / each.messages * 1e6 for each in more
            ]),
            ("cpu of the broker beyond the start", "us/message", Better.LOWER, [
                each.broker_cpu_seconds / each.messages * 1e6 for each in more
            ]),
        ):
            made = Figure.of_samples(way, "kafka", name, unit, better, values, void)
            found.append(replace(made, question=f"to {to}"))
    return tuple(found)


def beyond(short: Case, long: Case) -> Case:
    """Give what a long run took more than a short one, as the run of the messages it had more."""
    return replace(
        long, messages=long.messages - short.messages,
        wall_seconds=long.wall_seconds - short.wall_seconds,
        cpu_seconds=long.cpu_seconds - short.cpu_seconds,
        run_cpu_seconds=long.run_cpu_seconds - short.run_cpu_seconds,
        broker_cpu_seconds=long.broker_cpu_seconds - short.broker_cpu_seconds, there=None,
    )


def _by_way(cases: Sequence[Case]) -> dict[tuple[str, str], tuple[list[Case], list[Case]]]:
    """Give the short and the long runs of each way and target, round by round."""
    found: dict[tuple[str, str], tuple[list[Case], list[Case]]] = {}
    most = max((case.messages for case in cases), default=0)
    for case in cases:
        short, long = found.setdefault((case.way, case.to), ([], []))
        (long if case.messages == most else short).append(case)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks; 2 if a figure is void."""
    made = argparse.ArgumentParser(prog="headrace lab run kafka", description=__doc__)
    made.add_argument("--messages", type=number, default=2_000_000, metavar="N",
                      help="as 200K. Default: 2M")
    made.add_argument("--bytes", type=number, default=100, metavar="N",
                      help="of a value. Default: 100")
    made.add_argument("--per-epoch", type=number, default=500_000, metavar="N",
                      help="messages of an epoch or batch, at most. Default: 500K")
    made.add_argument("--rounds", type=number, default=3, metavar="N",
                      help="of all ways in turns. Default: 3")
    takes_save(made, "kafka")
    given = made.parse_args(arguments)
    get_ready()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-kafka-") as name,
        running(Path(name) / "broker") as broker,
    ):
        broker.do_a_transaction()
        cases = measured(
            broker, given.messages, given.bytes, given.per_epoch, _run, given.rounds
        )
    saved = None
    if given.save:
        told = envelope(
            FORMAT, vars(given), today(), [asdict(case) for case in cases], figures(cases)
        )
        saved = save(told, "kafka")
    print("\n".join([*table(cases), "", named(saved)]))
    return 2 if any(case.void for case in cases) else 0


#: Goes one way in a process of its own: way, servers, source, target, folder, most -> its process.
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def measured(
    broker: Broker, messages: int, size: int, most: int, run: Run, rounds: int = 1
) -> tuple[Case, ...]:
    """Fill two topics, and go all ways from them, in turns."""
    counts = (messages // SHORTER, messages)
    sources = {count: _filled(broker, count, size) for count in counts}
    right = {count: _right(count, size) for count in counts}
    found = []
    turns = [(to, way, n) for to in ("nowhere", "Kafka") for way in WAYS for n in counts] * rounds
    for to, way, count in turns:
        target = broker.topic(PARTITIONS) if to == "Kafka" else NOWHERE
        found.append(_case(broker, way, to, sources[count], target, most, right[count], run))
        told = found[-1].void or f"{found[-1].wall_seconds:.1f} s"
        say(f"{count:,} messages by {way} to {to}: {told}")
    return tuple(found)


def _filled(broker: Broker, messages: int, size: int) -> str:
    """Give a topic with so many messages of so many bytes."""
    topic = broker.topic(PARTITIONS)
    say(f"sending {messages:,} messages")
    broker.put(topic, (
        {"value": value_of(n, size), "key": b"%d" % (n % 1000), "partition": n % PARTITIONS}
        for n in range(messages)
    ))  # fmt: skip
    return topic


def _right(messages: int, size: int) -> Answer:
    """Say what a way has to make of so many messages; see `ways.shout`."""
    return Answer.of(value_of(number, size) + b"!" for number in range(messages))


def value_of(number: int, size: int) -> bytes:
    """Give the value of a message: an event as JSON, the same in each run, cut or filled to size.

    Names of fields repeat from message to message and what is in them hardly does, so that a codec
    has about as much to do as with real events; one letter over and over is nothing to it.
    """
    drawn = hashlib.blake2b(b"%d" % number, digest_size=16).digest()
    first, second = int.from_bytes(drawn[:4]), int.from_bytes(drawn[4:8])
    head = b'{"id":%d,"user":%d,"at":%d,"page":"/%s/%d","cents":%d,"note":"' % (
        number, first % 50_000, 1_700_000_000_000 + number, _PAGES[first % len(_PAGES)],
        second % 1_000, second % 10_000,
    )  # fmt: skip
    note, missing = drawn[8:].hex().encode(), size - len(head) - 2
    while len(note) < missing:
        drawn = hashlib.blake2b(drawn, digest_size=32).digest()
        note += drawn.hex().encode()
    return (head + note[: max(0, missing)] + b'"}')[:size]


def _case(
    broker: Broker, way: str, to: str, source: str, target: str, most: int, right: Answer, run: Run
) -> Case:
    server = psutil.Process(broker.pid)
    before = sum(server.cpu_times()[:2])
    with tempfile.TemporaryDirectory(prefix="headrace-kafka-way-") as folder:
        done = run([way, broker.servers, source, target, folder, str(most)])
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    told = json.loads(lines[-1].removeprefix(RESULT)) if lines else dict.fromkeys(_TOLD, 0.0)
    spent = sum(server.cpu_times()[:2]) - before
    found = None if target == NOWHERE or not lines else broker.answer(target)
    return Case(
        way=way, to=to, messages=right.messages, wall_seconds=told["wall"], cpu_seconds=told["cpu"],
        run_cpu_seconds=told["run_cpu"],
        broker_cpu_seconds=spent,
        there=None if found is None else found.messages,
        others=found is not None and found != right and found.messages == right.messages,
        failure="" if lines else (done.stderr.strip().splitlines() or ["no words"])[-1],
    )


def _run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", _HOW, *arguments], text=True, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": python_path()},
    )


def table(cases: Sequence[Case]) -> list[str]:
    """Give the median round of each way, with the range of its rates, as a table of Markdown."""
    columns = {
        "messages/s of wall time": "rate", "CPU s": "cpu",
        "without Spark's start": "cpu of the run", "of the broker": "cpu of the broker",
        "messages/s beyond the start": "rate beyond the start",
        "CPU us of each": "cpu beyond the start",
        "of the broker, of each": "cpu of the broker beyond the start",
    }
    lines = [f"| way | to | {' | '.join(columns)} |", "|---" * (2 + len(columns)) + "|"]
    told = {figure.key: figure for figure in figures(cases)}
    for way, to in _by_way(cases):
        found = [told[way, f"to {to}", "kafka", name] for name in columns.values()]
        lines.append(f"| {way} | {to} | {' | '.join(map(_shown, found))} |")
    return lines


def _shown(figure: Figure) -> str:
    if figure.value is None:
        return figure.void if figure.name == "rate" else ""
    if figure.unit == "messages/s":
        return f"{figure.value:,.0f} ({figure.low:,.0f} to {figure.high:,.0f})"
    return f"{figure.value:.1f}" if figure.unit == "s" else f"{figure.value:.2f}"
