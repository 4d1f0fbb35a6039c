"""Beam's own tests of `SqlTransform`, inherited from the wheel; no Java expands or answers them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

from apache_beam.transforms import sql_test

from tests.places import Place, chosen, headrace_is_the_runner


class TestSql(sql_test.SqlTransformTest):  # type: ignore[misc]
    """Rows, windows, joins, maps, a user's own class."""

    # Beam leaves them out where no runner is named.
    __unittest_skip__ = False
    place = Place.PROCESS

    def setUp(self) -> None:
        headrace_is_the_runner(self, self.place)


@pytest.mark.spark
class TestOnSpark(chosen(TestSql, "test_agg", "test_tagged_join", "test_row_user_type")):  # type: ignore[misc]
    """Some of them on Spark too."""

    place = Place.SPARK


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_beams_word_count_by_sql_runs_as_it_ships(tmp_path: Path) -> None:
    """Lines are split at what is no word, so that one ending in a dot ends in an empty word."""
    (tmp_path / "lines").write_text("to be or not to be.\nbe brave\n")
    done = subprocess.run(
        [sys.executable, "-m", "apache_beam.examples.wordcount_xlang_sql",
         f"--input={tmp_path / 'lines'}", f"--output={tmp_path / 'counts'}",
         "--runner=headrace.SparkRunner", "--spark_master=local[2]", "--progress=off"],
        text=True, capture_output=True, timeout=250, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line for path in tmp_path.glob("counts*") for line in path.read_text().splitlines()]
    assert sorted(found) == [": 1", "be: 3", "brave: 1", "not: 1", "or: 1", "to: 2"]


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
