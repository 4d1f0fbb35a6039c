"""How the host runs an epoch: by a plan that is there already, or by one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.engine import spark_host
from headrace.engine.layouts import Layout
from headrace.engine.spark.launch import EPOCH_PROPERTY, MAX_PROPERTY_CHARS
from headrace.engine.spark.session import SparkTarget
from headrace.engine.spark_host import PreparedRows, SparkHost, SparkRows
from headrace.engine.tasks import EpochTasks
from headrace.worker.entry import Epoch, from_text
from headrace.worker.protocol import ONLY_EPOCH

TASKS = EpochTasks(first=b"", fed={}, later=(), sorted=())
WITH_EXCHANGE = EpochTasks(first=b"", fed={}, later=(b"",), sorted=((),))
#: A report as it comes from Spark: of what, and what it says.
REPORT = (7, bytearray(b"report"))


class Door:
    """A door that counts how often it is asked for a plan."""

    is_one_machine = True

    def __init__(self, *, prepares: bool = True) -> None:
        self.planned = 0
        self.told: list[Epoch] = []
        self._prepares = prepares

    def prepared(self, child: Any, build: Any) -> Any:
        del child, build
        self.planned += 1
        return self._run if self._prepares else None

    def _run(self, properties: Mapping[str, str]) -> list[tuple[Any, ...]]:
        self.told.append(from_text(properties[EPOCH_PROPERTY]))
        return [REPORT]

    def name_jobs(self, group: str, title: str) -> None:
        del group, title


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that got a plan of their own."""
    found: list[int] = []

    def launch_epoch(tasks: Any, session: Any, epoch: Epoch, *rest: Any) -> Any:
        del tasks, session, rest
        found.append(epoch.number)

    monkeypatch.setattr(spark_host, "launch_epoch", launch_epoch)
    return found


def host_at(door: Door) -> SparkHost:
    return SparkHost(SparkTarget(session=None, parent=None, door=cast("Any", door)), "group")


def epoch_of(number: int, **fields: Any) -> Epoch:
    return replace(ONLY_EPOCH, number=number, bundle_seconds=1.0, **fields)


def test_epochs_that_no_frame_feeds_share_a_plan_and_are_told_apart(built: list[int]) -> None:
    door = Door()
    host = host_at(door)
    epochs = [epoch_of(number) for number in range(3)]
    for epoch in epochs:
        rows = host.run_epoch(TASKS, epoch, 2, None, whole=True, title="")
        assert rows.reports() == [(7, b"report")]
    assert (door.planned, door.told, built) == (1, epochs, [])


def test_epochs_with_and_without_superstep_0_have_plans_of_their_own(built: list[int]) -> None:
    door = Door()
    host = host_at(door)
    for number, whole in enumerate((True, False, True, False)):
        epoch = epoch_of(number)
        host.run_epoch(WITH_EXCHANGE, epoch, 2, None, whole=whole, title="").reports()
    assert (door.planned, built) == (2, [])


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("tasks", [TASKS, replace(TASKS, first=None)])
def test_an_epoch_in_which_nothing_has_anything_to_do_plans_and_runs_nothing(
    tasks: EpochTasks, layout: Layout, built: list[int]
) -> None:
    """The first epoch of a stream without impulses, for one: nothing feeds its only superstep."""
    door = Door()
    whole = tasks.first is None
    epoch = epoch_of(0)
    rows = host_at(door).run_epoch(tasks, epoch, 2, None, whole=whole, title="", layout=layout)
    assert rows.reports() == []
    assert (door.planned, door.told, built) == (0, [], [])


def test_an_epoch_too_long_for_a_property_travels_in_its_plan(built: list[int]) -> None:
    host = host_at(Door())
    long = epoch_of(5, arrivals=((0, "coder", ((b"x" * MAX_PROPERTY_CHARS, 0),)),))
    assert isinstance(host.run_epoch(TASKS, long, 2, None, whole=True, title=""), SparkRows)
    assert built == [5]


def test_a_spark_that_keeps_no_plans_is_asked_once(built: list[int]) -> None:
    door = Door(prepares=False)
    host = host_at(door)
    for number in range(2):
        rows = host.run_epoch(TASKS, epoch_of(number), 2, None, whole=True, title="")
        assert isinstance(rows, SparkRows)
    assert (door.planned, built) == (1, [0, 1])


def test_rows_that_sinks_want_are_made_by_a_plan_of_their_own() -> None:
    """The same rows are asked for twice: by the reports, and by the sink."""

    class Kept:
        kept = forgotten = False

        def keep(self) -> None:
            self.kept = True

        def reports(self) -> list[tuple[int, bytes]]:
            return [(1, b"kept")]

        def output(self, *asked: Any) -> Any:
            return asked

        def forget(self) -> None:
            self.forgotten = True

    def job(properties: Mapping[str, str]) -> list[Any]:
        raise AssertionError(properties)

    kept = Kept()
    rows = PreparedRows(job, "", lambda: cast("SparkRows", kept), Layout.STAGES)
    rows.keep()
    assert kept.kept
    assert rows.reports() == [(1, b"kept")]
    assert rows.output(3, "columns", b"schema") == (3, "columns", b"schema", 0)
    rows.forget()
    assert kept.forgotten
