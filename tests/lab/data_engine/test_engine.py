"""The processes of a data engine: over the socket, with faults, and what they cost."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import pytest

from headrace.errors import OptionError, TransportError
from headrace.lab.data.files import Format, log
from headrace.lab.data_engine.client import EngineClient, EngineStatus
from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.launch import DataEngines
from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings

PROBE = "headrace.lab.probe.events"


def events(schedule: Schedule) -> tuple[EventsName, ProbeGenerator]:
    phases = tuple((seconds, rate) for seconds, rate in schedule.pairs())
    settings = ProbeSettings(schedule=phases)
    return EventsName(module=PROBE, settings=asdict(settings)), ProbeGenerator(settings)


def pull_all(client: EngineClient) -> list[int]:
    got: list[int] = []
    while True:
        batches, status = client.pull(len(got), 10_000, wait=5)
        got += [number for batch in batches for number in batch["number"].to_pylist()]
        client.acknowledge(len(got))
        if status.ended and len(got) == status.total:
            return got


def all_made(client: EngineClient) -> EngineStatus:
    """Wait until the engine has made all that its schedule says."""
    limit = time.monotonic() + 60
    while not (status := client.status()).ended:
        assert time.monotonic() < limit, status
        time.sleep(0.01)
    return status


def test_partitions_share_the_events_and_give_each_once() -> None:
    schedule = Schedule.steady(20_000, 0.5)
    name, generator = events(schedule)
    with DataEngines(name, schedule, partitions=2) as engines:
        assert all(status.started is None for status in engines.status())
        got = [pull_all(client) for client in engines.clients]
        statuses = engines.status()
        record = engines.clients[0].record()
    assert sorted(got[0] + got[1]) == list(range(10_000))
    assert [status.acknowledged for status in statuses] == [5_000, 5_000]
    assert not any(status.void or status.replayed for status in statuses)
    assert record[0][0] == pytest.approx(0, abs=0.1)
    assert [row[1] for row in record] == sorted(row[1] for row in record)
    assert generator.events == 10_000


def test_rows_come_as_the_generator_makes_them() -> None:
    schedule = Schedule.steady(1_000, 0.2)
    name, generator = events(schedule)
    with DataEngines(name, schedule) as engines:
        time.sleep(0.3)  # idle: nobody has asked yet
        engines.clients[0].offer()
        all_made(engines.clients[0])
        batches, _ = engines.clients[0].pull(0, 200)
    assert sum(batch.num_rows for batch in batches) == 200
    assert batches[0].slice(0, 100).equals(generator.batch(0, batches[0].num_rows).slice(0, 100))


def test_a_file_that_was_made_before_serves_as_well(tmp_path: Path) -> None:
    schedule = Schedule.steady(1_000, 0.2)
    _, generator = events(schedule)
    path = log(generator, tmp_path / "events.arrow", Format.ARROW)
    with DataEngines(EventsName(file=str(path)), schedule, partitions=3) as engines:
        got = [number for client in engines.clients for number in pull_all(client)]
    assert sorted(got) == list(range(200))


def test_more_events_than_there_are_are_refused(tmp_path: Path) -> None:
    name, generator = events(Schedule.steady(1_000, 0.2))
    path = log(generator, tmp_path / "events.arrow", Format.ARROW)
    with (
        pytest.raises(OptionError, match="asks for 400 events, and there are 200"),
        DataEngines(EventsName(file=str(path)), Schedule.steady(1_000, 0.4)),
    ):
        pass
    with (
        pytest.raises(OptionError, match="asks for 400 events, and there are 200"),
        DataEngines(name, Schedule.steady(1_000, 0.4)),
    ):
        pass


def test_a_reader_that_starts_again_gets_what_it_had_not_acknowledged() -> None:
    schedule = Schedule.steady(10_000, 0.2)
    name, _ = events(schedule)
    with DataEngines(name, schedule) as engines:
        address = engines.feed.addresses[0]
        with EngineClient(address) as first:
            first.offer()
            all_made(first)
            first.pull(0, 1_500)
            first.acknowledge(1_000)
        with EngineClient(address) as second:
            batches, status = second.pull(1_000, 10_000)
            with pytest.raises(TransportError, match="acknowledged and is gone"):
                second.pull(0, 1)
    assert batches[0]["number"][0].as_py() == 1_000
    assert status.replayed == 500


def test_a_reader_that_never_reads_is_not_sustained_and_ends_the_run() -> None:
    schedule = Schedule.steady(10_000, 30)
    name, _ = events(schedule)
    limits = Limits(acceptable=1_000, limit=3_000)
    with DataEngines(name, schedule, limits=limits) as engines:
        offered = engines.clients[0].offer()
        status = all_made(engines.clients[0])
    assert status.unsustained == "above 1,000 for 3 looks in a row"
    # It is cut off: nobody has to wait for more than it was offered.
    assert status.total == offered.made < 3_000


def test_an_engine_takes_less_than_a_sixth_of_a_core_at_200_000_events_a_second() -> None:
    """Processor time, which other processes disturb little; about a thirtieth where it is quiet."""
    schedule = Schedule.steady(200_000, 3)
    name, _ = events(schedule)
    with DataEngines(name, schedule) as engines:
        before = engines.clients[0].status().cpu_seconds
        taken = 0
        while taken < schedule.events:
            batches, _ = engines.clients[0].pull(taken, 100_000, wait=1)
            taken += sum(batch.num_rows for batch in batches)
            engines.clients[0].acknowledge(taken)
            time.sleep(0.1)
        used = engines.clients[0].status().cpu_seconds - before
    assert used / schedule.seconds < 0.15


def test_a_message_that_is_none_is_answered_by_an_error() -> None:
    name, _ = events(Schedule.steady(10, 1))
    with DataEngines(name, Schedule.steady(10, 1)) as engines:
        client = engines.clients[0]
        with pytest.raises(TransportError, match="cannot 'dance'"):
            client._ask(do="dance")
        with pytest.raises(TransportError, match="invalid literal"):
            client._ask(do="acknowledge", until="soon")
        assert client.status().made == 0


def test_an_engine_that_is_gone_is_told_of() -> None:
    name, _ = events(Schedule.steady(10, 1))
    with DataEngines(name, Schedule.steady(10, 1)) as engines:
        address = engines.feed.addresses[0]
    with pytest.raises(TransportError, match="does not answer"):
        EngineClient(address).status()


def test_a_module_without_events_is_refused_before_anything_runs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with (
        pytest.raises(TransportError, match="says why above"),
        DataEngines(EventsName(module="headrace.errors"), Schedule.steady(10, 1)),
    ):
        pass
    assert "headrace.errors gives no events" in capfd.readouterr().err
    with pytest.raises(OptionError, match="a file or a module"):
        EventsName()


def test_an_open_engine_gives_one_load_after_the_other_with_the_times_of_one_schedule() -> None:
    first = Schedule.steady(1_000, 0.1)
    name, _ = events(first)
    with DataEngines(name, first, is_open=True) as engines:
        (client,) = engines.clients
        client.offer()
        got, times = 0, []
        for phases in ((Phase(0.2, 5_000),), (Phase(0.1, 300), Phase(0.1, 700)), ()):
            while not client.status().waits:
                batches, _ = client.pull(got, 10_000, wait=0.2)
                for batch in batches:
                    got += batch.num_rows
                    times += batch["nanos"].to_pylist()
            if phases:
                status = client.go_on(phases, None)
                assert not status.waits and not status.ended
                # The event that is due at once, if the clock gives the very time.
                assert client.record(status.samples - 1)[0][1] in (got, got + 1)
        schedule = client.schedule()
        assert client.end().ended
    assert got == 100 + 1_000 + 30 + 70
    assert schedule.pairs() == [[0.1, 1_000], [0.2, 5_000], [0.1, 300], [0.1, 700]]
    settings = ProbeSettings(schedule=tuple((s, r) for s, r in schedule.pairs()))
    whole = ProbeGenerator(settings).batch(0, got)
    assert times == whole["nanos"].to_pylist()
