"""What workers tell while they run arrives once, in order, before a run is said to have ended."""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from headrace.engine.listening import Ear, TaskCount
from headrace.engine.replay import StepFormatter, replay
from headrace.worker.task.live_socket import Counted, Teller, teller
from headrace.worker.task.logs import TaskLogs

LOG = logging.getLogger("user.code")


@pytest.fixture(scope="module")
def ear() -> Ear:
    return Ear()


def test_what_is_printed_arrives_on_stdout_and_lines_stay_whole(
    ear: Ear, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stdout
    with TaskLogs(logging.INFO, ear.path) as found:
        print("one", 1)
        print("two", end="")
        print(", and its rest")
        print("no end of line", end="")
    assert sys.stdout is before
    ear.settle()
    assert capsys.readouterr().out == "one 1\ntwo, and its rest\nno end of line"
    assert list(found.rows()) == []


def test_a_task_in_this_very_process_hears_nothing_twice(
    ear: Ear, capsys: pytest.CaptureFixture[str]
) -> None:
    with TaskLogs(logging.INFO, ear.path):
        for number in range(50):
            print(number)
            ear.settle()  # it is handled while the task still stands in for stdout
    ear.settle()
    assert capsys.readouterr().out == "".join(f"{number}\n" for number in range(50))


def test_ten_thousand_lines_of_two_workers_are_all_there(
    ear: Ear, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = [Teller(ear.path), Teller(ear.path)]
    for number in range(10_000):
        assert ways[number % 2].tell({"print": f"{number}\n"})
    for way in ways:
        way.close()
    ear.settle()
    lines = [int(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(lines) == list(range(10_000))
    assert [n for n in lines if n % 2] == list(range(1, 10_000, 2))


def test_what_is_logged_is_logged_once(
    ear: Ear, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with TaskLogs(logging.INFO, ear.path) as found, warnings.catch_warnings():
        LOG.warning("seen %d", 3)
        LOG.debug("not for the driver")
    ear.settle()
    assert [record.getMessage() for record in caplog.records] == ["seen 3"]
    assert list(found.rows()) == []


def test_where_nobody_listens_records_travel_with_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    assert teller("") is None
    with TaskLogs(logging.INFO, f"{tmp_path}/absent") as found:
        LOG.warning("kept")
        print("shown here")
    assert b"kept" in b"".join(row.payload for row in found.rows())
    assert capsys.readouterr().out == "shown here\n"


def test_an_exception_that_ends_the_task_is_not_logged_as_well(ear: Ear) -> None:
    error = ValueError("x [while running 'Step']")
    error._tagged_with_step = True  # type: ignore[attr-defined]
    with TaskLogs(logging.INFO) as found:
        logging.getLogger("apache_beam.runners.common").error("x", exc_info=error)
    assert list(found.rows()) == []


def test_counts_are_those_of_the_run_that_asks(ear: Ear) -> None:
    way = Teller(ear.path)
    counted = Counted(way, "mine", 1, 0)
    counted.taken, counted.given = 5, 7
    counted.tell(done=True)
    way.close()
    ear.settle()
    assert ear.counts("mine") == {(1, 0): TaskCount(taken=5, given=7, done=True)}
    assert ear.counts("other") == {}
    ear.forget("mine")
    assert ear.counts("mine") == {}


def test_by_default_a_workers_record_has_its_time_and_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    entry = {
        "kind": "log", "name": "user.code", "level": logging.WARNING, "message": "seen",
        "path": "a.py", "line": 3, "created": 86_400.0 * 365, "step": "Parse",
    }
    replay(entry)
    (record,) = caplog.records
    assert record.created == entry["created"]
    form = StepFormatter(logging.BASIC_FORMAT)
    assert form.format(record)[8:] == " WARNING user.code [Parse]: seen"
    own = logging.makeLogRecord({"levelname": "INFO", "name": "mine", "msg": "hello"})
    assert form.format(own) == "INFO:mine:hello"
