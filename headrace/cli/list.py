"""`headrace list`: shows suites, workloads, and what one of them can be told.

Arguments and printing only; what there is, the catalogue knows.
"""

from __future__ import annotations

import argparse
from typing import Any

from headrace.lab.catalog import CATALOG, Catalog, native_of
from headrace.lab.parameters import parameters_of
from headrace.lab.workload import Refusal, Workload

_EXAMPLES = """\
examples:
  headrace list              every workload, a line each
  headrace list nexmark      those of one suite
  headrace list nexmark q5   the columns of its answer, its settings, their domains and effects
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "list",
        help="show the workloads that can be run",
        description="Show the workloads that `headrace run` knows.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("suite", metavar="SUITE", nargs="?", help=f"{', '.join(CATALOG.suites)}")
    sub.add_argument("name", metavar="NAME", nargs="?", help="a workload of the suite")
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace, catalog: Catalog | None = None) -> int:
    """Show what was asked for."""
    there = catalog or CATALOG
    if arguments.suite and arguments.name:
        print("\n".join(details(there.workload(arguments.suite, arguments.name))))
        return 0
    suites = [arguments.suite] if arguments.suite else there.suites
    found = [workload for suite in suites for workload in there.of_suite(suite)]
    width = max((len(workload.full_name) for workload in found), default=0)
    for workload in found:
        print(f"{workload.full_name:{width}}  {workload.title}")
    return 0


def details(workload: Workload) -> list[str]:
    """Give everything there is to know about one workload, a line each."""
    lines = [f"{workload.full_name}: {workload.title}", ""]
    lines.append(f"runs in:   {', '.join(mode.value for mode in workload.modes)}")
    native = native_of(workload)
    if isinstance(native, Refusal):
        lines.append(f"on Spark alone: no. {native.reason}")
    else:
        lines.append(f"on Spark alone: {workload.native}")
    lines += ["", "columns of its answer:"]
    width = max(len(column.name) for column in workload.columns)
    lines += [f"  {column.name:{width}}  {column.kind.value}" for column in workload.columns]
    lines += ["", "settings:"]
    for parameter in parameters_of(workload.settings):
        lines.append(f"  --{parameter.name} (default {parameter.default})")
        lines.append(f"      {parameter.effect}")
        lines.append(f"      {parameter.domain.tell()}")
    return lines
