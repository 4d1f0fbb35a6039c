"""The one Spark session that all tests share."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from headrace.engine.session import start_session


@functools.lru_cache(maxsize=1)
def shared_session() -> Any:
    """Start the session on first use; it lives as long as the test process."""
    return start_session("local[2]")


@pytest.fixture(scope="session")
def spark() -> Any:
    """The shared session."""
    return shared_session()
