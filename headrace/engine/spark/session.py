"""Finds or makes the Spark session, checks that it fits, and says what to change if not.

The only writer of Spark settings. A user's own session is never changed: we work in a child session
that shares its context and has SQL settings of its own.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.leftovers import own_folder
from headrace.engine.spark.archives import own_package
from headrace.engine.spark.class_archive import archive_options
from headrace.engine.spark.classic_door import ClassicDoor
from headrace.engine.spark.doors import Door, is_connect
from headrace.engine.spark.gateway import OPTIONS, asked_of_java, log_options, start_jvm
from headrace.engine.spark.java import java_version
from headrace.engine.spark.probe import is_local
from headrace.engine.spark.settings import APP_NAME, MASTER, Wish, given_before, is_met
from headrace.errors import SessionError
from headrace.state.private import lets_in
from headrace.terminal.display import is_terminal, showing
from headrace.terminal.view import View, duration

_LOG = logging.getLogger(__name__)

#: SQL settings of our child session; each would break or slow the plan otherwise. What Spark tells
#: its Python workers by their environment must stay the parent's: rows that leave a pipeline are
#: read in the parent, and workers of another environment are a second set of processes.
CHILD_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # partition id must stay shard id
    # For the rows of DataFrames: a batch of columns is worth its calls if it has many.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",  # a row of ours is 64 KiB and more
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

#: Spark's manager for its own two logs of a query, where they are on a local disk. The default one
#: starts a process for every file to set its permissions, which takes 60 ms of an epoch.
LOCAL_LOGS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    )
}

#: Static settings of a session that we start ourselves.
OWN_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.python.daemon.module": "headrace.worker.daemon",
    "spark.shuffle.compress": "true",
}

#: Whether and where Python and the JVM speak by sockets that are files.
SOCKETS_ENABLED = "spark.python.unix.domain.socket.enabled"
SOCKETS_FOLDER = "spark.python.unix.domain.socket.dir"
#: The longest name of such a folder that Spark takes.
SOCKETS_FOLDER_BYTES = 61

#: Where a driver of ours listens unless SPARK_LOCAL_IP says otherwise.
LOOPBACK = "127.0.0.1"
#: How the address of a server of Spark Connect begins.
REMOTE = "sc://"
#: A start of Spark takes some seconds; after this one it is told.
STARTING_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTarget:
    """Where a pipeline runs."""

    session: Any  # our child session
    parent: Any  # the user's, or the one we made
    door: Door  # to the parent


def find_target(spark: Any | None, wish: Wish | None = None, progress: str = "off") -> SparkTarget:
    """Use the given session, else the active one, else start one as `wish` says.

    Args:
        spark: a session of the user's.
        wish: what one that has to be started is like.
        progress: in which style it is shown that Spark starts.
    """
    wish = wish or Wish()
    parent = spark or running_session()
    if parent is None:
        parent = start(wish, progress)
    elif ignored := not_as_asked(parent, wish):
        _LOG.warning(
            "a session is running and is used as it is; ignored: %s. Stop it first, or start it "
            "with these settings.", ", ".join(ignored),
        )
    check_version(parent)
    door = door_of(parent)
    for advice in door.check():
        _LOG.warning("%s", advice)
    child = door.child()
    for name, value in CHILD_SETTINGS.items():
        child.conf.set(name, value)
    return SparkTarget(session=child, parent=parent, door=door)


def door_of(session: Any) -> Door:
    """Give the door to a session."""
    if not is_connect(session):
        return ClassicDoor(session)
    from headrace.engine.spark.connect_door import ConnectDoor

    return ConnectDoor(session)


def own_query(target: SparkTarget, frame: Any, local_logs: bool) -> Any:
    """Give a streaming DataFrame as one of our session: its query takes the session's settings.

    Args:
        target: where the pipeline runs.
        frame: a DataFrame of the user's session.
        local_logs: Spark's logs of the query are on a local disk.
    """
    for name, value in LOCAL_LOGS.items() if local_logs else ():
        target.session.conf.set(name, value)
    jvm = target.session._jvm  # noqa: SLF001 (Spark's Python has no door to the other session)
    plan = frame._jdf.logicalPlan()  # noqa: SLF001
    java = target.session._jsparkSession  # noqa: SLF001
    _carry_sources(target.parent._jsparkSession, java, plan)  # noqa: SLF001
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), target.session)


def _carry_sources(parent: Any, child: Any, plan: Any) -> None:
    """Make data sources that the user has registered known in our session too.

    Spark looks a Python data source up by its name again when the query starts. Nobody else's is
    looked up here: Spark starts a Python process to answer the first question for a name.
    """
    theirs, ours = (java.sessionState().dataSourceManager() for java in (parent, child))
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        if leaf.getClass().getSimpleName() != "StreamingRelationV2" or not _is_python(leaf):
            continue
        name = leaf.sourceName()
        if theirs.dataSourceExists(name) and not ours.dataSourceExists(name):
            ours.registerDataSource(name, theirs.lookupDataSource(name))


def _is_python(leaf: Any) -> bool:
    """Whether a stream is read from a data source that is written in Python."""
    source = leaf.source()  # an option
    return bool(
        source.isEmpty() or source.get().getClass().getSimpleName().startswith("Python")
    )


def running_session() -> Any | None:
    """Give the session of this process, if there is one: the thread's own, else the first made.

    Asking Spark's builder instead would write our settings into a session that is not ours.
    """
    found = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001
    if found is not None and is_connect(found):
        return found
    if found is None or found.sparkContext._jsc is None:  # noqa: SLF001 (stopped)
        return None
    return found


def check_version(spark: Any) -> None:
    """Refuse a Spark that is too old."""
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version < (4, 1):
        msg = (
            f"Spark {spark.version} lacks repartitionById; headrace needs Spark 4.1 or newer "
            "on the driver and the executors"
        )
        raise SessionError(msg)


def not_as_asked(session: Any, wish: Wish) -> list[str]:
    """Give what the wish asks for and a running session does not have, as `name=value`."""
    # getConf() copies all settings, by two calls of the JVM for each.
    conf = session.conf if is_connect(session) else session.sparkContext._conf  # noqa: SLF001
    return [
        f"{name}={value}" for name, value in wish.settings().items()
        if not is_met(name, value, conf.get(name, None))
        and not (is_connect(session) and value.startswith(REMOTE))
    ]


def start_session(master: str | None = None, progress: str = "auto") -> Any:
    """Start a session of our own on a master, with the settings that suit us best.

    Args:
        master: where Spark runs, as in local[2]; all cores here if not given.
        progress: auto shows in a terminal that Spark starts, off does not.
    """
    return start(Wish(master=master), progress)


def session(
    master: str | None = None,
    *,
    app_name: str | None = None,
    conf: Mapping[str, str] | None = None,
    jars: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> Any:
    """Give the session that pipelines without one of their own run on.

    It is the one that is running in this process; if there is none, one is started, with the
    settings that suit headrace best.

    Args:
        master: where Spark runs, as in `local[2]`. If not given, what `spark-defaults.conf` or
            spark-submit says, else `local[*]`.
        app_name: what the application is called; `headrace` if not given.
        conf: settings of Spark; they come before those of `spark-defaults.conf` and before ours.
        jars: files that drivers and executors have on their class path.
        packages: Maven coordinates, as in `org.apache.spark:spark-avro_2.13:4.1.0`.
    """
    wish = Wish(
        master=master, app_name=app_name, conf=dict(conf or {}), jars=tuple(jars),
        packages=tuple(packages),
    )
    running = running_session()
    if running is None:
        return start(wish)
    if missing := not_as_asked(running, wish):
        msg = (
            f"a session is running that is not as asked for: {', '.join(missing)}. Stop it first, "
            "or ask for nothing to get it as it is"
        )
        raise SessionError(msg)
    return running


def start(wish: Wish, progress: str = "auto") -> Any:
    """Start a session of our own.

    What the wish says comes first, then what was submitted, then `spark-defaults.conf`, then ours.
    """
    style = "rich" if progress in ("auto", "rich") and is_terminal() else "off"
    given = {**submitted(), **wish.settings()}
    master = given.get(MASTER, "local[*]")
    with showing(partial(_starting, master), style, quiet=STARTING_SECONDS):
        return _start(master, wish, given)


def _starting(master: str, seconds: float) -> View:
    return View(title="headrace", parts=("starting Spark", duration(seconds), f"on {master}"))


def _start(master: str, wish: Wish, given: Mapping[str, str]) -> Any:
    if master.startswith(REMOTE):
        return _remote(master)
    java = java_version()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        # Its master and workers live in our JVM and take their address from here alone.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    builder = SparkSession.builder.master(master).appName(given.get(APP_NAME, "headrace"))
    settings = {**wish.settings(), **settings_for(master, given)}
    running = "PYSPARK_GATEWAY_PORT" in os.environ  # the JVM, with the log it was started with
    if running and "spark.log.level" not in given:
        settings["spark.log.level"] = "ERROR"
    elif not running:
        options = [
            given.get(OPTIONS) or settings.get(OPTIONS, ""),
            log_options(given),
            archive_options(java, asked_of_java(given)),
        ]
        settings[OPTIONS] = " ".join(filter(None, options))
    for name, value in settings.items():
        builder = builder.config(name, value)
    if not running:
        conf = SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))
        start_jvm(conf)
    return builder.getOrCreate()


def _remote(address: str) -> Any:
    """Give a session on a server of Spark Connect; its settings are the server's."""
    try:
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        return RemoteSession.builder.remote(address).getOrCreate()
    except ImportError as missing:
        msg = (
            f"{address} is a server of Spark Connect, and PySpark's client of it cannot be loaded "
            f"({missing}); pip install 'headrace[connect]' brings what it needs"
        )
        raise SessionError(msg) from missing


