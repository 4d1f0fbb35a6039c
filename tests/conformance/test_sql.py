"""Beam's own tests of `SqlTransform`, inherited from the wheel; no Java expands or answers them."""

from __future__ import annotations

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


def load_tests(*_: Any) -> None:
    """Pytest collects the classes above; unittest must not collect Beam's again."""
