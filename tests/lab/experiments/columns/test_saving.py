"""What `headrace lab run columns` saves of a measurement."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.lab.experiments.columns.command import Compared, save


def test_two_measurements_stand_in_one_file_under_their_names(tmp_path: Path) -> None:
    seconds = {"on": [3.0, 2.5], "off": [9.0, 8.5]}
    fixed = {"on": 0.5, "off": 0.5}
    made = Compared(
        name="q1", rows=2_000_000, seconds=seconds, fixed=fixed, answers=7, same=True
    )
    path = tmp_path / "columns.json"
    save(path, "before", [made])
    save(path, "after", [made])
    held = json.loads(path.read_text())
    assert held["before"] == held["after"]
    assert held["after"]["q1"]["cpu_s_per_million"] == {"on": 1.0, "off": 4.0}
    assert "4.0 times; the same 7 rows: True" in str(made)
