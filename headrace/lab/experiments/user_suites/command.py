"""The command line: which packages; makes their environments, runs their tests on both runners.

Ends with 0 when all modules were gone through and every failure that is headrace's alone stands in
the table of exceptions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from headrace.errors import OptionError
from headrace.lab.commands import ROOT, say, today
from headrace.lab.experiments.beam_suites.exceptions import read_table
from headrace.lab.experiments.beam_suites.judge import complaints
from headrace.lab.experiments.beam_suites.run import run
from headrace.lab.experiments.beam_suites.suite import Suite
from headrace.lab.experiments.user_suites.package_environments import (
    PackageEnvironment,
    made_environment,
)
from headrace.lab.experiments.user_suites.packages import PACKAGES, Package, package_of
from headrace.lab.experiments.user_suites.page import page, table
from headrace.lab.experiments.user_suites.verdicts import PackageVerdict, verdict

PAGE = ROOT / "docs" / "user-suites.md"
RESULTS = ROOT / "results" / "user-suites.json"
TABLE = Path(__file__).with_name("exceptions.toml")
#: Beam's own runner, by the name that the suites have for it.
YARDSTICK = "local"


def parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    names = ", ".join(each.name for each in PACKAGES)
    made = argparse.ArgumentParser(
        prog="headrace lab run user-suites",
        description="Run the tests of packages that build on Beam on headrace, and on Beam's own "
        "runner as the yardstick. Installs them from the package index, each in an environment "
        "of its own.",
    )
    made.add_argument("what", nargs="*", metavar="PACKAGE", help=f"{names}; default: all")
    made.add_argument("--keep", type=Path, default=None, metavar="FOLDER",
                      help="write results there as they come, and do not run again the modules "
                      "that are there: so a run that was interrupted goes on")
    made.add_argument("--jobs", type=int, default=1, metavar="N",
                      help="processes, each with a Spark session. Default: 1")
    made.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    made.add_argument("--page", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks."""
    args = parser().parse_args(arguments)
    chosen = [package_of(name) for name in args.what] if args.what else list(PACKAGES)
    packages = [each for each in chosen if each is not None]
    if len(packages) < len(chosen):
        unknown = [name for name in args.what if package_of(name) is None]
        known = ", ".join(each.name for each in PACKAGES)
        say(f"no such package: {', '.join(unknown)}; there are {known}")
        return 2
    with tempfile.TemporaryDirectory(prefix="headrace-users-") as folder:
        try:
            verdicts = [
                _judge(package, args.keep or Path(folder), args.jobs, say) for package in packages
            ]
        except OptionError as error:
            say(str(error))
            return 2
    print(table(verdicts), end="")
    wrong = [
        f"{each.package.name}: {line}" for each in verdicts for line in complaints(each.judged)
    ]
    missing = [module for each in verdicts for module in each.missing]
    if missing:
        print(f"not gone through: {', '.join(missing)}")
    for line in wrong:
        print(f"* {line}")
    if args.save:
        _save(verdicts)
    if args.page:
        when = f"Made on {today()} with apache-beam {version('apache-beam')}."
        PAGE.write_text(page(verdicts, when), encoding="utf-8")
    return 1 if wrong or missing else 0


def suite_of(package: Package, environment: PackageEnvironment) -> Suite:
    """The tests of a package, in its environment."""
    plugins = [word for plugin in package.plugins for word in ("-p", plugin)]
    return Suite(
        python=str(environment.python),
        root=str(environment.source),
        folder=str(environment.source),
        table=str(TABLE),
        options=(f"--rootdir={environment.source}", *plugins),
        path=(str(environment.source),),
    )


def _judge(
    package: Package, folder: Path, jobs: int, told: Callable[[str], None]
) -> PackageVerdict:
    environment = made_environment(package, told)
    suite, modules = suite_of(package, environment), package.modules(environment.source)
    ran = {}
    for runner in (YARDSTICK, "headrace"):
        told(f"{package.requirement} on {runner}: {len(modules)} modules")
        ran[runner] = run(suite, modules, runner, folder / package.name / runner, jobs, told)
    known, _ = read_table(TABLE)
    return verdict(package, modules, ran["headrace"], ran[YARDSTICK], known)


def _save(verdicts: Sequence[PackageVerdict]) -> None:
    content = {
        "date": str(today()),
        "apache-beam": version("apache-beam"),
        "packages": [
            {
                "name": each.package.name, "version": each.package.version,
                "tests": [
                    {
                        **asdict(one.result), "outcome": one.result.outcome.value,
                        "verdict": one.verdict.value,
                        "reason": one.row.reason if one.row else "",
                        "text": "" if one.row else one.result.text[-300:],
                    }
                    for one in each.judged
                ],
            }
            for each in verdicts
        ],
    }  # fmt: skip
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    say(f"saved as {RESULTS.relative_to(ROOT)}")
