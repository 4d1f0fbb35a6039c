from __future__ import annotations

from headrace.lab.experiments.beam_suites.exceptions import Kind, Known, LeftOut
from headrace.lab.experiments.beam_suites.judge import judge
from headrace.lab.experiments.beam_suites.page import page
from headrace.lab.experiments.beam_suites.results import Ended, Result

ROWS = (
    Known(tests=("io.a_test::T::test_list",), kind=Kind.IN_PROCESS, reason="reads a list"),
    Known(tests=("io.a_test::T::test_one",), kind=Kind.ONE_SHARD, reason="counts bundles"),
)
RESULTS = [
    Result("io.a_test", "T::test_x", Ended.PASSED, 0.1, 2, ""),
    Result("io.a_test", "T::test_graph", Ended.PASSED, 0.1, 0, ""),
    Result("io.a_test", "T::test_one", Ended.PASSED, 0.1, 1, ""),
    Result("io.a_test", "T::test_list", Ended.FAILED, 0.1, 1, "E   AssertionError"),
    Result("ml.b_test", "", Ended.SKIPPED, 0.0, 0, "Skipped: no torch"),
    Result("ml.b_test", "T::test_wrong", Ended.FAILED, 0.1, 1, "E   AssertionError"),
]


def test_the_page_counts_what_passed_and_says_why_the_rest_did_not() -> None:
    made = page(judge(RESULTS, ROWS), [(LeftOut(modules=("c.*",), reason="not ours"), 3)], "Now.")
    assert "6 tests in 2 modules. 4 of them started 5 pipelines on headrace; 2 of these" in made
    for line in (
        "| passed | 3 |",
        "| of these, with one shard | 1 |",
        "| skipped by Beam | 1 |",
        "| impossible out of process | 1 |",
        "| **ours to mend** | 1 |",
        "| `io` | 4 | 3 | 3 | 0 | 1 | 0 |",
        "| `ml` | 2 | 1 | 0 | 1 | 0 | 1 |",
        "| no torch | 1 |",
        "* reads a list:\n  * `io.a_test::T::test_list`",
        "* counts bundles:\n  * `io.a_test::T::test_one`",
        "* not explained yet:\n  * `ml.b_test::T::test_wrong`",
        "| `c.*` | 3 | not ours |",
    ):
        assert line in made


def test_modules_that_were_not_gone_through_stand_at_the_top() -> None:
    made = page(judge(RESULTS, ROWS), [], "Now.", ["io.z_test"])
    assert "Now. **1 modules were not gone through to their end:** `io.z_test`." in made
