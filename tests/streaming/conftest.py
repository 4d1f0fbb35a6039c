"""Starts the shared session before a test's own time is counted: a test here has a minute."""

from __future__ import annotations

import pytest

from tests.spark_session import shared_session


@pytest.fixture(autouse=True)
def session_is_up(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("spark"):
        shared_session()
