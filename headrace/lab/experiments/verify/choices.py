"""The settings with which each workload is verified: small, yet every question has an answer.

Takes a workload and how many events, gives its settings and the request to run it. The defaults
of the suites are made for rates: they put all events of a short run into one window.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.lab.data.generator import Generator
from headrace.lab.experiments.verify.conditions import Condition
from headrace.lab.systems.system import Request
from headrace.lab.workload import Mode, Workload

#: Events of a run: 9 blocks of the source.
EVENTS = 70_000
#: Readers that share them; an epoch reads one block of each, or a few.
READERS = 2
#: An epoch is over as soon as something has been read.
FLAGS = ("--max_bundle_seconds=0",)
#: Events that may change places. A group of 10 is cut by the ends of blocks (8,192 events): what is
#: late in one reader's block comes after another reader has gone on.
GROUP = 10

#: A minute of event time: several windows of 10 s close while the stream goes on.
_SLOW: Mapping[str, Any] = {"rate": 1_000}
_SUITES: Mapping[str, Mapping[str, Any]] = {
    "nexmark": {"first_event_rate": 1_000, "next_event_rate": 1_000},
    "yahoo": _SLOW,
    "hibench": _SLOW,
    "windowed": _SLOW,
}
_WORKLOADS: Mapping[str, Mapping[str, Any]] = {
    # Sessions of the default gap, 10 minutes, would all end with the input.
    "nexmark q14": {"session_gap_sec": 5},
    # Windows by the clock: they must be over before the run is.
    "windowed aggregation-by-arrival": {"window_size_sec": 2, "slide_sec": 1},
    "windowed join-by-arrival": {"window_size_sec": 2, "slide_sec": 1},
    # A graph per epoch or so; the default makes one of nearly all events.
    "kernels pagerank": {"window_ms": 2_000},
}


def tries(events: int) -> tuple[int, ...]:
    """Give how many events a run has, and those after it if it had too few epochs.

    What an epoch reads depends on the moment when it is cut, and so on the machine.
    """
    return events, 2 * events, 4 * events


def settings_of(workload: Workload, events: int) -> Any:
    """Give the settings to verify a workload with; its events come out of order."""
    names = {field.name for field in dataclasses.fields(workload.settings)}
    chosen = {
        ("num_events" if "num_events" in names else "events"): events,
        ("out_of_order" if "out_of_order" in names else "out_of_order_group_size"): GROUP,
        **_SUITES.get(workload.suite, {}),
        **_WORKLOADS.get(workload.full_name, {}),
    }
    return workload.settings(**chosen)


def request_of(workload: Workload, condition: Condition, events: int, folder: Path) -> Request:
    """Say how a workload is to be run in a condition."""
    return Request(
        workload=workload, settings=settings_of(workload, events), mode=condition.mode,
        folder=folder, shards=condition.shards, readers=READERS,
        flags=FLAGS if condition.mode is Mode.STREAMING else (),
    )


def disordered(generator: Generator) -> bool:
    """Whether events come in another order than they happened."""
    _, times = generator.elements(0, min(generator.events, 100 * GROUP))
    return times != sorted(times)
