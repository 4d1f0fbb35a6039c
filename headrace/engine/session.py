"""Finds or makes the Spark session, checks that it fits, and says what to change if not.

The only writer of Spark settings. A user's own session is never changed: we work in a child session
that shares its context and has SQL settings of its own.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from headrace.errors import SessionError

_LOG = logging.getLogger(__name__)

#: SQL settings of our child session; each would break or slow the plan otherwise.
CHILD_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # partition id must stay shard id
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",  # a row is 64 KiB and more
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

#: Static settings of a session that we start ourselves.
OWN_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "headrace.worker.daemon",
    "spark.shuffle.compress": "true",
    "spark.log.level": "ERROR",
}

MINIMUM_JAVA = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pipeline runs."""

    session: Any  # our child session
    parent: Any  # the user's, or the one we made
    owned: bool  # we made it, and it stays for the next pipeline of this process
    parallelism: int


def find_place(spark: Any | None, master: str | None) -> Place:
    """Use the given session, else the active one, else start one."""
    parent = spark or SparkSession.getActiveSession()
    owned = parent is None
    if parent is None:
        parent = start_session(master or "local[*]")
    elif master is not None and spark is None:
        running = parent.sparkContext.master
        if running != master:
            _LOG.warning(
                "a session on %s is active and is used; --spark_master=%s is ignored. "
                "Stop it first to change the master.", running, master,
            )
    for advice in check_session(parent):
        _LOG.warning("%s", advice)
    child = parent.newSession()
    for name, value in CHILD_SETTINGS.items():
        child.conf.set(name, value)
    return Place(
        session=child, parent=parent, owned=owned,
        parallelism=int(parent.sparkContext.defaultParallelism),
    )


def check_session(spark: Any) -> list[str]:
    """Give advice on a session that works but could work better; refuse one that cannot."""
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version < (4, 1):
        msg = (
            f"Spark {spark.version} lacks repartitionById; headrace needs Spark 4.1 or newer "
            "on the driver and the executors"
        )
        raise SessionError(msg)
    advice = []
    conf = spark.sparkContext.getConf()
    if conf.get("spark.python.worker.reuse", "true") == "false":
        advice.append(
            "spark.python.worker.reuse is false: every task starts a Python and imports Beam "
            "(about 2 s). Set it to true before the session starts."
        )
    return advice


def java_home() -> str:
    """Give a usable Java's version line, or refuse with the remedy."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = (
        "Install a JRE 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17) or point JAVA_HOME at one."
    )
    if not java or not os.path.exists(java):
        msg = f"Spark needs Java {MINIMUM_JAVA} or newer and none was found. {remedy}"
        raise SessionError(msg)
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    major = _java_major(text)
    if major < MINIMUM_JAVA:
        msg = f"Spark needs Java {MINIMUM_JAVA} or newer; {java} is Java {major}. {remedy}"
        raise SessionError(msg)
    return text.splitlines()[0] if text else ""


def _java_major(text: str) -> int:
    parts = text.split('"')
    number = parts[1] if len(parts) > 1 else "0"
    pieces = number.split(".")
    digits = "".join(c for c in (pieces[1] if pieces[0] == "1" else pieces[0]) if c.isdigit())
    return int(digits or 0)


def start_session(master: str) -> Any:
    """Start a session of our own, with the settings that suit us best."""
    java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("headrace")
    for name, value in OWN_SETTINGS.items():
        builder = builder.config(name, value)
    if not master.startswith("local"):
        builder = builder.config("spark.driver.host", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
    return builder.getOrCreate()
