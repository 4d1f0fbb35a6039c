"""The command line: which cases, how large, how often; prints a table, saves if asked to.

Ends with 0 when all is well, 1 when a bar was missed, 2 when an answer was wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from headrace.lab.commands import get_ready, number, say, takes_cores, takes_save, today
from headrace.lab.ending import exit_status
from headrace.lab.experiments.micro.cases import CASES, Case, find
from headrace.lab.experiments.micro.measure import Compared, measure, sizes

DEFAULT_ELEMENTS = 10_000_000
PROFILE_ELEMENTS = 500_000


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run micro", description="Measure headrace beside Beam's FnApiRunner."
    )
    made.add_argument("--case", action="append", default=[], metavar="NAME",
                      help="measure this case only; may be given again")
    made.add_argument("--list", action="store_true", help="list the cases and stop")
    made.add_argument("--elements", type=number, default=None, metavar="N",
                      help="elements of a full case, as 200K or 10M; slow cases take a fixed share "
                      "of it. Default: 10M (profile: 500K)")
    made.add_argument("--repeats", type=number, default=3, metavar="N",
                      help="measured runs on headrace. Default: 3")
    made.add_argument("--reference-repeats", type=number, default=None, metavar="N",
                      help="measured runs on FnApiRunner. Default: as headrace, but 2 at most")
    takes_cores(made)
    made.add_argument("--alone", action="store_true", help="leave FnApiRunner out")
    takes_save(made, "bench")
    made.add_argument("--profile", action="store_true",
                      help="run the cases in this process, without Spark, under cProfile")
    made.add_argument("--profile-out", type=Path, default=None, metavar="FILE",
                      help="with --profile: keep the profile of the last case for pstats")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    made = parser()
    args = made.parse_args(arguments)
    try:
        cases = find(args.case)
    except KeyError as unknown:
        made.error(unknown.args[0])
    if args.list:
        print(_listing(args.elements or DEFAULT_ELEMENTS))
        return 0
    get_ready()
    if args.profile:
        from headrace.lab.experiments.micro.profile import profile

        elements = args.elements or PROFILE_ELEMENTS
        right = [profile(case, elements, args.cores, args.profile_out) for case in cases]
        return 0 if all(right) else 2
    return _measure_all(args, cases)


def _measure_all(args: argparse.Namespace, cases: list[Case]) -> int:
    from headrace.lab.experiments.micro.report import record, show
    from headrace.lab.experiments.micro.runners import FnApi, Headrace
    from headrace.lab.results.dated import save

    elements = args.elements or DEFAULT_ELEMENTS
    reference_repeats = args.reference_repeats or min(args.repeats, 2)
    ours, reference = Headrace(args.cores), None if args.alone else FnApi()
    figures: list[Compared] = []
    try:
        for case in cases:
            figures.append(
                measure(
                    case, ours, reference, elements=elements, repeats=args.repeats,
                    reference_repeats=reference_repeats,
                    say=say,
                )
            )
    finally:
        _stop_spark()
        if figures:  # an interrupted run still shows what it has
            show(figures)
    if args.save:
        settings = {
            "elements": elements, "repeats": args.repeats,
            "reference_repeats": reference_repeats, "cores": args.cores,
        }
        print(f"saved as {save(record(figures, settings, today()), 'bench')}")
    return exit_status(figure.verdict for figure in figures)


def _listing(elements: int) -> str:
    lines = []
    for case in CASES:
        ours, reference = sizes(case, elements)
        beside = "headrace alone" if reference is None else f"FnApiRunner {reference:,}"
        bar = "" if case.bar is None else f"; ratio {case.bar} or more"
        lines.append(f"{case.name:14} {case.what}\n{'':14} headrace {ours:,}, {beside}{bar}")
    return "\n".join(lines)


def _stop_spark() -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
