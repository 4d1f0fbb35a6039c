from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lab.experiments.beam_suites.exceptions import Kind, Known, read_table, shards_for
from headrace.lab.experiments.beam_suites.judge import Meaning, complaints, error_line, judge
from headrace.lab.experiments.beam_suites.results import Ended, Result, as_line, read_lines

ROWS = (
    Known(tests=("io.a_test::T::test_list",), kind=Kind.IN_PROCESS, reason="reads a list"),
    Known(tests=("io.a_test::T::test_one*",), kind=Kind.ONE_SHARD, reason="one bundle"),
    Known(tests=("io.a_test::T::test_ours",), kind=Kind.OURS, reason="a defect"),
    Known(tests=("io.a_test::T::test_luck",), kind=Kind.BEAM, reason="chance", sometimes=True),
)


def result(test: str, outcome: Ended) -> Result:
    return Result("io.a_test", f"T::{test}", outcome, 0.1, 1, "E   ValueError: no")


@pytest.mark.parametrize(
    ("test", "outcome", "verdict"),
    [
        ("test_x", Ended.PASSED, Meaning.PASSED),
        ("test_x", Ended.SKIPPED, Meaning.SKIPPED),
        ("test_x", Ended.FAILED, Meaning.OURS),
        ("test_x", Ended.BEGUN, Meaning.OURS),
        ("test_list", Ended.FAILED, Meaning.IMPOSSIBLE),
        ("test_list", Ended.PASSED, Meaning.STALE),
        ("test_one_bundle", Ended.PASSED, Meaning.PASSED),
        ("test_one_bundle", Ended.FAILED, Meaning.OURS),
        ("test_ours", Ended.FAILED, Meaning.OURS),
        ("test_ours", Ended.PASSED, Meaning.STALE),
        ("test_luck", Ended.PASSED, Meaning.PASSED),
        ("test_luck", Ended.FAILED, Meaning.IMPOSSIBLE),
    ],
)
def test_a_result_is_held_against_the_table(
    test: str, outcome: Ended, verdict: Meaning
) -> None:
    (judged,) = judge([result(test, outcome)], ROWS)
    assert judged.verdict is verdict
    assert bool(complaints([judged])) is (verdict in (Meaning.OURS, Meaning.STALE))


def test_a_complaint_names_the_test_and_what_it_said() -> None:
    (told,) = complaints(judge([result("test_x", Ended.FAILED)], ROWS))
    assert told == "io.a_test::T::test_x: failed: ValueError: no"


FAILURE = """headrace.engine.failures.RemoteTraceback:
E   KeyError: 'cause'

The above exception was the direct cause of the following exception:
headrace/results.py:153: in _await
    raise self._failure.with_traceback(None)
E   AttributeError: 'A' object has no attribute 'b' [while running 'Write']
E     step:    Write
E     more:    --debug shows the frames of Beam and headrace, and Spark's own log
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FAILURE, "AttributeError: 'A' object has no attribute 'b' [while running 'Write']"),
        ("E   Error: cannot run:\nE     - A: no\nE     - B: no", "Error: cannot run: - A: no"),
        ("E       fixture 'x' not found\n> available: y\n\na.py:12", "fixture 'x' not found"),
        ("E   AssertionError: differ\nE   \nE   + 1", "AssertionError: differ"),
        ("Timeout after 600 s", "Timeout after 600 s"),
        ("", ""),
    ],
)
def test_of_a_failure_the_line_of_the_exception_is_shown(text: str, line: str) -> None:
    assert error_line(text) == line


def test_a_module_that_cannot_be_imported_is_a_result_and_one_gone_through_is_not() -> None:
    gone = Result("io.b_test", "", Ended.PASSED, 1.0, 0, "")
    broken = Result("io.c_test", "", Ended.FAILED, 0.0, 0, "E   ImportError: no")
    (judged,) = judge([gone, broken], ROWS)
    assert (judged.name, judged.verdict) == ("io.c_test", Meaning.OURS)


def test_tests_that_need_one_bundle_get_one_shard() -> None:
    assert shards_for("io.a_test::T::test_one_bundle", ROWS) == 1
    assert shards_for("io.a_test::T::test_list", ROWS) == 2


def test_a_row_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="need a reason of one line"):
        Known(tests=("io.a_test::T::test_x",), kind=Kind.BEAM, reason=" ")


def test_the_table_can_be_read_and_no_test_stands_in_two_rows() -> None:
    known, left_out = read_table()
    patterns = [pattern for row in known for pattern in row.tests]
    assert len(patterns) == len(set(patterns))
    assert known
    assert left_out


def test_of_a_test_the_last_line_counts_of_a_module_the_first(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    skipped = Result("io.c_test", "", Ended.SKIPPED, 0.0, 0, "no package")
    lines.write_text(
        as_line(result("test_x", Ended.BEGUN))
        + as_line(result("test_x", Ended.PASSED))
        + as_line(skipped)
        + as_line(Result("io.c_test", "", Ended.PASSED, 1.0, 0, "")),
        encoding="utf-8",
    )
    assert read_lines(lines) == [result("test_x", Ended.PASSED), skipped]
