"""The `headrace` command: finds the sub-command and hands the arguments to it.

Knows the names of the sub-commands and nothing of what they do. Loads neither Beam nor Spark: help
must come at once, and without their words.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headrace.cli import doctor, explain, generate, lab, prepare, run, state, ui
from headrace.cli import list as list_workloads
from headrace.engine.leftovers import remove_own_folders
from headrace.engine.signals import EndRequestedError, end_on_request, name_of, said_of
from headrace.errors import HeadraceError

#: The status of a command that Ctrl-C has ended, as shells have it.
INTERRUPTED = 130

_EPILOG = """\
headrace run my_pipeline.py         run a pipeline of yours on Spark
headrace run nexmark q5             run a workload and check its answer
headrace lab run my.toml            measure systems from outside
headrace COMMAND --help             say more
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="headrace", description="Run and understand Apache Beam pipelines on Spark.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # The package's own name, loaded before any part of it; to import it would let Spark in.
    version = vars(sys.modules["headrace"])["__version__"]
    top.add_argument("--version", action="version", version=f"headrace {version}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    run.add_to(commands)
    explain.add_to(commands)
    state.add_to(commands)
    ui.add_to(commands)
    list_workloads.add_to(commands)
    generate.add_to(commands)
    prepare.add_to(commands)
    doctor.add_to(commands)
    lab.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # What follows `--` belongs to the pipeline; argparse would mix it with our own options.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    top = parser()
    known = top.parse_args(arguments[:cut])
    known.pipeline_args = arguments[cut + 1 :]
    if known.command is None:
        top.print_help()
        return 0
    try:
        with end_on_request():
            return int(known.run(known))
    except HeadraceError as e:
        print(f"headrace: {e}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EndRequestedError) as request:
        kept = said_of(request) or "nothing is kept"
        print(f"headrace: {name_of(request)}: {kept}", file=sys.stderr)
        if isinstance(request, EndRequestedError):
            remove_own_folders()
            request.obey()
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
