"""What is claimed of other people's DoFns: Beam's examples, and packages if they are there.

HEADRACE_CORPUS names a folder of wheels and source archives, as `pip download --no-deps` leaves it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_run_disproves_what_is_claimed_of_other_peoples_functions(tmp_path: Path) -> None:
    folder = os.environ.get("HEADRACE_CORPUS")
    results = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.compiler.corpus.packages", f"--results={results}"]
    subprocess.run(
        [*command, *([folder] if folder else [])], cwd=ROOT, check=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    report = json.loads(results.read_text())
    assert len(report) == 1 or folder
    examples = next(row for name, row in report.items() if name.startswith("apache_beam.examples"))
    assert examples["functions"] > 100 and examples["calls"] > 300
    assert examples["state"]["none"] / examples["functions"] > 0.8
    for name, row in report.items():
        assert row["disproved"] == [], name
