"""Finds the bench of a system by its kind, and loads no other.

A system whose packages are not there is shown as absent, with the command that installs them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headrace.errors import OptionError
from headrace.lab.environments import NotInstalledError, python_of
from headrace.lab.experiments.fake import FakeBench, FakeSettings
from headrace.lab.experiments.trial import Bench
from headrace.lab.spec import SystemSpec, made

_HOME = "headrace.lab.systems"
#: Kind -> the package it needs, and the command that installs it.
NEEDS = {
    "headrace": ("pyspark", "pip install headrace"),
    "spark": ("pyspark", "pip install headrace"),
    "direct": ("apache_beam", "pip install headrace"),
}
#: Kind -> the environment of its own that it needs.
ENVIRONMENTS = {"pyflink": "pyflink", "pyflink-thread": "pyflink"}
#: All kinds, the one that needs nothing last.
KINDS = (*NEEDS, *ENVIRONMENTS, "fake")


class AbsentError(Exception):
    """A system is not installed; says what installs it."""


def bench_of(system: SystemSpec) -> Bench:
    """Make the bench of a system; nothing is started yet.

    Raises:
        AbsentError: the system is not installed.
        OptionError: there is no such kind, or it cannot be told this.
    """
    if system.kind == "fake":
        return FakeBench(made(FakeSettings, dict(system.settings), f"systems.{system.name}"))
    if system.kind not in KINDS:
        msg = f"there is no kind of system {system.kind!r}; there are {', '.join(KINDS)}"
        raise OptionError(msg)
    _see_that_it_is_there(system.kind)
    live: Any = import_module(f"{_HOME}.live")
    bench: Bench = live.LiveBench(
        system.kind, made(live.LiveSettings, dict(system.settings), f"systems.{system.name}")
    )
    return bench


def _see_that_it_is_there(kind: str) -> None:
    if kind in ENVIRONMENTS:
        try:
            python_of(ENVIRONMENTS[kind])
        except NotInstalledError as absent:
            raise AbsentError(str(absent)) from absent
        return
    package, command = NEEDS[kind]
    if find_spec(package) is None:
        msg = f"{package} is not installed: {command}"
        raise AbsentError(msg)
