"""The line that shows how a run stands."""

from __future__ import annotations

import pytest

from headrace.lab.progress import Speed, lag_seconds, view
from headrace.lab.systems.system import Glance
from headrace.terminal.view import line
from tests.lab import toy

TOY = toy.ToyGenerator(toy.ToySettings(events=2_000, rate=10))


def test_a_line_says_what_is_known() -> None:
    glance = Glance(
        events=1_500, watermark=toy.START + 149 * toy.SECOND, epoch=3, epoch_seconds=0.25,
        state_bytes=12_000, checkpoint_bytes=3_400_000,
    )
    assert line(view("toy counts", TOY, glance, seconds=7.2, rate=1234.5, pace=False)) == (
        "headrace: toy counts: 1,500 of 2,000 events; 1,234 events/s; watermark lag 1.0 s; "
        "epoch 3: 250 ms; state 12 KB; checkpoint 3.4 MB; 7 s"
    )


def test_what_is_not_known_is_left_out() -> None:
    told = line(view("toy counts", TOY, Glance(rows=7), seconds=3, rate=None, pace=False))
    assert told == "headrace: toy counts: 7 rows; 3 s"


def test_before_the_first_epoch_there_are_no_figures() -> None:
    glance = Glance(events=0, epoch=-1, epoch_seconds=0.0, state_bytes=0)
    told = view("toy counts", TOY, glance, seconds=3, rate=0.0, pace=False)
    assert told.parts == ("starting workers for the first epoch", "3 s")


def test_in_a_paced_run_events_that_are_due_count_as_arrived() -> None:
    """100 events of 10 per second are read; after 20 seconds 200 are due."""
    glance = Glance(events=100, watermark=toy.START + 9 * toy.SECOND)
    assert lag_seconds(TOY, glance, 20.0, pace=False) == 1.0
    assert lag_seconds(TOY, glance, 20.0, pace=True) == pytest.approx(11.1)


def test_a_run_at_the_end_of_time_has_no_lag() -> None:
    end = Glance(events=2_000, watermark=9_223_372_036_854_775_000)
    assert lag_seconds(TOY, end, 5.0, pace=True) == 0.0
    assert lag_seconds(TOY, Glance(events=5), 5.0, pace=True) is None


def test_a_watermark_that_has_not_begun_lags_by_what_has_arrived() -> None:
    glance = Glance(events=50, watermark=-9_223_372_036_854_775_000)
    assert lag_seconds(TOY, glance, 1.0, pace=False) == 5.0


def test_speed_is_that_of_the_last_looks() -> None:
    speed = Speed()
    assert speed.at(2.0, 100) == 50.0  # since the start
    assert speed.at(3.0, 400) == 300.0
    for second in range(4, 40):
        last = speed.at(float(second), 400 + 7 * (second - 3))
    assert last == pytest.approx(7.0)
