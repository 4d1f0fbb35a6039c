"""`headrace prepare`: makes what lets Spark start sooner on this machine.

Arguments and printing only.
"""

from __future__ import annotations

import argparse
from typing import Any

from headrace.terminal.display import showing
from headrace.terminal.view import View, duration

_MORE = """\
Spark's JVM spends half of its start on loading classes. This runs Spark once and keeps the classes
as the JVM has loaded them, in a folder of yours alone: XDG_CACHE_HOME/headrace/code, or
~/.cache/headrace/code. It takes half a minute and 200 MB. Every session that headrace starts uses
it from then on; another Java or another Spark needs `headrace prepare` again, and until then starts
as it did before. To undo it, remove the folder.
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "prepare",
        help="let Spark start sooner on this machine",
        description="Let Spark start sooner on this machine.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("--again", action="store_true", help="make it anew, even if it is there")
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Make the archive, unless it is there."""
    # Here, as they load Spark, and the help of other commands must come at once.
    from headrace.engine.spark.class_archive import archive_path, make_archive
    from headrace.engine.spark.java import java_version

    java = java_version()
    path = archive_path(java)
    if path.is_file() and not arguments.again:
        print(f"Spark's classes are kept already, in {path}")
        return 0
    with showing(_look):
        made = make_archive(java)
    size = made.stat().st_size / 1e6
    print(f"Spark's classes are kept in {made} ({size:.0f} MB); headrace starts Spark sooner now")
    return 0


def _look(seconds: float) -> View:
    return View(title="headrace", parts=("running Spark once", duration(seconds)))
