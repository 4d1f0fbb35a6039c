"""Masters and ways in beside those of test_standalone.py: `local-cluster`, and spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.cluster.standalone import JAVA_OPTIONS, Standalone
from tests.cluster.test_standalone import ANSWER

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
#: A program that says nothing of where it runs: what was submitted does.
APP = """\
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import SparkSession
import headrace

options = PipelineOptions(["--progress=off", "--shards=2"])
with beam.Pipeline(runner=headrace.SparkRunner(), options=options) as pipeline:
    _ = (
        pipeline
        | beam.Create(range(60))
        | beam.Map(lambda n: (n % 3, n))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda pair: f"{pair[0]} {pair[1]}")
        | beam.io.WriteToText(sys.argv[1])
    )
context = SparkSession.getActiveSession().sparkContext
executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1
print("FACTS", context.master, context.appName, executors)
"""


def environment() -> dict[str, str]:
    return {
        **os.environ, **JAVA_OPTIONS, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_a_cluster_in_one_process_gives_the_same_answer_on_two_executors(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "cluster" / "driver.py"),
         "--place=local-cluster[2,1,1024]", "--shards=3", f"--out={out}"],
        cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=350, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    plain, facts = json.loads(out.read_text())
    assert plain.get("lines") == ANSWER, plain
    assert facts["executors"] == 2


def test_a_program_that_is_submitted_in_client_mode_runs_where_it_was_submitted_to(
    cluster: Standalone, tmp_path: Path
) -> None:
    app, home = tmp_path / "app.py", Path(pyspark.__file__).parent
    app.write_text(APP)
    done = subprocess.run(
        ["bash", str(home / "bin" / "spark-submit"), "--master", cluster.master,
         "--deploy-mode", "client", "--name", "handed-in", str(app), str(tmp_path / "sums")],
        cwd=tmp_path, env={**environment(), "SPARK_HOME": str(home)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=350, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert f"FACTS {cluster.master} handed-in 2" in done.stdout
    lines = [line for path in tmp_path.glob("sums*") for line in path.read_text().splitlines()]
    # Every third of 0 to 59, from 0, 1 and 2 on: 0 + 3 + .. + 57 = 570, and 20 more each.
    assert sorted(lines) == ["0 570", "1 590", "2 610"]
