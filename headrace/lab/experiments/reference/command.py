"""The command line: which workloads, on which systems; writes headrace/lab/answers/.

A file is written only if two systems gave the oracle's answer and none gave another. Ends with 0
when all files were written, 2 when one was not.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.lab.commands import (
    PACKAGES,
    chosen,
    get_ready,
    number,
    say,
    takes_cores,
    takes_workloads,
)
from headrace.lab.experiments.reference.agree import reference
from headrace.lab.experiments.reference.asked import Answer, Asked
from headrace.lab.reference import to_text
from headrace.lab.run import expected
from headrace.lab.systems.choose import AT_HAND, SYSTEMS
from headrace.lab.systems.system import Request
from headrace.lab.workload import Mode, Row, Workload

HOME = PACKAGES / "headrace" / "lab" / "answers"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run reference",
        description="Ask the oracle for the answer of workloads at their default settings, and "
        "write it down where at least two systems give the same.",
    )
    takes_workloads(made)
    made.add_argument("--system", action="append", choices=SYSTEMS, default=None,
                      help="ask this system only; may be given again, two are needed")
    takes_cores(made)
    made.add_argument("--limit", type=number, default=180, metavar="SECONDS",
                      help="give a system up that takes longer for an answer. Default: 180")
    made.add_argument("--missing", action="store_true",
                      help="leave workloads alone that have a file")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    get_ready()
    workloads = chosen(made, args.what)
    names = list(dict.fromkeys(args.system or AT_HAND))
    systems = [Asked(name, cores=args.cores, limit_seconds=args.limit) for name in names]
    failed = 0
    try:
        for turn, workload in enumerate(workloads, start=1):
            if args.missing and path_of(workload).exists():
                continue
            say(f"{turn} of {len(workloads)}: {workload.full_name}")
            failed += not _make(workload, systems)
    finally:
        for system in systems:
            system.close()
    say(f"{failed} of {len(workloads)} without a reference" if failed else "all written")
    return 2 if failed else 0


def path_of(workload: Workload) -> Path:
    """Give the file of a workload's reference."""
    return HOME / workload.suite / f"{workload.name}.json"


def modes_of(workload: Workload, system: str) -> list[Mode]:
    """Give the modes in which a system is asked: batch where there is one; headrace in all."""
    if system == "headrace" or Mode.BATCH not in workload.modes:
        return list(workload.modes)
    return [Mode.BATCH]


def _make(workload: Workload, systems: Sequence[Asked]) -> bool:
    """Ask everybody; write the file if they agree."""
    rows = _oracle(workload)
    answers = []
    for system in systems:
        for mode in modes_of(workload, system.system):
            answers.append(system.ask(workload.suite, workload.name, mode))
            _tell(answers[-1])
    try:
        found = reference(workload, rows, answers)
    except ValueError as trouble:
        say(f"  NOT WRITTEN: {trouble}")
        return False
    path = path_of(workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(found), encoding="utf-8")
    return True


def _oracle(workload: Workload) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="headrace-reference-") as folder:
        return expected(Request(
            workload=workload, settings=workload.settings(), mode=workload.modes[0],
            folder=Path(folder),
        ))


def _tell(said: Answer) -> None:
    took = "" if said.seconds is None else f" in {said.seconds:.1f} s"
    why = f": {said.told}" if said.told else ""
    say(f"  {said.system}, {said.mode.value}: {said.ending.value}{took}{why}")