def submitted() -> dict[str, str]:
    """Give the settings that a session of this process starts with, whoever starts it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return given_before(os.environ, _find_spark_home())
    SparkContext._ensure_initialized()  # noqa: SLF001 (reads no settings before the JVM is known)
    return dict(SparkConf().getAll())


def socket_settings(local: bool, given: Mapping[str, str]) -> dict[str, str]:
    """Let Python and the JVM speak by sockets that are files, if nobody else can connect to them.

    They ask for no password, and what comes is unpickled. TCP, the other way, asks for one.
    """
    if SOCKETS_ENABLED in given or SOCKETS_FOLDER in given:
        return {}
    allowed = {SOCKETS_ENABLED: "true"}
    if not local:
        # One folder's name would have to do for all machines. Without one, sockets are as open as
        # the umask lets them be; the daemon on each machine sees to its own.
        return allowed if umask() & 0o022 == 0o022 else {SOCKETS_ENABLED: "false"}
    folder = str(_sockets())
    if len(folder) <= SOCKETS_FOLDER_BYTES:
        return allowed | {SOCKETS_FOLDER: folder}
    return {SOCKETS_ENABLED: "true" if not lets_in(Path(tempfile.gettempdir())) else "false"}


def umask() -> int:
    """Give the permissions that new files of this process do not get."""
    held = os.umask(0o077)
    os.umask(held)
    return held


@functools.cache
def _sockets() -> Path:
    return own_folder("sockets")


def settings_for(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """Give the settings of a session of ours, without those that are given already."""
    address = os.environ.get("SPARK_LOCAL_IP", LOOPBACK)
    settings = {
        **OWN_SETTINGS, "spark.driver.bindAddress": address, "spark.driver.host": address,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if name not in given}
    settings |= socket_settings(is_local(master), given)
    if is_local(master):
        return settings
    # The daemon module is imported before Spark puts a job's own files on the path, so headrace
    # goes by the executors' environment: as a file in their working folder, named relative to it.
    archive = own_package()
    for name, value, mark in (
        ("spark.files", str(archive), ","),
        ("spark.executorEnv.PYTHONPATH", archive.name, os.pathsep),
    ):
        settings[name] = mark.join(part for part in (value, given.get(name)) if part)
    # A shard's store is on the executor that had it last; Spark sends tasks where most rows are.
    if "spark.shuffle.reduceLocality.enabled" not in given:
        settings["spark.shuffle.reduceLocality.enabled"] = "false"
    host = re.match(r"spark://([^:/,]+)", master)
    chosen = settings.get("spark.driver.host", "")
    if host and chosen == LOOPBACK and host.group(1) not in (LOOPBACK, "localhost"):
        _LOG.warning(
            "the driver listens on %s only, which executors on other machines cannot reach. Set "
            "SPARK_LOCAL_IP to this machine's address in the network of %s.", LOOPBACK, master,
        )
    return settings
