"""Questions 11, 12 and 14: sessions in event time, and windows in processing time."""

from __future__ import annotations

from headrace.lab.workloads.nexmark import q11, q12, q12_thesis, q14
from headrace.lab.workloads.nexmark.settings import NexmarkSettings
from tests.lab.nexmark.pipelines import T0, Pass, answers, auction, bid, rows, streaming

SHORT = NexmarkSettings(session_gap_sec=10)


def test_bids_exactly_a_gap_apart_are_two_sessions() -> None:
    events = [
        bid(1, at=0), bid(2, at=10_000), bid(3, at=19_999),  # the first stays alone
        bid(4, at=5, bidder=8), auction(1),
    ]
    found = answers([q11.WORKLOAD, q14.WORKLOAD], events, SHORT)
    assert rows(found["q11"]) == [
        (7, 1, T0, T0 + 10_000), (7, 2, T0 + 10_000, T0 + 29_999), (8, 1, T0 + 5, T0 + 10_005),
    ]
    assert rows(found["q14"]) == [
        (1, 7, 100, T0, "7:2015-07-15T00:00:00.000Z:2015-07-15T00:00:10.000Z"),
        (2, 7, 100, T0 + 10_000, "7:2015-07-15T00:00:10.000Z:2015-07-15T00:00:29.999Z"),
        (3, 7, 100, T0 + 19_999, "7:2015-07-15T00:00:10.000Z:2015-07-15T00:00:29.999Z"),
        (4, 8, 100, T0 + 5, "8:2015-07-15T00:00:00.005Z:2015-07-15T00:00:10.005Z"),
    ]


def test_q11_takes_a_late_bid_within_the_lateness_and_no_later() -> None:
    # The session ends at 10 s; lateness is one second (half of three, cut).
    script = [bid(1, at=0), 10_500, bid(1, at=1), 12_000, bid(1, at=2), 13_000]
    found = q11.whole_sessions(row for row, _ in streaming(q11.WORKLOAD, script))
    assert dict(found) == {(7, 2, T0, T0 + 10_001): 1}


def test_q11_gives_a_long_session_in_several_rows_that_add_up() -> None:
    settings = NexmarkSettings(max_log_events=2)
    script = [bid(1, at=0), bid(1, at=1_000), 1_001, bid(1, at=2_000), 2_001]
    found = streaming(q11.WORKLOAD, script, settings)
    assert rows(found) == [(7, 1, T0, T0 + 12_000), (7, 2, T0, T0 + 11_000)]
    assert dict(q11.whole_sessions(row for row, _ in found)) == {(7, 3, T0, T0 + 12_000): 1}


def test_sessions_that_touch_are_not_added_up() -> None:
    touching = [(1, 1, 0, 10), (1, 1, 10, 20), (2, 1, 5, 15)]
    assert dict(q11.whole_sessions(touching)) == dict.fromkeys(touching, 1)


def test_q12_counts_the_bids_of_a_stretch_of_processing_time() -> None:
    # The first bid opens the window; ten seconds later it is counted, whatever event time does.
    script = [
        bid(1, at=0), Pass(6), bid(1, at=50_000), bid(1, at=2, bidder=8), Pass(5),
        bid(1, at=3), Pass(20),
    ]
    found = streaming(q12.WORKLOAD, script)
    assert sorted(row for row, _ in found if row[1]) == [(7, 1), (7, 2), (8, 1)]
    assert dict(q12.sums(row for row, _ in found)) == {(7, 3): 1, (8, 1): 1}


def test_q12_answers_a_bounded_input_once_per_bidder() -> None:
    events = [bid(1, at=0), bid(1, at=50_000), bid(1, bidder=8), auction(1)]
    found = answers([q12.WORKLOAD, q12_thesis.THESIS], events)
    assert rows(found["q12"]) == rows(found["q12-thesis"]) == [(7, 2), (8, 1)]


class Cell:
    """A state cell in memory."""

    def __init__(self) -> None:
        self.held: object = None

    def read(self) -> object:
        return self.held

    def write(self, value: object) -> None:
        self.held = value

    def clear(self) -> None:
        self.held = None


class Timer:
    """A timer that remembers what it was set to."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def set(self, time: object) -> None:
        self.at.append(float(time))  # type: ignore[arg-type]


def test_a_wall_clock_session_ends_after_more_than_the_gap() -> None:
    now = [100.9]
    sessions = q12_thesis.WallClockSessions(10, clock=lambda: now[0])
    cell, silent, end = Cell(), Timer(), Timer()

    def at(second: float) -> list[tuple[int, int]]:
        now[0] = second
        return list(sessions.process((7, 1), cell, silent, end))

    assert at(100.9) == at(110.1) == []  # ten whole seconds later still belongs to it
    assert silent.at == [111, 121]
    assert at(121.0) == [(7, 2)]  # eleven do not
    assert list(sessions.fall_silent(7, cell)) == [(7, 1)]
    assert list(sessions.finish(7, cell)) == []
