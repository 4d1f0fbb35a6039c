"""How a run ends is what became of it: no failure falls between two looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from headrace.engine import opening
from headrace.engine.queries import Queries
from headrace.errors import CheckpointError, HeadraceError
from headrace.io import ReadFromSpark
from headrace.runner import StreamResult
from tests.streaming.harness import Gathered, Inbox, checkpointed, started, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]

EVENTS = "key string, value long"


def build(folder: Path, inbox: Inbox, gathered: Gathered, *options: str) -> beam.Pipeline:
    p = checkpointed(folder, *options, shards=1)
    (
        p
        | "Read" >> ReadFromSpark(inbox.frame(EVENTS))
        | "Pair" >> beam.Map(lambda r: (r.key, r.value)).with_output_types(tuple[str, int])
        | "Gather" >> gathered.sink("key string, value bigint")
    )
    return p


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path / "in")
    made.put({"key": "a", "value": 1})
    return made


def dead_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every query has come to its end before anybody looks at it."""
    listen = Queries.listen

    def and_wait(self: Queries, name: str, *more: Any) -> None:
        listen(self, name, *more)
        until(lambda: not self.started[name].isActive)

    monkeypatch.setattr(Queries, "listen", and_wait)


def test_a_query_that_fails_before_the_next_look_fails_the_run(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert first.wait_until_finish() == "DONE"
    torn = tmp_path / "checkpoint" / "spark" / "0" / "commits" / "0"
    torn.write_text("v1\n{")
    torn.with_name(".0.crc").unlink(missing_ok=True)
    inbox.put({"key": "a", "value": 2})
    dead_at_once(monkeypatch)
    # We would see it before Spark does; what is asked for is what happens when Spark stumbles.
    monkeypatch.setattr(opening, "check_logs", lambda *_: None)
    result = build(tmp_path, inbox, Gathered(), "--available_now").run()
    with pytest.raises(CheckpointError, match="cannot go on with its log in .*spark/0"):
        result.wait_until_finish()
    assert result.state == "FAILED"


def test_a_query_that_fails_while_it_is_ended_fails_the_run(
    tmp_path: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look is after the queries have ended, not before."""
    failure = HeadraceError("the source is gone")
    end = Queries.end

    def and_fail(self: Queries) -> None:
        end(self)
        monkeypatch.setattr(Queries, "failure", lambda _: failure)

    monkeypatch.setattr(Queries, "end", and_fail)
    gathered = Gathered()
    with started(build(tmp_path, inbox, gathered)) as result:
        until(lambda: bool(gathered.rows))
        with pytest.raises(HeadraceError, match="the source is gone"):
            result.drain()
        assert result.state == "FAILED"


def test_a_query_that_somebody_else_stops_fails_the_run(tmp_path: Path, inbox: Inbox) -> None:
    gathered = Gathered()
    with started(build(tmp_path, inbox, gathered)) as result:
        until(lambda: bool(gathered.rows))
        (query,) = result.queries.values()
        query.stop()
        with pytest.raises(HeadraceError, match=r"Read: its query was stopped by somebody else"):
            result.wait_until_finish(30_000)


def test_a_run_that_had_stopped_before_it_was_told_to_drain_is_not_called_drained(
    tmp_path: Path, inbox: Inbox
) -> None:
    result = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert isinstance(result, StreamResult)
    assert result.wait_until_finish() == "DONE"
    assert result.drain() == "DONE"  # its windows are open and its timers wait
    again = build(tmp_path, inbox, Gathered(), "--available_now").run()
    assert isinstance(again, StreamResult)
    assert again.drain() == "DRAINED"
