from __future__ import annotations

from dataclasses import replace

from headrace.lab.experiments.beam_suites.exceptions import Kind, Known
from headrace.lab.experiments.beam_suites.judge import Meaning, complaints
from headrace.lab.experiments.beam_suites.results import Ended, Result
from headrace.lab.experiments.user_suites.command import PAGE, runs_of
from headrace.lab.experiments.user_suites.packages import Package
from headrace.lab.experiments.user_suites.page import page, table
from headrace.lab.experiments.user_suites.verdicts import PackageVerdict, verdict

PACKAGE = Package(name="theirs", version="1.2", does="things", tests=("tests/test_*.py",))
ENDED = Result("tests.test_a", "", Ended.PASSED, 1.0, 0, "")


def said(test: str, outcome: Ended, text: str = "", pipelines: int = 1) -> Result:
    return Result("tests.test_a", test, outcome, 0.1, pipelines, text)


def judged(
    ours: list[Result], yardstick: list[Result], known: tuple[Known, ...] = ()
) -> PackageVerdict:
    return verdict(PACKAGE, ["tests.test_a"], [[*ours, ENDED]], [*yardstick, ENDED], known)


def test_a_failure_on_beams_runner_too_is_not_ours_and_its_own_words_are_the_reason() -> None:
    text = "E   TypeError: open_group() got\nE     more"
    found = judged([said("test_x[a-1]", Ended.FAILED)], [said("test_x[a-1]", Ended.FAILED, text)])
    (one,) = found.judged
    assert one.verdict is Meaning.IMPOSSIBLE
    assert one.row is not None
    assert (one.row.kind, one.row.reason) == (Kind.BEAM, "TypeError: open_group() got")
    assert complaints(found.judged) == []


def test_a_failure_of_another_parameter_is_ours() -> None:
    """Brackets in a test's name are its parameters, not a pattern."""
    ours = [said("test_x[ab]", Ended.FAILED), said("test_x[a]", Ended.FAILED, "E   ValueError: 1")]
    yardstick = [said("test_x[ab]", Ended.FAILED), said("test_x[a]", Ended.PASSED)]
    verdicts = {each.name: each.verdict for each in judged(ours, yardstick).judged}
    assert verdicts == {
        "tests.test_a::test_x[a]": Meaning.OURS, "tests.test_a::test_x[ab]": Meaning.IMPOSSIBLE,
    }


def test_a_test_that_only_beams_runner_fails_is_no_complaint() -> None:
    found = judged([said("test_x", Ended.PASSED)], [said("test_x", Ended.FAILED)])
    assert [each.verdict for each in found.judged] == [Meaning.PASSED]


def test_a_row_of_the_table_explains_what_is_headraces_alone() -> None:
    row = Known(tests=("tests.test_a::test_x",), kind=Kind.IN_PROCESS, reason="looks at a mock")
    found = judged([said("test_x", Ended.FAILED)], [said("test_x", Ended.PASSED)], (row,))
    assert [each.row for each in found.judged] == [row]
    assert complaints(found.judged) == []


def test_a_module_that_one_run_did_not_end_is_missing() -> None:
    found = verdict(PACKAGE, ["tests.test_a"], [[ENDED]], [], ())
    assert found.missing == ("tests.test_a",)


def test_parts_that_ran_in_different_places_are_judged_together_and_counted() -> None:
    package = replace(PACKAGE, on_spark=("tests.test_a::test_p*",), left_out="those without any")
    spark, inline = [said("test_p", Ended.PASSED), ENDED], [said("test_q", Ended.FAILED), ENDED]
    yardstick = [said("test_p", Ended.PASSED), said("test_q", Ended.PASSED), ENDED]
    found = verdict(package, ["tests.test_a"], [inline, spark], yardstick, ())
    assert [(each.name, each.verdict) for each in found.judged] == [
        ("tests.test_a::test_p", Meaning.PASSED), ("tests.test_a::test_q", Meaning.OURS),
    ]
    assert "Left out: those without any. 1 of the 2 ran on Spark" in page([found], "Made today.")
    assert verdict(package, ["tests.test_a"], [inline, spark[:1]], yardstick, ()).missing
    assert runs_of(package) == {
        "local": (), "inline": ("--suites-without=tests.test_a::test_p*",),
        "headrace": ("--suites-only=tests.test_a::test_p*",),
    }
    left_out = replace(PACKAGE, without=("tests.test_b::*",))
    assert runs_of(left_out) == dict.fromkeys(
        ("local", "headrace"), ("--suites-without=tests.test_b::*",)
    )


def test_what_a_page_says_of_packages_that_were_not_run_now_stays() -> None:
    ours, yardstick = [said("test_p", Ended.PASSED)], [said("test_p", Ended.PASSED)]
    first = judged(ours, yardstick)
    other = replace(first, package=replace(PACKAGE, name="others"))
    before = page([first, other], "Made in May.")
    changed = judged([*ours, said("test_q", Ended.SKIPPED, "Skipped: later")], yardstick)
    after = page([changed], "Made in June.", before)
    assert after.count("| theirs |") == after.count("| others |") == 1
    assert "| theirs | 1.2 | things | 2 | 2 | 1 | 1 |" in after
    theirs, others = after.index("## theirs"), after.index("## others")
    assert theirs < after.index("Made in June.") < others < after.index("Made in May.")


def test_the_page_of_the_docs_is_read_row_by_row() -> None:
    before = PAGE.read_text(encoding="utf-8")
    assert page([], "", before).partition("| package |")[2] == before.partition("| package |")[2]


def test_the_page_counts_each_test_in_one_column_and_names_what_fails() -> None:
    row = Known(tests=("tests.test_a::test_m",), kind=Kind.IN_PROCESS, reason="looks at a mock")
    ours = [
        said("test_p", Ended.PASSED), said("test_q", Ended.PASSED, pipelines=0),
        said("test_s", Ended.SKIPPED, "Skipped: no server", 0), said("test_m", Ended.FAILED),
        said("test_t", Ended.FAILED), said("test_o", Ended.FAILED, "E   KeyError: 3"),
    ]
    yardstick = [said("test_t", Ended.FAILED, "E   ImportError: no nose")]
    found = judged(ours, yardstick, (row,))
    assert table([found]).splitlines()[-1] == (
        "| theirs | 1.2 | things | 6 | 4 | 2 | 1 | 1 | 1 | 1 |"
    )
    made = page([found], "Made today.")
    assert "* no server: 1\n" in made
    assert "* ImportError: no nose:\n  * `tests.test_a::test_t`\n" in made
    assert "* looks at a mock:\n  * `tests.test_a::test_m`\n" in made
    assert "* not explained yet:\n  * `tests.test_a::test_o`\n" in made


def test_the_page_says_what_a_package_s_tests_showed_behind_what_they_do() -> None:
    found = judged([said("test_p", Ended.PASSED)], [said("test_p", Ended.PASSED)])
    package = replace(PACKAGE, mended=("groups came out reversed",))
    assert page([replace(found, package=package)], "Made today.").endswith(
        "\nAll passed.\n\nWhat its tests showed in headrace, mended since:\n\n"
        "* groups came out reversed\n"
    )
