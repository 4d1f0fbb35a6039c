"""Question 10: every event stands in one file of its shard, and the index names the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from headrace.lab.workload import Workload
from headrace.lab.workloads.nexmark import q10
from headrace.lab.workloads.nexmark.model import decode_all, encode
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import (
    T0,
    auction,
    batch,
    bid,
    generated,
    person,
    rows,
    streaming,
)

FIRST, SECOND = "2015-07-15T00:00:09.999Z", "2015-07-15T00:00:19.999Z"


def logging_to(folder: Path) -> Workload:
    return replace(q10.WORKLOAD, build=lambda settings: q10.build(settings, str(folder)))


def test_every_window_with_events_is_told_once() -> None:
    events = [person(1, 0), auction(1, 9_999), bid(1, 10, 10_000)]
    assert batch(q10.WORKLOAD, events) == [
        (FIRST, f"written for timestamp {FIRST}"), (SECOND, f"written for timestamp {SECOND}"),
    ]


def test_the_files_hold_all_events_and_the_index_names_the_files(tmp_path: Path) -> None:
    settings = NexmarkSettings(num_events=600)
    events = generated(settings)
    workload = logging_to(tmp_path)
    for _ in range(2):  # a second run replaces what the first one wrote
        assert [row[0] for row in batch(workload, events, settings)] == [FIRST]
        files = sorted(path.name for path in tmp_path.glob("LOG-*"))
        assert {path.name for path in tmp_path.iterdir()} == {*files, f"INDEX-{FIRST}"}
        assert len(files) == q10.SHARDS  # 600 events leave none of 25 shards empty
        found = [e for name in files for e in decode_all((tmp_path / name).read_bytes())]
        assert sorted(found, key=repr) == sorted(events, key=repr)
        lines = (tmp_path / f"INDEX-{FIRST}").read_text().splitlines()
        assert [line.split()[4] for line in lines] == files
        assert all(line.split()[:3:2] == [FIRST, "0"] for line in lines)


def test_shards_follow_the_reference_hash() -> None:
    # Event 0 of the default settings has Java's hash 1114531003, event 2 has -600730614.
    events = generated(NexmarkSettings(num_events=3, num_event_generators=100))
    assert q10.by_shard(events[0])[0] == 1_114_531_003 % 25
    assert q10.by_shard(events[2])[0] == 600_730_614 % 25


def test_early_and_timely_panes_of_a_stream_have_files_of_their_own(tmp_path: Path) -> None:
    settings = NexmarkSettings(max_log_events=2)
    # All copies of one event are in one shard. Two fill a pane; one is left when the window ends.
    same = bid(1, 5, 7)
    found = streaming(logging_to(tmp_path), [same, same, same, 10_000, 20_000], settings)
    assert rows(found) == [(FIRST, f"written for timestamp {FIRST}")]
    panes = {path.name.split("-")[-2]: path for path in tmp_path.glob("LOG-*")}
    assert {timing: len(list(decode_all(path.read_bytes()))) for timing, path in panes.items()} == {
        "E": 2, "O": 1,
    }
    index = (tmp_path / f"INDEX-{FIRST}").read_text()
    assert [line.split()[2:4] for line in index.splitlines()] == [["0", "EARLY"], ["1", "ON_TIME"]]


def test_a_late_pane_has_a_file_and_a_line_but_no_second_message(tmp_path: Path) -> None:
    # Called by hand: Beam's local runner stalls on late elements that wait for the clock.
    window = IntervalWindow(T0 / 1_000, T0 / 1_000 + 10)
    late = PaneInfo(False, False, PaneInfoTiming.LATE, 1, 1)
    [(_, entry)] = q10.WritePane(str(tmp_path)).process((3, [encode(bid(1))]), window, late)
    assert entry[:3] == ("shard-00003-of-00025", 1, "LATE")
    assert list(decode_all((tmp_path / entry[3]).read_bytes())) == [bid(1)]
    assert list(q10.WriteIndex(str(tmp_path)).process((0, [entry]), window, late)) == []
    assert (tmp_path / f"INDEX-{FIRST}").read_text() == f"{FIRST} {entry[0]} 1 LATE {entry[3]}\n"
    assert list(q10.WritePane(str(tmp_path)).process((3, []), window, late)) == []
