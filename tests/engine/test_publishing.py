"""What is published behind the next epoch: one at a time, in order, and no failure is lost."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.engine.publishing import Publishing


def test_the_next_publication_waits_for_the_one_before() -> None:
    told: list[str] = []
    may_end = threading.Event()
    publishing = Publishing(lambda: None)

    def first() -> dict[str, float]:
        may_end.wait(30)
        told.append("first")
        return {"Out": 0.25}

    def second() -> dict[str, float]:
        told.append("second")
        return {"Out": 0.5}

    assert publishing.begin(first) == {}
    assert not told  # the run goes on
    threading.Timer(0.05, may_end.set).start()
    assert publishing.begin(second) == {"Out": 0.25}, "what the one before took"
    publishing.wait()
    assert told == ["first", "second"]


def test_a_failure_wakes_the_run_and_is_raised_there_once() -> None:
    awake = threading.Event()
    publishing = Publishing(awake.set)

    def fail() -> dict[str, float]:
        message = "refused"
        raise ValueError(message)

    publishing.begin(fail)
    assert awake.wait(30)
    publishing._join()
    with pytest.raises(ValueError, match="refused"):
        publishing.raise_failure()
    publishing.wait()
    publishing.begin(fail)
    with pytest.raises(ValueError, match="refused"):
        publishing.begin(lambda: pytest.fail("it comes after what was not published"))
    publishing.wait()


def test_a_run_that_ends_does_not_wait_for_a_broker_that_is_away() -> None:
    publishing = Publishing(lambda: None)
    began = threading.Event()

    def publish() -> dict[str, float]:
        began.set()
        while not publishing.given_up:
            time.sleep(0.01)
        return {}

    publishing.begin(publish)
    assert began.wait(30)
    publishing.abandon()
    publishing.wait()
