"""The Python processes that a pipeline makes Spark start."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.spark.session import find_target

#: Spark turns settings that begin so into variables of its Python workers' environment.
TOLD_TO_WORKERS = "spark.sql.execution.pyspark."


@pytest.mark.spark
def test_rows_are_written_by_the_processes_that_made_them(spark: Any) -> None:
    """Rows that leave a pipeline are read in the user's session.

    Workers of another environment would be a second daemon, which imports Beam again.
    """
    target = find_target(spark)
    ours, users = target.session.conf.getAll, spark.conf.getAll
    names = {name for name in (*ours, *users) if name.startswith(TOLD_TO_WORKERS)}
    for name in (*names, f"{TOLD_TO_WORKERS}udf.simplifiedTraceback.enabled"):
        assert target.session.conf.get(name) == spark.conf.get(name), name
