from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.lab.experiments.beam_suites.command import main
from headrace.lab.experiments.beam_suites.discover import modules
from headrace.lab.experiments.beam_suites.plugin import leave_out
from headrace.lab.experiments.beam_suites.results import Ended, Result, as_line, read_lines
from headrace.lab.experiments.beam_suites.run import run
from headrace.lab.experiments.beam_suites.suite import beams_own
from headrace.lab.experiments.beam_suites.swap import asks_for_a_local_one, runs_on


def test_modules_are_found_by_the_beginning_of_their_names() -> None:
    found = list(modules(["io.text", "pvalue"]))
    assert found == ["io.textio_test", "pvalue_test"]


@pytest.mark.parametrize(
    ("runner", "flags", "is_open"),
    [
        (None, [], True),
        ("DirectRunner", [], True),
        ("apache_beam.runners.direct.DirectRunner", [], True),
        (None, ["--runner=FnApiRunner"], True),
        (None, ["--runner=DataflowRunner"], False),
        ("FlinkRunner", [], False),
    ],
)
def test_only_pipelines_that_leave_their_runner_open_are_swapped(
    runner: Any, flags: list[str], is_open: bool
) -> None:
    assert asks_for_a_local_one(runner, PipelineOptions(flags)) is is_open


@pytest.mark.parametrize(("only", "without", "left"), [
    ([], [], ["t.a::x[1]", "t.a::x[2]", "t.b::y"]),
    (["t.a::*"], [], ["t.a::x[1]", "t.a::x[2]"]),
    (["t.b::*", "*::x?2]"], [], ["t.a::x[2]", "t.b::y"]),
    ([], ["t.a::*"], ["t.b::y"]),
])
def test_of_two_runners_each_is_given_its_part_of_the_tests(
    only: list[str], without: list[str], left: list[str]
) -> None:
    gone: list[Any] = []
    config = SimpleNamespace(
        getoption={"--suites-only": only, "--suites-without": without}.__getitem__,
        hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)),
    )
    names = ["t/a.py::x[1]", "t/a.py::x[2]", "t/b.py::y"]
    items = [SimpleNamespace(nodeid=name) for name in names]
    leave_out(config, items)
    assert [item.nodeid.replace("/", ".").replace(".py", "") for item in items] == left
    assert len(items) + len(gone) == 3


def test_a_swapped_pipeline_is_counted_and_beam_is_put_back() -> None:
    started = []
    before = beam.Pipeline.__init__
    with runs_on("inline", lambda: started.append(1)):
        assert sorted([1, 2] | beam.Map(lambda x: x + 1)) == [2, 3]
    assert started == [1]
    assert beam.Pipeline.__init__ is before


def test_a_module_of_beams_runs_in_a_process_and_is_not_run_twice(tmp_path: Path) -> None:
    said: list[str] = []
    found = run(beams_own(), ["pvalue_test"], "inline", tmp_path, 1, said.append)
    outcomes = {each.test: each.outcome for each in found}
    assert outcomes["PValueTest::test_pvalue_expected_arguments"] is Ended.PASSED
    assert set(outcomes.values()) == {Ended.PASSED}
    assert run(beams_own(), ["pvalue_test"], "inline", tmp_path, 1, said.append) == found
    assert len(said) == 1
    assert sum(len(read_lines(file)) for file in tmp_path.glob("*.jsonl")) == len(found)


def test_what_an_interrupted_run_had_begun_is_run_again(tmp_path: Path) -> None:
    test = "PValueTest::test_pvalue_expected_arguments"
    begun = Result("pvalue_test", test, Ended.BEGUN, 0.0, 0, "")
    (tmp_path / "old.jsonl").write_text(as_line(begun), encoding="utf-8")
    found = run(beams_own(), ["pvalue_test"], "inline", tmp_path, 1, lambda _: None)
    assert {each.test: each.outcome for each in found}[test] is Ended.PASSED


def test_a_name_that_no_module_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["io.nothing"]) == 2
    assert "no module of Beam that builds pipelines begins with io.nothing" in (
        capsys.readouterr().err
    )
