"""The `headrace` command: finds the sub-command and hands the arguments to it.

Knows the names of the sub-commands and nothing of what they do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headrace.cli import explain, generate, run, state
from headrace.cli import list as list_workloads
from headrace.errors import HeadraceError


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="headrace", description="Run and understand Apache Beam pipelines on Spark."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    explain.add_to(commands)
    state.add_to(commands)
    run.add_to(commands)
    list_workloads.add_to(commands)
    generate.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` belongs to the pipeline; argparse would mix it with our own options.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    known = parser().parse_args(arguments[:cut])
    known.pipeline_args = arguments[cut + 1 :]
    try:
        return int(known.run(known))
    except HeadraceError as e:
        print(f"headrace: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
