"""Finds the bench of a system by its kind, and loads no other.

A system whose packages are not there is shown as absent, with the command that installs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headrace.errors import OptionError
from headrace.lab.environments import NotInstalledError, python_of
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.job_servers.parts import JOB_SERVERS, jars_of
from headrace.lab.record.trial import Subject
from headrace.lab.spec import SystemSpec, made

_HOME = "headrace.lab.systems"
#: Kind -> the package it needs, and the command that installs it.
NEEDS = {
    "headrace": ("pyspark", "pip install headrace"),
    "spark": ("pyspark", "pip install headrace"),
    "direct": ("apache_beam", "pip install headrace"),
}
#: Kind -> the environment of its own that it needs.
ENVIRONMENTS = {"pyflink": "pyflink", "pyflink-thread": "pyflink", "flink-sql": "pyflink"}
#: The kinds that need a job server.
SERVED = tuple(name for name, server in JOB_SERVERS.items() if not server.no_streaming)
#: Kind -> why it is not asked what benches ask, which is to stream.
REFUSED = {name: each.no_streaming for name, each in JOB_SERVERS.items() if each.no_streaming}
#: All kinds, the one that needs nothing last.
KINDS = (*NEEDS, *ENVIRONMENTS, *SERVED, *REFUSED, "fake")
_FLINK: tuple[Mapping[str, Any], ...] = (
    {}, {"bundle_ms": 20}, {"bundle_ms": 500, "bundle_events": 20_000}, {"shards": 1},
)
#: Kind -> what tuning chooses from, unless the spec says it; the first is what is set without it.
CANDIDATES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "headrace": (
        {}, {"who_asks": "headrace"}, {"shards": 1}, {"shards": 4}, {"per_batch": 100_000},
    ),
    # A trigger makes Spark's batches larger and fewer, a bound smaller.
    "spark": (
        {}, {"shards": 1}, {"trigger_ms": 500}, {"trigger_ms": 1_000}, {"per_batch": 100_000},
    ),
    "direct": ({},),
    "pyflink": _FLINK,
    "pyflink-thread": _FLINK,
    "flink-sql": _FLINK,
    "beam-flink": _FLINK,
    "fake": ({},),
}
_OF_SPARK = ("per_batch", "trigger_ms", "shards")
_OF_FLINK = ("bundle_ms", "bundle_events", "shards")
#: Kind -> the settings of size, time and shards that it sees. Of the others it has none.
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "headrace": _OF_SPARK, "spark": _OF_SPARK, "pyflink": _OF_FLINK, "pyflink-thread": _OF_FLINK,
    "flink-sql": _OF_FLINK, "beam-flink": ("bundle_ms", "bundle_events", "shards"),
    "fake": ("trigger_ms", "bundle_events", "shards"),
}


class AbsentError(Exception):
    """A system is not there to be measured; says why, and what installs it if that helps."""


def bench_of(system: SystemSpec) -> Subject:
    """Make the bench of a system; nothing is started yet.

    Raises:
        AbsentError: the system is not installed, or is not asked what benches ask.
        OptionError: there is no such kind, or it cannot be told this.
    """
    if system.kind == "fake":
        return FakeBench(made(FakeSettings, dict(system.settings), f"systems.{system.name}"))
    if system.kind not in KINDS:
        msg = f"there is no kind of system {system.kind!r}; there are {', '.join(KINDS)}"
        raise OptionError(msg)
    _see_that_it_is_there(system.kind)
    live: Any = import_module(f"{_HOME}.live")
    bench: Subject = live.LiveBench(
        system.kind, made(live.LiveSettings, dict(system.settings), f"systems.{system.name}")
    )
    return bench


def candidates_of(system: SystemSpec) -> tuple[Mapping[str, Any], ...]:
    """Give the settings that tuning chooses from."""
    return system.candidates or CANDIDATES[system.kind]


def known_settings(kind: str) -> tuple[str, ...]:
    """Give the settings of size, time and shards that a kind of system sees."""
    return _KNOWN.get(kind, ())


def _see_that_it_is_there(kind: str) -> None:
    if kind in REFUSED:
        raise AbsentError(REFUSED[kind])
    if kind in ENVIRONMENTS or kind in SERVED:
        try:
            jars_of(kind) if kind in SERVED else python_of(ENVIRONMENTS[kind])
        except NotInstalledError as absent:
            raise AbsentError(str(absent)) from absent
        return
    package, command = NEEDS[kind]
    if find_spec(package) is None:
        msg = f"{package} is not installed: {command}"
        raise AbsentError(msg)
