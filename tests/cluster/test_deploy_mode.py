"""What the page on clusters says of spark-submit, asked of spark-submit itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.cluster.standalone import JAVA_OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "cluster.md").read_text(encoding="utf-8")


@pytest.mark.spark
def test_a_standalone_cluster_refuses_python_in_cluster_mode_as_the_page_says(
    tmp_path: Path,
) -> None:
    app, home = tmp_path / "app.py", Path(pyspark.__file__).parent
    app.write_text("print(1)\n")
    # Nobody listens there: the refusal comes before a connection.
    done = subprocess.run(
        ["bash", str(home / "bin" / "spark-submit"), "--master", "spark://127.0.0.1:1",
         "--deploy-mode", "cluster", str(app)],
        env={**os.environ, **JAVA_OPTIONS, "SPARK_HOME": str(home),
             "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    said = "Cluster deploy mode is currently not supported for python applications on standalone"
    assert said in done.stderr
    assert said in " ".join(PAGE.split())
