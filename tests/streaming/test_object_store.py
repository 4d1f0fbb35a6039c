"""Streaming pipelines whose checkpoint is in an S3: crashes, kills, restarts, refusals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from headrace.cli.main import main as command
from headrace.engine.checkpoint.fencing import incarnations_of
from headrace.engine.checkpoint.reading import epochs_of
from headrace.engine.spark.folders import see_that_spark_can_open, spark_folder
from headrace.errors import CheckpointError
from headrace.io import ReadFromSpark
from headrace.state.files import Files
from headrace.testing import faults
from headrace.testing.faults import Point
from tests.places import SLOW
from tests.s3 import REGION, S3
from tests.spark_session import shared_session
from tests.streaming.harness import Inbox, finished, streaming
from tests.streaming.store_driver import KEYS, STEPS, run, written

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

#: Names a folder with hadoop-aws of Spark's Hadoop and the jars it needs, some 700 MB.
JARS = "HEADRACE_HADOOP_AWS"
ROOT = Path(__file__).parents[2]
GAPS = [Point.AFTER_SINKS, Point.AFTER_MANIFEST]
#: Worked out by hand: step n brings n, so the total after it is 0 + 1 + ... + n.
RIGHT = sorted((key, n, total) for key in KEYS for n, total in enumerate([0, 1, 3, 6, 10, 15]))
assert len(RIGHT) == len(KEYS) * STEPS


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("gap", GAPS if SLOW else GAPS[:1])
def test_a_run_that_ends_in_a_gap_goes_on_from_the_store(
    s3: S3, tmp_path: Path, output: Path, gap: Point
) -> None:
    place = s3.place(tmp_path.name)

    def start(copies: str) -> None:
        run(place, str(output), str(tmp_path / copies), spark=shared_session())

    with faults.driver_ends(gap, 2):
        start("first")
    assert epochs_of(Files(place))[-1] == (2 if gap is Point.AFTER_MANIFEST else 1)
    start("elsewhere")  # as on another machine: all state must come from the store
    assert written(output) == RIGHT
    assert command(["state", "verify", place]) == 0
    assert not [name for name in s3.objects(tmp_path.name) if ".writing-" in name]


def test_a_driver_killed_by_the_system_is_followed_by_one_that_goes_on_from_the_store(
    s3: S3, tmp_path: Path, output: Path
) -> None:
    place = s3.place(tmp_path.name)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.streaming.store_driver", place, str(output),
         str(tmp_path / "first")],
        cwd=ROOT, env={**os.environ, "HEADRACE_CRASH": "after_sinks:3"}, capture_output=True,
        text=True, timeout=250,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert epochs_of(Files(place))[-1] == 2
    run(place, str(output), str(tmp_path / "second"), spark=shared_session())
    assert written(output) == RIGHT
    assert [start.number for start in incarnations_of(Files(place))] == [1, 2]


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    JARS not in os.environ, reason=f"{JARS} names no folder with hadoop-aws and the SDK it needs"
)
def test_a_streaming_dataframe_goes_on_from_sparks_log_in_the_store(
    s3: S3, tmp_path: Path, output: Path
) -> None:
    """With hadoop-aws, once killed after our commit and before Spark's, then run to the end."""
    inbox = Inbox(tmp_path / "inbox")
    for step in range(STEPS):
        inbox.put(*({"key": key, "at": 0, "step": step} for key in KEYS))
    # On the class path and not among the session's jars, which Spark would copy.
    jars = ":".join(map(str, sorted(Path(os.environ[JARS]).glob("*.jar"))))
    settings = {
        "endpoint": s3.endpoint, "endpoint.region": REGION, "path.style.access": "true",
    }
    told = [f"--conf spark.hadoop.fs.s3a.{name}={value}" for name, value in settings.items()]
    submitted = f"--driver-class-path {jars} {' '.join(told)} pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": submitted}

    def start(crash: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.streaming.store_driver", s3.place(tmp_path.name),
             str(output), str(tmp_path / "copies"), str(tmp_path / "inbox")],
            cwd=ROOT, env={**environment, "HEADRACE_CRASH": crash}, capture_output=True, text=True,
            timeout=400,
        )

    killed = start("after_manifest:3")
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    done = start("")
    assert done.returncode == 0, done.stderr[-3000:]
    assert written(output) == RIGHT
    found = s3.objects(tmp_path.name)
    for log in ("offsets", "commits"):
        assert {f"spark/0/{log}/{step}" for step in range(STEPS)} <= found.keys()


def test_no_credential_lies_in_the_checkpoint(s3: S3, tmp_path: Path, output: Path) -> None:
    place = s3.place(tmp_path.name)
    run(place, str(output), str(tmp_path / "copies"), spark=shared_session())
    secret = os.environ["AWS_SECRET_ACCESS_KEY"].encode()
    found = s3.objects(tmp_path.name)
    assert found
    # `tests` is also a package whose name is in pickled code, but code is not in a checkpoint.
    assert not [name for name, data in found.items() if secret in data]


def test_a_streaming_dataframe_is_refused_where_spark_cannot_keep_its_log(
    s3: S3, tmp_path: Path
) -> None:
    """Before anything is claimed; with the package that Spark lacks, in Hadoop's own version."""
    inbox = Inbox(tmp_path / "inbox")
    place = s3.place(tmp_path.name)
    pipeline = streaming(f"--checkpoint={place}", f"--state_dir={tmp_path / 'copies'}")
    frame = inbox.frame("key string, at long")
    _ = pipeline | ReadFromSpark(frame, timestamp="at") | beam.Map(lambda row: row.key)
    with pytest.raises(CheckpointError) as caught:
        finished(pipeline)
    told = str(caught.value)
    version = shared_session()._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    assert f"Spark cannot open s3a://headrace/{tmp_path.name}: " in told
    assert "ClassNotFoundException" in told or "UnsupportedFileSystemException" in told
    assert f"--packages org.apache.hadoop:hadoop-aws:{version}" in told
    assert s3.objects(tmp_path.name) == {}


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ("abfss://c@account.dfs.core.windows.net/x", "org.apache.hadoop:hadoop-azure:"),
        ("gs://bucket/x", "gcs-connector"),
        ("az://container/x", "abfss://CONTAINER@ACCOUNT"),
        ("ftps://host/x", "a Hadoop file system for ftps://"),
    ],
)
def test_what_spark_lacks_is_named_for_each_scheme(spark: Any, place: str, remedy: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        see_that_spark_can_open(spark, place)
    assert remedy in str(caught.value)


def test_places_that_spark_knows_are_left_as_they_are(spark: Any, tmp_path: Path) -> None:
    for place in (str(tmp_path), tmp_path.as_uri()):
        see_that_spark_can_open(spark, place)
        assert spark_folder(spark, f"{place}/spark/0") == f"{place}/spark/0"
