"""NEXMark as a stream on a Spark Connect server, also by a driver whose predecessor was killed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from headrace.lab.catalog import CATALOG
from headrace.lab.ending import Ending
from headrace.lab.experiments.verify.child import MASTER
from headrace.lab.experiments.verify.conditions import LEAST_EPOCHS, Condition
from headrace.lab.experiments.verify.runs import verify
from headrace.lab.systems.headrace_system import HeadraceSystem
from headrace.state.crash_points import Point

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SLOW = "HEADRACE_SLOW" in os.environ
QUERIES = ("q1", "q3", "q5", "q7", "q8", "q11") if SLOW else ("q7",)
#: The gaps of the commit in which the driver of a query is killed.
KILLED = (
    [(query, gap) for query in QUERIES for gap in (Point.BEFORE_TASKS, Point.AFTER_MANIFEST)]
    if SLOW
    else [("q5", Point.AFTER_SINKS)]
)


@pytest.fixture(scope="module")
def system(remote: Any) -> HeadraceSystem:
    return HeadraceSystem(remote)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_as_a_stream_gives_what_the_oracle_says(
    system: HeadraceSystem, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.lab.data.beam_source.BLOCK_EVENTS", 1_024)
    workload = CATALOG.workload("nexmark", query)
    cell = verify(workload, Condition.TWO_SHARDS, events=20_000, system=system)
    assert (cell.ending, cell.told) == (Ending.RIGHT, "")
    assert cell.rows > 0 and cell.epochs is not None and cell.epochs >= LEAST_EPOCHS


@pytest.mark.parametrize("query, gap", KILLED)
def test_a_query_whose_driver_is_killed_gives_each_row_once(
    system: HeadraceSystem, query: str, gap: Point, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MASTER, address)
    workload = CATALOG.workload("nexmark", query)
    cell = verify(workload, Condition.KILLED, events=60_000, system=system, crash=gap)
    assert cell.ending is Ending.RIGHT, cell.told
