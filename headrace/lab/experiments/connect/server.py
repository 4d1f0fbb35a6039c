"""A Spark Connect server in a process of its own, on loopback; ends when nobody listens any more.

Has none of headrace's settings: a server that somebody else has started. What its workers are to
load they find as those of such a server do, installed or sent; the folder it runs in is empty.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.engine.spark.class_archive import archive_options
from headrace.engine.spark.java import java_version
from headrace.lab.commands import python_path

_PATIENCE_SECONDS = 20.0

_MORE = "HEADRACE_CONNECT_SETTINGS"

SETTINGS = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def connect_server(**settings: str) -> Iterator[str]:
    """Start a server, with settings of Spark's beside its own; give its address."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-server-", ignore_cleanup_errors=True) as place,
        subprocess.Popen(
            [sys.executable, "-m", __name__], cwd=place, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,  # the server decides who works
                "PYTHONPATH": python_path(),
                "SPARK_SUBMIT_OPTS": _java_options(),
                _MORE: json.dumps(settings),
            },
        ) as server,
    ):
        assert server.stdout is not None and server.stdin is not None
        try:
            port = next(line for line in server.stdout if line.startswith("port "))
            yield f"sc://127.0.0.1:{int(port.split()[1])}"
        finally:
            server.stdin.close()
            try:
                server.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:  # a client may still be connected
                server.kill()


def _java_options() -> str:
    """What JVMs are told here anyway, and where Spark's classes lie ready: it starts sooner."""
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), archive_options(java_version(), {})]
    return " ".join(option for option in options if option)


def remote_session(address: str) -> Any:
    """Give a new session on a server, beside a classic one of this process if there is one."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(address).create()


def main() -> None:
    """Serve until the standard input ends."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("connect")
    for name, value in {**SETTINGS, **json.loads(os.environ.get(_MORE, "{}"))}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    services = spark._jvm.org.apache.spark.sql.connect.service  # noqa: SLF001 (no other door)
    service = getattr(getattr(services, "SparkConnectService$"), "MODULE$")  # an object of Scala's
    print("port", service.localPort(), flush=True)
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main()
