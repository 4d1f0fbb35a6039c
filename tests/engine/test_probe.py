"""The check of the executors: what is refused, in which words, and that it always ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

from headrace.engine.spark import probe
from headrace.engine.spark.probe import (
    Answer,
    Expected,
    common,
    differences,
    explain,
    is_local,
    refuse,
)
from headrace.engine.spark.session import settings_for
from headrace.errors import SessionError

EXPECTED = Expected(python="3.11", beam="2.77.0", headrace="0.1.0")
GOOD = Answer(
    host="mill-1", folder="/work/0", python="3.11", executable="/opt/python",
    distributions={"numpy": "2.0", "rich": "14"}, beam="2.77.0", pyarrow="20", headrace="0.1.0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"python": "3.12"}, ["Python 3.12, the driver has 3.11"]),
        ({"beam": None}, ["no apache-beam, the driver has 2.77.0"]),
        ({"beam": "2.70.0"}, ["apache-beam 2.70.0, the driver has 2.77.0"]),
        ({"pyarrow": None}, ["no pyarrow"]),
        ({"headrace": "0.0.9"}, ["headrace 0.0.9, the driver has 0.1.0"]),
        ({"headrace": None}, ["headrace cannot be imported, though it was sent"]),
    ],
)
def test_every_difference_is_said_with_both_versions(
    changes: dict[str, Any], said: list[str]
) -> None:
    assert list(differences(replace(GOOD, **changes), EXPECTED)) == said


def test_a_missing_headrace_is_forgiven_while_it_can_still_be_sent() -> None:
    refuse([replace(GOOD, headrace=None)], EXPECTED, may_send=True)
    with pytest.raises(SessionError):
        refuse([replace(GOOD, headrace=None)], EXPECTED)


def test_the_refusal_names_the_executor_and_the_remedy() -> None:
    bad = replace(GOOD, host="mill-2", beam="2.1.0")
    with pytest.raises(SessionError, match=r"mill-2 \(/opt/python\).*2\.1\.0.*PYSPARK_PYTHON"):
        refuse([GOOD, bad], EXPECTED)


def test_only_what_all_executors_have_counts_as_installed() -> None:
    other = replace(GOOD, distributions={"numpy": "2.0", "lmdb": "1"})
    assert common([GOOD, other]) == {"numpy": "2.0"}


@pytest.mark.parametrize(
    ("spark_said", "we_say"),
    [
        (
            "Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): PySparkRuntimeError: "
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "the executor on 10.0.0.7 does not fit: Python 3.12, the driver has 3.11. ",
        ),
        (
            "Lost task 0.0 in stage 0.0 (TID 0) (mill-3 executor 0): java.io.IOException: Cannot "
            'run program "/no/python": error=2, No such file or directory',
            "the executor on mill-3 does not fit: there is no program /no/python. ",
        ),
        (
            "Lost task 0.0 in stage 0.0 (TID 0) (mill-3 executor 0): ModuleNotFoundError: No "
            "module named 'apache_beam'",
            "the executor on mill-3 does not fit: its Python has no module apache_beam. ",
        ),
        ("something else", "the executors' Python could not be asked. "),
    ],
    ids=["version", "program", "module", "other"],
)
def test_a_python_that_does_not_start_is_explained(spark_said: str, we_say: str) -> None:
    text = explain(spark_said)
    assert text.startswith(we_say) and "PYSPARK_PYTHON" in text


def test_the_question_travels_by_value_to_a_python_without_headrace() -> None:
    pickled = cloudpickle.dumps(probe.question(rest_seconds=0.0))
    code = (
        "import pickle, sys\n"
        "sys.modules['headrace'] = None  # from here on it cannot be imported\n"
        "answer = next(pickle.loads(sys.stdin.buffer.read())([]))\n"
        "print(answer['headrace'], answer['python'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickled, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["None", "{}.{}".format(*sys.version_info[:2])]


class Silent:
    """Stands for a context whose cluster never answers."""

    master, applicationId, defaultParallelism = "spark://mill:7077", "app-silent", 2

    def __init__(self, executors: int) -> None:
        status = SimpleNamespace(size=lambda: executors + 1)
        core = SimpleNamespace(getExecutorMemoryStatus=lambda: status)
        self._jsc = SimpleNamespace(sc=lambda: core)
        self._end = threading.Event()
        self.cancelled: list[str] = []

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1"}

    def setJobGroup(self, *_: str) -> None:
        self._end.wait(30)

    def cancelJobGroup(self, group: str) -> None:
        self.cancelled.append(group)
        self._end.set()


@pytest.mark.parametrize(
    ("executors", "said"), [(0, "no executor registered"), (2, "no executor answered")]
)
def test_a_cluster_that_never_answers_is_given_up(
    executors: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "SETTLE_SECONDS", 0.0)
    context = Silent(executors)
    start = time.monotonic()
    with pytest.raises(SessionError, match=rf"{said} with spark://mill:7077 .*SPARK_LOCAL_IP"):
        probe.check_executors(context, limit_seconds=0.3)
    assert time.monotonic() - start < 10
    assert bool(context.cancelled) == bool(executors)


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True), ("local[4]", True), ("local[*]", True),
        ("local-cluster[2,1,1024]", False), ("spark://h:7077", False), ("yarn", False),
    ],
)  # fmt: skip
def test_only_a_master_whose_workers_are_our_children_is_local(master: str, local: bool) -> None:
    assert is_local(master) is local


def test_the_driver_listens_on_loopback_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    for master in ("local[2]", "spark://127.0.0.1:7077"):
        settings = settings_for(master, {})
        assert settings["spark.driver.bindAddress"] == "127.0.0.1"
        assert settings["spark.driver.host"] == "127.0.0.1"
    assert not caplog.records
    settings_for("spark://mill.example:7077", {})
    assert "SPARK_LOCAL_IP" in caplog.text
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.2.3")
    settings = settings_for("spark://mill.example:7077", {})
    assert settings["spark.driver.bindAddress"] == settings["spark.driver.host"] == "10.1.2.3"


def test_what_was_submitted_wins_over_our_settings_and_files_are_joined() -> None:
    given = {"spark.driver.memory": "8g", "spark.files": "a.txt"}
    settings = settings_for("spark://127.0.0.1:7077", given)
    assert "spark.driver.memory" not in settings
    own, other = settings["spark.files"].split(",")
    assert own.endswith(".zip") and other == "a.txt"
    assert own.endswith(settings["spark.executorEnv.PYTHONPATH"])
    assert "spark.files" not in settings_for("local[2]", {})
