"""`headrace doctor`: looks whether this machine has what pipelines need, and fetches what can be.

Arguments and printing only; each check says in a line what it found, and what to do.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import sys
from typing import Any

_MORE = """\
Looks at Python, Java, Spark, the extras and Spark's Kafka connector. Starts nothing.

--fetch kafka brings the connector's jars into a folder of yours (XDG_CACHE_HOME/headrace/code, or
~/.cache/headrace/code), by Maven or from the repository that --repository or
HEADRACE_MAVEN_REPOSITORY names, and checks them against sums that headrace knows. Sessions that
headrace starts for a pipeline that reads Kafka then have them.
"""
#: Extra -> the module that is there if it is installed, and what for.
_EXTRAS = {
    "sql": ("sqlglot", "SqlTransform"),
    "kafka": ("confluent_kafka", "WriteToKafka, and group_id of ReadFromKafka"),
    "stores": ("obstore", "checkpoints in object stores"),
    "lab": ("duckdb", "the verdict on workloads, headrace lab"),
}


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "doctor",
        help="look whether this machine has what pipelines need",
        description="Look whether this machine has what pipelines need.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("--fetch", metavar="WHAT", help="fetch jars first: kafka")
    sub.add_argument(
        "--repository", default="", metavar="URL",
        help="the Maven repository to fetch from; by Maven (mvn) if not given",
    )
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch what is asked for, then look at everything; 1 if a pipeline could not run."""
    # Here, as they load Spark, and the help of other commands must come at once.
    from headrace.engine.jars import BUNDLES, fetch, fetched
    from headrace.engine.java import java_version
    from headrace.errors import SessionError

    if arguments.fetch:
        fetch(arguments.fetch, arguments.repository)
    sound = True
    python = platform.python_version()
    fits = (3, 11) <= sys.version_info[:2] < (3, 14)
    _say(fits, "Python", python if fits else f"{python}; headrace needs 3.11, 3.12 or 3.13")
    sound = sound and fits
    try:
        _say(True, "Java", java_version())
    except SessionError as error:
        _say(False, "Java", str(error))
        sound = False
    for package in ("pyspark", "apache-beam"):
        _say(True, package, importlib.metadata.version(package))
    for extra, (module, purpose) in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        remedy = "" if there else f"; pip install 'headrace[{extra}]' brings it"
        _say(there, f"extra {extra}", f"for {purpose}{remedy}", needed=False)
    for name in BUNDLES:
        files = fetched(name)
        where = str(files[0].parent) if files else f"headrace doctor --fetch {name} brings them"
        _say(bool(files), f"jars {name}", f"for ReadFromKafka: {where}", needed=False)
        for file in files:
            print(f"    {file}")
    return 0 if sound else 1


def _say(there: bool, what: str, more: str, *, needed: bool = True) -> None:
    mark = "ok     " if there else "MISSING" if needed else "not there"
    print(f"{mark:<9}  {what}: {more}")
