"""The one Spark session that all tests share."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from pyspark import SparkContext

from headrace.engine.spark.session import start_session


@functools.lru_cache(maxsize=1)
def shared_session() -> Any:
    """Start the session on first use; it lives as long as the test process."""
    return start_session("local[2]")


@pytest.fixture(scope="session")
def spark() -> Any:
    """The shared session."""
    return shared_session()


def forget_connection() -> None:
    """Let this thread speak to the JVM by a new connection.

    A time limit that strikes inside a call leaves its answer unread, and every later call would get
    the answer of the one before.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return
    client = gateway._gateway_client
    connection = client.get_thread_connection()
    if connection is not None:
        connection.close()
        client.thread_connection.connection = None
