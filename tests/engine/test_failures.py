"""A failure on a worker is the user's own exception again on the driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.failures import RemoteTraceback, class_of, translate
from headrace.errors import DiskFullError, WorkerLostError
from headrace.worker.task.failures import MAX_CHARACTERS, report_failure


class Rejected(Exception):
    """An exception of the user's own."""

    class Inner(ValueError):
        """A nested one."""


def through_spark(failure: BaseException) -> BaseException:
    """What the driver makes of a failed task: Spark hands on its text between other text."""
    said = f"Job aborted: Lost task 0.0:\n{report_failure(failure)}\n\tat org.apache.spark.Foo"
    return translate(RuntimeError(said))


@given(st.text(), st.lists(st.integers() | st.none() | st.booleans() | st.text(), max_size=3))
def test_type_and_arguments_survive_whatever_the_text(first: str, rest: list[Any]) -> None:
    found = through_spark(Rejected(first, *rest))
    assert type(found) is Rejected
    assert found.args == (first, *rest)


@pytest.mark.parametrize(
    "failure",
    [ValueError(), KeyError("k"), Rejected.Inner("deep"), UnicodeDecodeError("a", b"b", 0, 1, "c")],
    ids=repr,
)
def test_the_text_of_an_exception_is_the_users(failure: Exception) -> None:
    found = through_spark(failure)
    assert isinstance(found, type(failure))
    assert str(found) == str(failure)


def test_the_cause_carries_the_workers_traceback() -> None:
    def deep_in_user_code() -> None:
        message = "gone"
        raise Rejected(message)

    with pytest.raises(Rejected) as caught:
        deep_in_user_code()
    cause = through_spark(caught.value).__cause__
    assert isinstance(cause, RemoteTraceback)
    assert "in deep_in_user_code" in str(cause)


def test_a_full_disk_that_spark_tells_of_names_the_folder_and_what_is_free(tmp_path: Path) -> None:
    said = (
        "Job aborted due to stage failure: Lost task 1.0 in stage 7.0\n"
        f"java.io.FileNotFoundException: {tmp_path}/blockmgr-1/0a/temp (No space left on device)\n"
        "\tat java.base/java.io.FileOutputStream.open0(Native Method)"
    )
    found = translate(RuntimeError(said))
    assert isinstance(found, DiskFullError)
    assert f"{tmp_path}/blockmgr-1/0a has " in str(found)
    assert " bytes free" in str(found)
    assert "make room" in str(found)


def test_a_full_disk_without_a_path_names_the_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    found = translate(RuntimeError("java.io.IOException: No space left on device"))
    assert isinstance(found, DiskFullError)
    assert f"{tmp_path} has " in str(found)


def test_a_full_disk_that_user_code_met_stays_the_users_exception() -> None:
    found = through_spark(Rejected("No space left on device"))
    assert type(found) is Rejected


def test_a_message_of_many_megabytes_is_cut() -> None:
    failure = Rejected("a" + "x" * 5_000_000 + "z")
    assert len(str(report_failure(failure))) < 8 * MAX_CHARACTERS
    found = through_spark(failure)
    assert isinstance(found, Rejected)
    assert str(found).startswith("ax")
    assert str(found).endswith("xz")
    assert "characters left out" in str(found)


@pytest.mark.parametrize(
    "sign",
    [
        "ExecutorLostFailure", "Python worker exited unexpectedly",
        "EOFException occurred while reading the port number from headrace.worker.daemon's stdout",
    ],
)
def test_a_lost_worker_is_called_lost(sign: str) -> None:
    found = translate(RuntimeError(f"Job aborted due to stage failure: {sign} (executor 1)"))
    assert isinstance(found, WorkerLostError)
    assert sign in str(found)


def test_a_jvm_without_memory_is_told_which_setting_helps() -> None:
    found = translate(RuntimeError("Task 0 failed: java.lang.OutOfMemoryError: Java heap space"))
    assert isinstance(found, WorkerLostError)
    assert "spark.driver.memory" in str(found)


STACK = (
    "Lost task 0.0 in stage 0.0 (TID 0) (executor driver): java.io.{error}\n"
    "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)\n"
    "\tat org.apache.spark.{place}(PythonWorkerFactory.scala:232)\n"
    "\tat org.apache.spark.SparkEnv.createPythonWorker(SparkEnv.scala:326)\n"
)


@pytest.mark.parametrize("error", ["EOFException", "IOException: Broken pipe"])
def test_a_worker_that_died_before_it_was_one_is_called_lost(error: str) -> None:
    place = "api.python.PythonWorkerFactory.createThroughDaemon"
    said = STACK.format(error=error, place=place)
    assert isinstance(translate(RuntimeError(said)), WorkerLostError)


@pytest.mark.parametrize(
    "said",
    [
        "table not found",
        STACK.format(error="EOFException", place="sql.execution.datasources.FileScanRDD.compute"),
        STACK.format(
            error="IOException: Cannot run program python9",
            place="api.python.PythonWorkerFactory.createThroughDaemon",
        ),
    ],
)
def test_other_errors_stay_what_they_are(said: str) -> None:
    error = RuntimeError(said)
    assert translate(error) is error


@pytest.mark.parametrize(
    ("module", "name", "found"),
    [
        ("builtins", "ValueError", ValueError),
        ("json", "JSONDecodeError", json.JSONDecodeError),
        ("json.decoder", "JSONDecodeError.no", None),
        ("builtins", "int", None),
        ("no.such.module", "Error", None),
        (__name__, "Rejected.Inner", Rejected.Inner),
    ],
)
def test_only_exception_classes_are_found_by_name(module: str, name: str, found: Any) -> None:
    assert class_of(module, name) is found
