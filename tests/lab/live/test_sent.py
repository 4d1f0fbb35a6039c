"""Events of workloads as they are sent: what a file says, at the times of a schedule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.lab.data_engine.events import load
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.live.content import generator_of, write_content
from headrace.lab.live.facts import BASE_MS, FACTS, STREAMS
from headrace.lab.live.question import workload_question
from headrace.lab.live.sent import SentEvents, SentSettings, plain
from headrace.lab.workload import find

#: Two blocks of hot people and auctions of NEXMark.
EVENTS = 10_000


def sent(
    stream: str, folder: Path, schedule: tuple[tuple[float, float], ...] = ((4.0, 8_000.0),)
) -> SentEvents:
    path = folder / "content.arrow"
    if not path.exists():
        write_content(stream, path, EVENTS)
    return SentEvents(SentSettings(schedule=schedule, stream=stream, content=str(path)))


@pytest.mark.parametrize("stream", STREAMS)
def test_events_say_what_the_generator_says_at_the_time_they_are_to_be_sent(
    stream: str, tmp_path: Path
) -> None:
    events = sent(stream, tmp_path)
    made = events.batch(5, 100)
    assert made.schema == events.schema
    assert made.column("number").to_pylist() == list(range(5, 105))
    micros = made.column("time").cast(pa.int64()).to_numpy()
    grain = 1_000 if STREAMS[stream].millis else 1
    due = np.arange(5, 105) * 125  # 8,000 a second
    assert ((micros - BASE_MS * 1_000) == due // grain * grain).all()
    assert (made.column("nanos").to_numpy() == micros * 1_000).all()
    theirs = generator_of(stream).batch(5, 100)
    for name in set(STREAMS[stream].columns) - {"person", "auction", "bid"}:
        if name in ("event_time", "timestamp"):
            assert (made.column(name).to_numpy() == micros // 1_000).all()
        else:
            assert made.column(name).equals(theirs.column(name))


def test_records_of_nexmark_move_in_time_as_wholes(tmp_path: Path) -> None:
    made = sent("nexmark", tmp_path).batch(0, 200).to_pylist()
    theirs = generator_of("nexmark").batch(0, 200).to_pylist()
    for ours, own in zip(made, theirs, strict=True):
        for kind in ("person", "auction", "bid"):
            if own[kind] is None:
                assert ours[kind] is None
                continue
            at = ours["nanos"] // 1_000_000
            lasts = own["auction"]["expires"] - own["auction"]["date_time"] if kind == (
                "auction") else 0
            moved = {"date_time": at, **({"expires": at + lasts} if lasts else {})}
            assert ours[kind] == own[kind] | moved


def test_a_file_that_begins_anew_has_new_people_and_auctions(tmp_path: Path) -> None:
    events = sent("nexmark", tmp_path)
    rows = events.batch(0, 3 * EVENTS).to_pylist()
    people = [row["person"]["id"] for row in rows if row["person"]]
    auctions = [row["auction"]["id"] for row in rows if row["auction"]]
    assert len(set(people)) == len(people) == 3 * EVENTS // 50
    assert len(set(auctions)) == len(auctions) == 3 * EVENTS * 3 // 50
    assert people == sorted(people) and auctions == sorted(auctions)
    # Who sells and bids is of the same turn of the file.
    third = [row for row in rows[2 * EVENTS :]]
    first_person, first_auction = people[2 * EVENTS // 50], auctions[2 * EVENTS * 3 // 50]
    assert all(r["auction"]["seller"] >= first_person for r in third if r["auction"])
    assert all(r["bid"]["auction"] >= first_auction for r in third if r["bid"])


def test_an_event_keeps_its_time_when_its_load_is_cut_short(tmp_path: Path) -> None:
    whole = ((1.0, 777.0), (3.0, 12_345.0))
    phases = Schedule.read(whole).cut(9_000).phases
    cut = tuple((phase.seconds, phase.rate) for phase in phases)
    before = sent("windowed", tmp_path, whole).batch(0, 9_000)
    after = sent("windowed", tmp_path, cut).batch(0, 9_000)
    assert before.equals(after)


def test_a_data_engine_loads_what_a_question_names(tmp_path: Path) -> None:
    events = sent("yahoo", tmp_path)
    name = workload_question("yahoo:campaigns").events(events.settings)
    loaded = load(name)
    assert loaded.events == 32_000
    assert loaded.batch(100, 50).equals(events.batch(100, 50))
    assert set(plain(events.settings)) == {"schedule", "stream", "content"}


@pytest.mark.parametrize("name", FACTS)
def test_every_question_has_a_workload_with_a_form_over_columns_that_are_sent(name: str) -> None:
    question = workload_question(name)
    by = question.workload.by_columns
    assert by is not None
    by.build(question.settings)
    columns = {"number", "time", "nanos", *STREAMS[question.facts.stream].columns}
    plain_names = [each for each in by.columns if each.isidentifier()]
    assert set(plain_names) <= columns
    if by.native:
        assert callable(find(by.native))
