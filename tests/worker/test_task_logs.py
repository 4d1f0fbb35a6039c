"""What user code logs and warns reaches the driver, in bounds."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import apache_beam as beam
import pytest

from headrace.engine.replay import replay
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL
from headrace.worker.protocol import LogReport, from_row
from headrace.worker.task import logs as logs
from headrace.worker.task.logs import TaskLogs
from tests.worker.harness import on_headrace

LOG = logging.getLogger("user.code")


class OldWarning(UserWarning):
    """A warning class of the user's own."""


def entries(found: TaskLogs) -> list[dict[str, Any]]:
    rows = list(found.rows())
    assert all(r.channel == REPORT_CHANNEL for r in rows)
    reports = [from_row(r.seq, r.payload) for r in rows]
    return [dict(entry) for r in reports if isinstance(r, LogReport) for entry in r.records]


def test_a_quiet_task_reports_nothing() -> None:
    with TaskLogs(logging.INFO) as found:
        LOG.debug("below the level")
    assert entries(found) == []


def test_records_keep_name_level_message_and_traceback() -> None:
    with TaskLogs(logging.INFO) as found:
        LOG.info("seen %d of %s", 3, "four")
        try:
            dict[str, int]()["gone"]
        except KeyError:
            LOG.exception("failed")
    first, second = entries(found)
    assert (first["name"], first["level"], first["message"]) == (
        "user.code", logging.INFO, "seen 3 of four",
    )  # fmt: skip
    assert first["path"] == __file__
    assert "trace" not in first
    assert second["trace"].endswith("KeyError: 'gone'")


def test_more_records_than_the_limit_are_counted_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_RECORDS", 3)
    with TaskLogs(logging.INFO) as found:
        for i in range(10):
            LOG.warning("record %d", i)
    kept = entries(found)
    assert [entry["message"] for entry in kept] == [
        "record 0", "record 1", "record 2", "7 further log records were dropped",
    ]  # fmt: skip


def test_a_log_call_with_wrong_arguments_does_not_fail_the_task(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own handlers print such a mistake and go on; ours must not be stricter."""
    monkeypatch.setattr(logging, "raiseExceptions", True)
    with TaskLogs(logging.INFO) as found:
        found.handle(LOG.makeRecord("user.code", 30, __file__, 1, "%d", ("text",), None))
        LOG.warning("after it")
    assert [entry["message"] for entry in entries(found)][-1] == "after it"
    assert "Logging error" in capsys.readouterr().err


def test_logging_and_warnings_are_as_before_when_the_task_is_over() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), warnings.showwarning)
    with TaskLogs(logging.DEBUG):
        assert root.level <= logging.DEBUG
    assert (root.level, list(root.handlers), warnings.showwarning) == before


def test_sparks_own_chatter_stays_where_it_is() -> None:
    with TaskLogs(logging.INFO) as found:
        logging.getLogger("py4j.clientserver").warning("noise")
        logging.getLogger("pyspark.sql").warning("noise")
    assert entries(found) == []


def test_warnings_are_replayed_with_their_class_and_place() -> None:
    with TaskLogs(logging.INFO) as found, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("too old", OldWarning, stacklevel=1)
    (entry,) = entries(found)
    with pytest.warns(OldWarning, match="too old") as caught:
        replay(entry)
    assert caught[0].filename == __file__


def test_a_warning_class_that_the_driver_lacks_becomes_a_user_warning() -> None:
    entry = {
        "kind": "warning", "module": "nowhere.at_all", "category": "Lost", "message": "hm",
        "path": "x.py", "line": 3, "step": "",
    }  # fmt: skip
    with pytest.warns(UserWarning, match="hm"):
        replay(entry)


def chatty(x: int) -> int:
    LOG.warning("element %d", x)
    return x


def test_logs_of_a_pipeline_are_heard_on_the_driver_with_their_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([1, 2]) | "Chatty" >> beam.Map(chatty)

    on_headrace(build)
    heard = {(r.getMessage(), getattr(r, "beam_step", None)) for r in caplog.records}
    assert {("element 1", "Chatty"), ("element 2", "Chatty")} <= heard
