"""What `headrace doctor` says of a Spark Connect server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.engine.examination import Verdict, examine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_connect_server_is_looked_at_by_way_of_its_session(remote: Any, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    found = {finding.what: finding for finding in examine(remote, str(place))}
    assert Verdict.WRONG not in {finding.verdict for finding in found.values()}, found
    assert "a server of Spark Connect, master local[" in found["session"].found
    assert any(name.startswith("worker ") for name in found)
    assert "workers read what this process writes" in found[f"checkpoint {place}"].found
    assert not place.exists()
