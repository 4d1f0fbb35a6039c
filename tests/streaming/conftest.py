"""Runs the tests here in one process, on Spark, or in both: see tests/places.py.

Starts the shared session before a test's own time is counted: a test here has a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.places import Place, at, places_of, session_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test its places."""
    metafunc.parametrize("where", places_of(metafunc.definition), indirect=True)


@pytest.fixture(autouse=True)
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    found: Place = request.param
    with at(found):
        session_of()
        yield found
