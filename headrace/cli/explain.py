"""`headrace explain`: shows the plan of every pipeline that a script would run.

Loads the script as Python would, but catches each pipeline where it would start, so that nothing
runs and no Spark session is made. Compiles what was caught and prints it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.plan.draw import dot, svg
from headrace.plan.explain import explain, explain_json
from headrace.plan.supersteps import Plan
from headrace.quiet import quietly

_FORMATS: dict[str, Callable[..., str]] = {
    "text": explain,
    "dot": lambda plan, regions, columns: dot(plan, regions=regions),  # noqa: ARG005
    "svg": lambda plan, regions, columns: svg(plan, regions=regions),  # noqa: ARG005
    "json": lambda plan, regions, columns: explain_json(plan),  # noqa: ARG005 (it is whole)
}

_EXAMPLE = """\
example:
  headrace explain examples/auction.py
  headrace explain examples/auction.py --format svg -o auction.svg -- --events 1000

The script is loaded as `python script.py` would load it; what follows -- is handed to it. Every
pipeline that it runs is caught before it starts and explained instead: which operators share a
stage, where elements change shards and why. --regions adds what could keep the order of one shard,
which Beam does not promise, and what is known of each operator. --columns adds what elements are
made of and which steps columns compute; for the others, why not and in which line.
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "explain",
        help="show the plan of a pipeline without running it",
        description="Show the plan of a pipeline without running it.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("script", type=Path, help="a Python file that runs one or more pipelines")
    sub.add_argument("--format", choices=sorted(_FORMATS), default="text", help="default: text")
    sub.add_argument(
        "--shards", type=_positive, default=4, help="plan for this many shards; default: 4"
    )
    sub.add_argument(
        "--regions", action="store_true",
        help="show too what may run on many shards and keep the order of one, and why",
    )
    sub.add_argument(
        "--columns", action="store_true",
        help="show too which steps columns compute, why others are not, and what elements are",
    )
    sub.add_argument(
        "--ordered", action="store_true",
        help="plan for an ordered run: rows leave as one shard would give them",
    )
    sub.add_argument("-o", "--output", type=Path, help="write to a file, not to the terminal")
    sub.set_defaults(run=run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"{number} is not a number of shards: use 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def run(arguments: argparse.Namespace) -> int:
    """Explain the pipelines of a script; status 1 if it runs none."""
    script: Path = arguments.script
    if not script.is_file():
        print(f"headrace: there is no file {script}", file=sys.stderr)
        return 2
    plans = plans_of(
        script, arguments.pipeline_args, shards=arguments.shards, ordered=arguments.ordered
    )
    if not plans:
        print(f"headrace: {script} runs no pipeline", file=sys.stderr)
        return 1
    show = _FORMATS[arguments.format]
    asked = {"regions": arguments.regions, "columns": arguments.columns}
    text = "\n".join(show(plan, **asked) for plan in plans)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def plans_of(
    script: Path, pipeline_args: list[str], *, shards: int, ordered: bool = False
) -> list[Plan]:
    """The plans of all pipelines that the script runs, in its order."""
    with quietly():  # it loads Beam, which takes seconds: not for --help
        from headrace.cli import catching

    return catching.plans_of(script, pipeline_args, shards=shards, ordered=ordered)
