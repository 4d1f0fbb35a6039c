"""One server for all tests here, and a session on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.connect.server import connect_server, remote_session


@pytest.fixture(scope="package")
def address() -> Iterator[str]:
    with connect_server() as found:
        yield found


@pytest.fixture(scope="package")
def remote(address: str) -> Iterator[Any]:
    session = remote_session(address)
    yield session
    session.stop()
