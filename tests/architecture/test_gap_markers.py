"""The markers for gaps, as tests/conftest.py turns them into outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = (Path(__file__).parents[1] / "conftest.py").read_text(encoding="utf-8")
INI = """
[pytest]
xfail_strict = true
markers =
    not_built(reason): x
    spark_cannot(reason): x
    never(reason): x
"""


def run(pytester: pytest.Pytester, marker: str, body: str) -> pytest.RunResult:
    pytester.makeini(INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it():\n    {body}\n")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


@pytest.mark.parametrize("name", ["not_built", "spark_cannot"])
def test_a_gap_that_still_fails_is_expected(pytester: pytest.Pytester, name: str) -> None:
    run(pytester, f'{name}("later")', "assert False").assert_outcomes(xfailed=1)


@pytest.mark.parametrize("name", ["not_built", "spark_cannot"])
def test_a_gap_that_is_closed_fails_until_its_marker_goes(
    pytester: pytest.Pytester, name: str
) -> None:
    run(pytester, f'{name}(reason="later")', "pass").assert_outcomes(failed=1)


def test_what_will_never_be_built_is_not_run(pytester: pytest.Pytester) -> None:
    run(pytester, 'never("Beam forbids it")', "assert False").assert_outcomes(skipped=1)


def test_a_gap_without_a_reason_is_refused(pytester: pytest.Pytester) -> None:
    result = run(pytester, "not_built()", "assert False")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the marker not_built needs a reason*"])
