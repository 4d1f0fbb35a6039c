"""One server for all tests here, and a session on it; one process runs them (tests/packing.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.engine.spark.jars import fetch, fetched
from headrace.errors import HeadraceError
from headrace.lab.experiments.connect.server import connect_server, remote_session


@pytest.fixture(scope="session")
def connector() -> str:
    """Spark's connector for Kafka, as a setting; empty if it cannot be fetched."""
    try:
        if not fetched("kafka"):
            fetch("kafka")
    except HeadraceError:
        return ""
    return ",".join(map(str, fetched("kafka")))


@pytest.fixture(scope="session")
def address(connector: str) -> Iterator[str]:
    with connect_server(**({"spark.jars": connector} if connector else {})) as found:
        yield found


@pytest.fixture(scope="session")
def remote(address: str) -> Iterator[Any]:
    session = remote_session(address)
    yield session
    session.stop()

