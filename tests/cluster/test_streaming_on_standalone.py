"""A streaming pipeline on a real cluster of two workers: the right answer, and shards that stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import JAVA_OPTIONS, Standalone
from tests.cluster.stream_driver import EPOCHS, KEYS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]


def drive(folder: Path, master: str, *more: str) -> dict[str, Any]:
    folder.mkdir()
    out = folder / "out.json"
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "tests" / "cluster" / "stream_driver.py"),
            "--master", master, "--folder", str(folder), "--out", str(out), *more,
        ],
        cwd=folder, env={**os.environ, **JAVA_OPTIONS, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return dict(json.loads(out.read_text()))


def test_shards_stay_on_their_executors_and_the_answer_is_right(
    cluster: Standalone, tmp_path: Path
) -> None:
    """Two executors, each with copies of its own: a shard that moves must be restored."""
    told = drive(tmp_path / "staying", cluster.master)
    assert told["state"] == "DONE"
    assert told["lines"] == sorted(f"k{n} {EPOCHS}" for n in range(KEYS))
    assert told["copies"] == 2, "both executors had shards"
    assert told["openings"] >= 4 * EPOCHS
    assert told["restores"] <= 4, "at most once for each shard"
