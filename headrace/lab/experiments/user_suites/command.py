"""The command line: which packages; makes their environments, runs their tests on both runners.

Ends with 0 when all modules were gone through and every failure that is headrace's alone stands in
the table of exceptions.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.errors import OptionError
from headrace.lab.commands import ROOT, say, today
from headrace.lab.experiments.beam_suites.exceptions import read_table
from headrace.lab.experiments.beam_suites.judge import complaints
from headrace.lab.experiments.beam_suites.run import TEST_SECONDS, run
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
    made.add_argument("--seconds", type=int, default=TEST_SECONDS, metavar="N",
                      help=f"of a test, at most. Default: {TEST_SECONDS}")
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
                _judge(package, args.keep or Path(folder), args.jobs, args.seconds, say)
                for package in packages
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
        before = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
        PAGE.write_text(page(verdicts, when, before), encoding="utf-8")
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
    package: Package, folder: Path, jobs: int, seconds: int, told: Callable[[str], None]
) -> PackageVerdict:
    environment = made_environment(package, told)
    suite, modules = suite_of(package, environment), package.modules(environment.source)
    ran = {}
    for runner, options in runs_of(package).items():
        told(f"{package.requirement} on {runner}: {len(modules)} modules")
        part = replace(suite, options=(*suite.options, *options))
        into = folder / package.name / runner
        ran[runner] = run(part, modules, runner, into, jobs, told, seconds)
    known, _ = read_table(TABLE)
    ours = [found for runner, found in ran.items() if runner != YARDSTICK]
    return verdict(package, modules, ours, ran[YARDSTICK], known)


def runs_of(package: Package) -> dict[str, tuple[str, ...]]:
    """Give the runners of a package's tests, each with the options that say which tests it has."""
    without = tuple(f"--suites-without={pattern}" for pattern in package.without)
    if not package.on_spark:
        return {YARDSTICK: without, "headrace": without}
    others = tuple(f"--suites-without={pattern}" for pattern in package.on_spark)
    only = tuple(f"--suites-only={pattern}" for pattern in package.on_spark)
    return {YARDSTICK: without, "inline": (*without, *others), "headrace": (*without, *only)}


def _save(verdicts: Sequence[PackageVerdict]) -> None:
    """Write what was found; what the file has of packages that were not run now stays."""
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    of_package = {
        each["name"]: {"date": before["date"], "apache-beam": before["apache-beam"], **each}
        for each in before.get("packages", [])
    }
    of_package |= {each.package.name: _record(each) for each in verdicts}
    content = {
        "date": str(today()), "apache-beam": version("apache-beam"),
        "packages": list(of_package.values()),
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    say(f"saved as {RESULTS.relative_to(ROOT)}")


def _record(found: PackageVerdict) -> dict[str, Any]:
    return {
        "date": str(today()), "apache-beam": version("apache-beam"),
        "name": found.package.name, "version": found.package.version,
        "tests": [
            {
                **asdict(one.result), "outcome": one.result.outcome.value,
                "verdict": one.verdict.value, "reason": one.row.reason if one.row else "",
                "text": "" if one.row else one.result.text[-300:],
            }
            for one in found.judged
        ],
    }  # fmt: skip
