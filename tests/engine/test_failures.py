"""A failure on a worker is the user's own exception again on the driver."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.failures import RemoteTraceback, class_of, translate
from headrace.errors import WorkerLostError
from headrace.worker.failures import MAX_CHARACTERS, report_failure


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


def test_other_errors_stay_what_they_are() -> None:
    error = RuntimeError("table not found")
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
