"""Kafka in the lab: what is kept of a measurement and of a campaign, and when it does not count."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.lab.experiments.faults import kafka as faults
from headrace.lab.experiments.kafka import broker as brokers
from headrace.lab.experiments.kafka import command
from headrace.lab.results import dated
from headrace.lab.results.dated import read_dated


def test_values_are_events_that_a_codec_has_to_work_on() -> None:
    values = [command.value_of(number, 100) for number in range(2_000)]
    assert values == [command.value_of(number, 100) for number in range(2_000)]
    assert {len(value) for value in values} == {100}
    assert [json.loads(value)["id"] for value in values] == list(range(2_000))
    packed = pa.compress(b"".join(values), codec="lz4", asbytes=True)
    assert 1.5 < 200_000 / len(packed) < 4


@pytest.mark.parametrize("size", [1, 40, 1_000])
def test_a_value_has_the_size_that_is_asked_for(size: int) -> None:
    assert len(command.value_of(7, size)) == size
    assert command.value_of(7, size) != command.value_of(7 + 10**6, size) or size == 1


class Topics:
    """A broker that keeps messages in lists; its process is this one."""

    servers, pid = "nowhere:1", os.getpid()

    def __init__(self) -> None:
        self.kept: dict[str, list[Any]] = {}

    def topic(self, partitions: int) -> str:
        del partitions
        name = f"t{len(self.kept)}"
        self.kept[name] = []
        return name

    def put(self, topic: str, messages: Any) -> None:
        self.kept[topic] += list(messages)

    def answer(self, topic: str) -> brokers.Answer:
        return brokers.Answer.of(message["value"] for message in self.kept[topic])

    def do_a_transaction(self) -> None:
        pass

    def read(self, topic: str) -> list[Any]:
        return self.kept[topic]


#: By the number of messages: a second and a processor second for each 500, and what it is to begin.
_TOLD = {
    250: 'warning\nresult {"wall": 0.5, "cpu": 2.75, "run_cpu": 0.75}\n',
    1_000: 'warning\nresult {"wall": 2.0, "cpu": 3.5, "run_cpu": 1.5}\n',
}


def copying(
    broker: Topics, lose: int = 0, fail: str = "", mark: bytes = b"!"
) -> command.Run:
    """Go a way over a list; one may lose messages, make others of them, or fail."""

    def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        way, _, source, target, folder, most = arguments
        assert Path(folder).is_dir() and most == "500"
        if way == fail:
            return subprocess.CompletedProcess([], 1, "", "Traceback\nValueError: no such jar\n")
        if target != "-":
            ours = way == "headrace"
            broker.kept[target] = [
                {"value": message["value"] + (mark if ours else b"!")}
                for message in broker.kept[source][lose if ours else 0 :]
            ]
        return subprocess.CompletedProcess([], 0, _TOLD[len(broker.kept[source])], "")

    return run


def measured(**how: Any) -> tuple[command.Case, ...]:
    broker: Any = Topics()
    return command.measured(broker, 1_000, 10, 500, copying(broker, **how))


def test_every_way_has_its_figures() -> None:
    cases = measured()
    assert [(case.way, case.to, case.messages) for case in cases] == [
        ("spark", "nowhere", 250), ("spark", "nowhere", 1_000),
        ("headrace", "nowhere", 250), ("headrace", "nowhere", 1_000),
        ("spark", "Kafka", 250), ("spark", "Kafka", 1_000),
        ("headrace", "Kafka", 250), ("headrace", "Kafka", 1_000),
    ]
    assert not any(case.void for case in cases)
    figures = {figure.key: figure.value for figure in command.figures(cases)}
    assert figures["headrace", "to Kafka", "kafka", "rate"] == 500
    assert figures["spark", "to nowhere", "kafka", "cpu"] == 3.5
    assert figures["spark", "to nowhere", "kafka", "cpu of the run"] == 1.5
    assert figures["headrace", "to Kafka", "kafka", "rate beyond the start"] == 500
    assert figures["headrace", "to Kafka", "kafka", "cpu beyond the start"] == pytest.approx(1_000)
    shown = command.table(cases)[-1]
    assert "| headrace | Kafka | 500 (500 to 500) | 3.5 | 1.5 |" in shown
    assert "| 500 (500 to 500) | 1000.00 |" in shown


def test_what_it_takes_to_begin_is_no_part_of_the_rate_beyond_the_start() -> None:
    cases = [
        replace(case, wall_seconds=case.wall_seconds + 10, run_cpu_seconds=case.run_cpu_seconds + 7)
        for case in measured()
    ]
    figures = {figure.key: figure.value for figure in command.figures(cases)}
    assert figures["headrace", "to Kafka", "kafka", "rate"] == pytest.approx(1_000 / 12)
    assert figures["headrace", "to Kafka", "kafka", "rate beyond the start"] == 500
    assert figures["headrace", "to Kafka", "kafka", "cpu beyond the start"] == pytest.approx(1_000)


def test_rounds_go_in_turns_and_give_their_median_and_range() -> None:
    broker: Any = Topics()
    cases = command.measured(broker, 1_000, 10, 500, copying(broker), 3)
    assert [case.way for case in cases] == ["spark", "spark", "headrace", "headrace"] * 6
    walls = iter((1.0, 4.0, 2.0))
    cases = tuple(
        replace(case, wall_seconds=next(walls))
        if (case.way, case.to, case.messages) == ("headrace", "Kafka", 1_000) else case
        for case in cases
    )
    wanted = ("headrace", "to Kafka", "kafka", "rate")
    (rate,) = [figure for figure in command.figures(cases) if figure.key == wanted]
    assert [rate.value, rate.low, rate.high] == [500, 250, 1_000]
    assert list(rate.repeats) == [1_000, 250, 500]
    assert len(command.table(cases)) == 2 + 4


@pytest.mark.parametrize(("how", "said"), [
    ({"lose": 1}, "wrong answer: 999 messages of 1,000 are in the target"),
    ({"mark": b"?"}, "wrong answer: other messages than those that were sent are in the target"),
    ({"fail": "headrace"}, "it failed: ValueError: no such jar"),
])
def test_a_lost_message_and_a_failure_void_the_figures(how: dict[str, Any], said: str) -> None:
    *_, last = measured(**how)
    assert last.void == said
    assert [figure.value for figure in command.figures([last])] == [None] * 7
    assert said in command.table([last])[-1]


def test_a_run_is_saved_in_the_labs_form(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = Topics()

    @contextmanager
    def running(_folder: Path) -> Iterator[Any]:
        yield broker

    monkeypatch.setattr(command, "running", running)
    monkeypatch.setattr(command, "_run", copying(broker))
    monkeypatch.setattr(command, "save", lambda told, kind: dated.save(told, kind, tmp_path))
    assert main(["lab", "run", "kafka", "--messages", "1K", "--per-epoch", "500", "--save"]) == 0
    (saved,) = tmp_path.iterdir()
    assert saved.name.endswith("-kafka.json") and saved.name in capsys.readouterr().out
    assert len(read_dated(saved).figures) == 4 * 7


def results(last: int) -> list[Any]:
    """Give the messages of a right campaign."""
    numbers: dict[str, int] = {}
    found = []
    for (key, window), (orders, payments) in faults.right(last).items():
        numbers[key] = numbers.get(key, 0) + 1
        found.append({"key": key, "window": window, "orders": orders, "payments": payments,
                      "number": numbers[key]})
    return found


def problems(told: list[Any]) -> list[str]:
    broker = Topics()
    topic = broker.topic(1)
    for each in told:
        value = {name: each[name] for name in each if name != "key"}
        text, key = json.dumps(value).encode(), each["key"].encode()
        broker.put(topic, [SimpleNamespace(key=lambda k=key: k, value=lambda v=text: v)])
    return faults.problems(broker, topic, 2_000)  # type: ignore[arg-type]


def test_a_campaign_finds_what_is_lost_doubled_or_changed() -> None:
    told = results(2_000)
    assert len(told) == 20 * 4 and problems(told) == []
    assert any("is missing" in each for each in problems(told[1:]))
    assert any("is there twice" in each for each in problems([*told, told[0]]))
    changed = [{**told[0], "orders": 1}, *told[1:]]
    assert any("is (1, " in each for each in problems(changed))
    again = [{**told[0], "number": 2}, *told[1:]]
    assert any("has the numbers [2, 2, 3, 4]" in each for each in problems(again))


def test_a_campaign_that_is_wrong_ends_with_one_and_keeps_its_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from headrace.lab.experiments.faults import command as doors

    monkeypatch.setattr(doors, "save", lambda told, kind: dated.save(told, kind, tmp_path))
    for wrong, status in (((), 0), (("k00 is missing",), 1)):
        found = faults.Tortured(kills={"driver": 2}, messages=10, results=5, wrong=wrong)
        monkeypatch.setattr(faults, "campaign", lambda *_told, found=found: found)
        assert main(["lab", "run", "faults", "kafka", "--kills", "2", "--save"]) == status
    assert "1 wrong" in capsys.readouterr().out
    assert {read_dated(path).figures[0].value for path in tmp_path.iterdir()} == {0, 1}


def test_a_broker_has_ports_that_no_connection_of_others_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as door, socket.socket() as caller:
        door.bind(("127.0.0.1", 0))
        door.listen()
        caller.connect(door.getsockname())
        given = [door.getsockname()[1], caller.getsockname()[1]]
    found = {brokers.free_port() for _ in range(20)}
    assert all(1_024 <= port < min(given) for port in found)
    drawn = itertools.count()
    monkeypatch.setattr("secrets.randbelow", lambda _: next(drawn))  # from above, one by one
    first = brokers.free_port()
    drawn = itertools.count()
    assert brokers.free_port(first) < first
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", first))
        drawn = itertools.count()
        assert brokers.free_port() < first


def test_without_a_broker_it_is_said_how_one_is_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(brokers, "jars", lambda: None)
    with pytest.raises(OptionError, match="folder with the jars"), brokers.running(tmp_path):
        pass
    monkeypatch.undo()
    monkeypatch.setattr(brokers, "PACKAGES", tmp_path)  # an installed headrace has no scripts
    monkeypatch.setenv(brokers.FOLDER, str(tmp_path))
    assert brokers.jars() is None
    (tmp_path / "kafka_2.13-4.3.1.jar").touch()
    assert brokers.jars() == tmp_path
