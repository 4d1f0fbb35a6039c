"""Damages a checkpoint, every file of it in every way, and sees what a restart makes of it.

One pipeline is run over the first part of its input; then, case by case, its checkpoint and output
are copied, one thing is damaged, and the pipeline is started again with the rest of the input. It
must either refuse by an error that names the file and a way out, or write exactly the right rows.

Ends with 0 when no case gave wrong rows, hung, or was refused in words that do not help.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace.lab.commands import get_ready, say, today
from headrace.lab.experiments.faults.damage_cases import Case, all_cases
from headrace.lab.experiments.faults.damage_judge import Damaged, Fate, judge
from headrace.lab.experiments.faults.damage_page import page, summary
from headrace.lab.experiments.faults.damage_pipeline import BASES, Material, prepare

#: So many cases of each part at most are tried once more with the damage undone.
RESTORES = 1
#: After these rounds nothing is left that would be new.
_ROUNDS = 50


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    made = argparse.ArgumentParser(
        prog="headrace lab run damage",
        description="Damage every file of a checkpoint and compare what a restart writes.",
    )
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of the damages. Default: 1")
    made.add_argument("--cases", type=int, default=400, metavar="N",
                      help="how many damages are tried. Default: 400")
    made.add_argument("--part", action="append", default=[], metavar="TEXT",
                      help="only parts, paths or kinds with this text in them; can be repeated")
    made.add_argument("--folder", type=Path, default=None, metavar="FOLDER",
                      help="where to work; kept, and a second run goes on. Default: a new one")
    made.add_argument("--save", type=Path, default=None, metavar="FILE",
                      help="write all outcomes as JSON")
    made.add_argument("--page", type=Path, default=None, metavar="FILE",
                      help="write the table as a page of the documentation")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    get_ready()
    from headrace.engine.spark.session import start_session

    folder = (args.folder or Path(tempfile.mkdtemp(prefix="headrace-damage-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    spark = start_session("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    _hush()
    material = prepare(spark, folder)
    bases = {name: material.base(name).folder for name in BASES}
    cases = [
        case for case in all_cases(bases, args.seed, _ROUNDS)
        if all(text in case.name or text in case.part for text in args.part)
    ]
    found = run_cases(spark, material, cases, args.cases, folder / "cases.jsonl")
    spark.stop()
    print(summary(found))
    if args.save:
        told = {
            "date": str(today()), "seed": args.seed,
            "cases": [verdict.to_json() for verdict in found],
        }
        args.save.write_text(json.dumps(told, indent=1) + "\n")
    if args.page:
        args.page.write_text(page(found, args.seed))
    if args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    bad = (Fate.WRONG, Fate.HUNG, Fate.FOREIGN)
    return 1 if any(verdict.outcome in bad for verdict in found) else 0


def run_cases(
    spark: Any, material: Material, cases: Iterable[Case], most: int, log: Path | None = None
) -> list[Damaged]:
    """Try cases until there are so many verdicts; those in the log are not tried again."""
    found: list[Damaged] = []
    known = {}
    if log is not None and log.exists():
        for line in log.read_text().splitlines():
            verdict = Damaged.from_json(json.loads(line))
            known[verdict.case.name] = verdict
    restores: dict[str, int] = {}
    began = time.monotonic()
    for case in cases:
        if len(found) >= most:
            break
        verdict_or_none = known.get(case.name)
        if verdict_or_none is None:
            restore = restores.get(case.part, 0) < RESTORES
            verdict_or_none = judge(
                spark, material, case, material.folder / "case" / str(len(found)), restore=restore
            )
            shutil.rmtree(material.folder / "case", ignore_errors=True)
            if verdict_or_none is not None and log is not None:
                with log.open("a") as lines:
                    lines.write(json.dumps(verdict_or_none.to_json()) + "\n")
        if verdict_or_none is None:
            continue
        found.append(verdict_or_none)
        restores[case.part] = restores.get(case.part, 0) + bool(verdict_or_none.restored)
        say(f"{len(found)}/{most} {time.monotonic() - began:.0f} s "
            f"{verdict_or_none.outcome.value}{' flagged' * verdict_or_none.flagged}: {case.name}: "
            f"{verdict_or_none.told[:120]!r}"
            + (f" restored: {verdict_or_none.restored[:80]}" if verdict_or_none.restored else ""))
    return found


def _hush() -> None:
    """Keep the tracebacks of refused starts out of the way: they are what is asked for."""
    import logging

    for name in ("py4j", "py4j.clientserver", "headrace"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
