"""Finds workloads by suite and name.

Knows where the suites are and loads one when it is asked for: a suite brings Beam with it, and
whoever runs one question should not wait for the others. Knows nothing of how workloads are run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from headrace.errors import OptionError
from headrace.lab.workload import Refusal, Workload, find


@dataclass(frozen=True, slots=True)
class Catalog:
    """Suites, by name; each is a module with a tuple `WORKLOADS`."""

    modules: Mapping[str, str]

    @property
    def suites(self) -> tuple[str, ...]:
        """The names of the suites."""
        return tuple(self.modules)

    def of_suite(self, suite: str) -> tuple[Workload, ...]:
        """Load the workloads of one suite, in its own order.

        Raises:
            OptionError: there is no such suite; says which there are.
        """
        module = self.modules.get(suite)
        if module is None:
            raise OptionError(_unknown("suite", suite, self.modules))
        return tuple(import_module(module).WORKLOADS)

    def workload(self, suite: str, name: str) -> Workload:
        """Load one workload.

        Raises:
            OptionError: there is no such suite or workload; says which there are.
        """
        there = {workload.name: workload for workload in self.of_suite(suite)}
        if name not in there:
            raise OptionError(_unknown(f"workload of {suite}", name, there))
        return there[name]


def native_of(workload: Workload) -> Callable[..., Any] | Refusal:
    """Load the native version of a workload, or why there is none.

    A refusal may stand in the workload or under the name that it gives.
    """
    named = workload.native
    found: Callable[..., Any] | Refusal = named if isinstance(named, Refusal) else find(named)
    return found


def _unknown(what: str, name: str, there: Iterable[str]) -> str:
    names = list(there)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"there is no {what} {name!r}{hint} There {_are(names)}"


def _are(names: list[str]) -> str:
    if not names:
        return "are none"
    return ("is " if len(names) == 1 else "are ") + ", ".join(names)


_HOME = "headrace.lab.workloads"

#: All suites of the project, in the order in which they are shown.
CATALOG = Catalog(
    {
        "nexmark": f"{_HOME}.nexmark.queries",
        "yahoo": f"{_HOME}.yahoo",
        "hibench": f"{_HOME}.hibench",
        "windowed": f"{_HOME}.windowed",
        "kernels": f"{_HOME}.kernels",
        "micro": f"{_HOME}.micro",
        "scaling": f"{_HOME}.scaling",
    }
)
