"""`headrace doctor`: looks whether this machine and a cluster have what pipelines need.

Arguments and printing only; each check says in a line what it found, and what to do. Fetches what
can be.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
import sys
from typing import Any

_MORE = """\
Looks at Python, Java, Spark, the extras and Spark's Kafka connector. Starts nothing, unless
--spark_master names where pipelines shall run.

--spark_master opens a session there as a pipeline would (local[N], spark://HOST:PORT, yarn,
k8s://..., sc://HOST:PORT), and says what its workers have: Python and packages, whether they are
kept from task to task, whether Spark's connector is there, whether a checkpoint can be a path. With
--checkpoint PATH every worker reads what this process writes there, and the other way round; a
store is asked whether it keeps two drivers apart. Each line says what to change if it is not right.

--fetch kafka brings the connector's jars into a folder of yours (XDG_CACHE_HOME/headrace/code, or
~/.cache/headrace/code), by Maven or from the repository that --repository or
HEADRACE_MAVEN_REPOSITORY names, and checks them against sums that headrace knows. Sessions that
headrace starts for a pipeline that reads Kafka then have them.
"""
#: Extra -> the module that is there if it is installed, and what for.
_EXTRAS = {
    "connect": ("grpc", "servers of Spark Connect, --spark_master=sc://HOST:PORT"),
    "sql": ("sqlglot", "SqlTransform"),
    "kafka": ("confluent_kafka", "WriteToKafka, and group_id of ReadFromKafka"),
    "stores": ("obstore", "checkpoints in object stores"),
    "otel": ("opentelemetry.exporter.otlp.proto.http", "metrics and spans, --otel"),
    "lineage": ("openlineage.client", "OpenLineage events, --lineage"),
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
    sub.add_argument(
        "--spark_master", metavar="URL", help="open a session there and look at its workers too"
    )
    sub.add_argument(
        "--spark_conf", action="append", default=[], metavar="NAME=VALUE",
        help="a setting of Spark for that session; can be given several times",
    )
    sub.add_argument(
        "--checkpoint", default="", metavar="PATH",
        help="ask that session's workers for the folder or URI of a checkpoint",
    )
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch what is asked for, then look at everything; 1 if a pipeline could not run."""
    # Here, as they load Spark, and the help of other commands must come at once.
    from headrace.engine.spark.jars import BUNDLES, fetch, fetched
    from headrace.engine.spark.java import java_version
    from headrace.errors import OptionError, SessionError

    if arguments.fetch:
        fetch(arguments.fetch, arguments.repository)
    if arguments.checkpoint and not arguments.spark_master:
        msg = "--checkpoint asks the workers of a session: name one by --spark_master"
        raise OptionError(msg)
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
        there = _is_there(module)
        remedy = "" if there else f"; pip install 'headrace[{extra}]' brings it"
        _say(there, f"extra {extra}", f"for {purpose}{remedy}", needed=False)
    for name in BUNDLES:
        files = fetched(name)
        where = str(files[0].parent) if files else f"headrace doctor --fetch {name} brings them"
        _say(bool(files), f"jars {name}", f"for ReadFromKafka: {where}", needed=False)
        for file in files:
            print(f"    {file}")
    if arguments.spark_master:
        sound = _session(arguments) and sound
    return 0 if sound else 1


def _session(arguments: argparse.Namespace) -> bool:
    """Open a session and say what is found there; whether a pipeline could run."""
    from headrace.engine.examination import Verdict, examine
    from headrace.engine.spark.jars import BUNDLES, with_fetched
    from headrace.engine.spark.session import running_session, start
    from headrace.engine.spark.settings import Wish, read_conf

    wish = Wish(master=arguments.spark_master, conf=read_conf(arguments.spark_conf))
    running = running_session()
    try:
        session = running or start(with_fetched(wish, BUNDLES), "off")
    except Exception as error:  # noqa: BLE001 (Spark has many for an address where nobody is)
        said = str(error).strip().partition("\n")[0]
        print(f"{'WRONG':<9}  session: none could be opened at {wish.master}: {said}")
        return False
    sound = True
    try:
        for finding in examine(session, arguments.checkpoint):
            print(f"{finding.verdict.value:<9}  {finding.what}: {finding.found}", flush=True)
            sound = sound and finding.verdict is not Verdict.WRONG
    finally:
        if running is None:
            session.stop()
    return sound


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what it is a part of is not there
        return False


def _say(there: bool, what: str, more: str, *, needed: bool = True) -> None:
    mark = "ok     " if there else "MISSING" if needed else "not there"
    print(f"{mark:<9}  {what}: {more}")
