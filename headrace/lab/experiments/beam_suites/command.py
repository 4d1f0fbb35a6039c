"""The command line: which modules, on which runner; says what must be mended, saves if asked to.

Ends with 0 when all modules were gone through, every failure stands in the table of exceptions, and
no row of it is stale.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from headrace.lab.commands import ROOT, say, today
from headrace.lab.experiments.beam_suites.discover import modules
from headrace.lab.experiments.beam_suites.exceptions import read_table
from headrace.lab.experiments.beam_suites.judge import Judged, complaints, judge
from headrace.lab.experiments.beam_suites.page import page, totals
from headrace.lab.experiments.beam_suites.results import read_folder
from headrace.lab.experiments.beam_suites.run import run
from headrace.lab.experiments.beam_suites.suite import beams_own

PAGE = ROOT / "docs" / "beam-suites.md"
RESULTS = ROOT / "results" / "beam-suites.json"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run beam-suites",
        description="Run Beam's own pipeline tests on headrace.",
    )
    made.add_argument("what", nargs="*", metavar="MODULE",
                      help="modules by the beginning of their names, as io.text; default: all")
    made.add_argument("--runner", default="headrace",
                      choices=["headrace", "inline", "local", "processes"],
                      help="inline: headrace without Spark; local: Beam's own; processes: Beam's "
                      "own with its functions in another process. Default: headrace")
    made.add_argument("--jobs", type=int, default=2, metavar="N",
                      help="processes, each with a Spark session. Default: 2")
    made.add_argument("--keep", type=Path, default=None, metavar="FOLDER",
                      help="write results there as they come, and do not run again the modules "
                      "that are there: so a run that was interrupted goes on")
    made.add_argument("--no-run", action="store_true",
                      help="with --keep: judge what is there, run nothing")
    made.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    made.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    known, left_out = read_table()
    found = list(modules(args.what))
    chosen = [m for m in found if not any(row.holds_for(m) for row in left_out)]
    if not chosen:
        say(f"no module of Beam that builds pipelines begins with {' or '.join(args.what)}")
        return 2
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-suites-") as folder:
        kept = args.keep or Path(folder)
        results = read_folder(kept) if args.no_run else run(
            beams_own(), chosen, args.runner, kept, args.jobs, say
        )
    wanted = set(chosen)
    judged = judge((result for result in results if result.module in wanted), known)
    missing = sorted(wanted - {result.module for result in results if not result.test})
    wrong = complaints(judged)
    print(totals(judged))
    print(f"{(time.monotonic() - began) / 60:.0f} minutes")
    if missing:
        print(f"not gone through: {len(missing)} modules, {', '.join(missing)}")
    for line in wrong:
        print(f"* {line}")
    if args.save:
        _save(judged)
    if args.page:
        counted = [(row, sum(row.holds_for(module) for module in found)) for row in left_out]
        when = f"Made on {today()} with apache-beam {version('apache-beam')}."
        PAGE.write_text(page(judged, counted, when, missing), encoding="utf-8")
    return 1 if wrong or missing else 0


def _save(judged: Sequence[Judged]) -> None:
    content = {
        "date": str(today()),
        "apache-beam": version("apache-beam"),
        "tests": [
            {
                **asdict(each.result), "outcome": each.result.outcome.value,
                "verdict": each.verdict.value,
                "reason": each.row.reason if each.row else "",
                "text": "" if each.row else each.result.text[-300:],
            }
            for each in judged
        ],
    }  # fmt: skip
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    say(f"saved as {RESULTS.relative_to(ROOT)}")
