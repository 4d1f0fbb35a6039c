"""What the commands of experiments share: numbers, quiet logs, places, the choice of workloads."""

from __future__ import annotations

import argparse
import datetime
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: The folder that holds this package: processes that a command starts find it there.
PACKAGES = Path(__file__).resolve().parents[2]
#: Where results/ and docs/ lie: the project, if this is its tree, else where the command was given.
ROOT = PACKAGES if (PACKAGES / "pyproject.toml").is_file() else Path.cwd()
#: Wide enough for a table where the terminal's width is not known.
PLAIN_WIDTH = 170
_UNITS = {"K": 1_000, "M": 1_000_000}


def number(text: str) -> int:
    """Read 200K, 10M or a plain number.

    >>> number("200K"), number("1.5m"), number("7")
    (200000, 1500000, 7)
    """
    unit = _UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    try:
        value = round(float(digits) * unit)
    except (ValueError, OverflowError):
        value = 0
    if value < 1:
        msg = f"{text!r} is not a number of elements; write 5000, 200K or 10M"
        raise argparse.ArgumentTypeError(msg)
    return value


def count(number: float) -> str:
    """Write a number of elements as people say it: 850, 20.0 K, 1.36 M.

    >>> [count(n) for n in (850, 20_000, 1_361_000)]
    ['850', '20.0 K', '1.36 M']
    """
    if number >= 1e6:
        return f"{number / 1e6:.2f} M"
    return f"{number / 1e3:.1f} K" if number >= 1e3 else f"{number:.0f}"


def get_ready() -> None:
    """Quieten the log, and let workers find this package wherever the command was given."""
    logging.getLogger().setLevel(logging.ERROR)  # Beam warns about packages nobody needs here
    os.environ["PYTHONPATH"] = python_path()


def python_path() -> str:
    """Give the PYTHONPATH with which another process finds this package."""
    return os.pathsep.join([str(PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])


def today() -> datetime.date:
    """Give the date that results carry."""
    return datetime.datetime.now(datetime.timezone.utc).date()


def say(text: str) -> None:
    """Tell how far the command is, at once."""
    print(text, file=sys.stderr, flush=True)


def takes_workloads(parser: argparse.ArgumentParser) -> None:
    """Let a command be told which workloads."""
    parser.add_argument("what", nargs="*", metavar="SUITE[:NAME]",
                        help="as nexmark, or nexmark:q5; all workloads if none is given")


def takes_cores(parser: argparse.ArgumentParser) -> None:
    """Let a command be told how many cores Spark has."""
    parser.add_argument("--cores", type=number, default=2, metavar="N",
                        help="Spark's cores, and shards. Default: 2")


def takes_save(parser: argparse.ArgumentParser, name: str) -> None:
    """Let a command keep what it measured, in a file with the day and this name."""
    parser.add_argument("--save", action="store_true",
                        help=f"write results/DATE-{name}.json with all samples")


def chosen(parser: argparse.ArgumentParser, what: Sequence[str]) -> list[Any]:
    """Find the workloads that are asked for; ends the command where there is no such one."""
    from headrace.errors import OptionError
    from headrace.lab.catalog import CATALOG

    found: list[Any] = []
    try:
        for name in what or CATALOG.suites:
            suite, _, one = name.partition(":")
            found += [CATALOG.workload(suite, one)] if one else CATALOG.of_suite(suite)
    except OptionError as error:
        parser.error(str(error))
    return found
