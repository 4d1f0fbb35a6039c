"""One cluster for all tests here; one process runs them (tests/packing.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.standalone import Standalone, standalone


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone"), workers=2) as running:
        yield running
