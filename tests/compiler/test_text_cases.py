"""Each pass and the scheduler make of small pipelines what the text cases say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.compiler import fuse
from tests.compiler.text_cases import (
    PASSES,
    Case,
    CaseError,
    difference,
    main,
    parse,
    paths,
)

OURS = Path(fuse.__file__).parent / "passes"
LIFTED = PASSES / "lift_combines" / "plain.txt"


def case(path: Path) -> Case:
    return parse(path.read_text(encoding="utf-8"), path)


@pytest.mark.parametrize("path", paths(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_compiler_makes_of_a_pipeline_what_its_case_says(path: Path) -> None:
    assert path.suffix == ".txt"
    found = difference(case(path))
    if found:
        pytest.fail(found, pytrace=False)


def test_each_pass_has_cases_and_each_folder_of_cases_is_of_a_pass() -> None:
    passes = {path.stem for path in OURS.glob("*.py")} - {"__init__"}
    assert len(passes) > 5  # else it is not the folder of the passes that was read
    assert {path.parent.name for path in paths()} == passes | {"schedule"}


def test_each_pass_has_a_case_in_which_it_changes_something() -> None:
    changing = {c.folder for c in map(case, paths()) if c.before != c.after}
    assert changing == {path.parent.name for path in paths()}


def test_a_case_is_written_as_it_is_read() -> None:
    for path in paths():
        assert case(path).text() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("-- before", "-- berfore", "the sections are"),
        ("-- before", "-- pipeline", "the sections are"),
        ("-- after\n", "-- after\n\n-- afterwards\n", "the sections are"),
        ("-- pipeline, streaming", "-- pipeline, in batches", "'in batches'"),
        ("-- before", "-- before, streaming", "'streaming'"),
        ("Nothing looks", "-- shows\nNothing looks", "the sections are"),
        ("-- pipeline, streaming", "-- pipeline", "lift_combines did not run"),
    ],
)  # fmt: skip
def test_a_case_that_nobody_understands_fails(written: str, instead: str, said: str) -> None:
    text = LIFTED.read_text(encoding="utf-8")
    assert written in text
    with pytest.raises(CaseError, match=said):
        difference(parse(text.replace(written, instead, 1), LIFTED))


def test_a_case_must_say_what_it_shows() -> None:
    text = LIFTED.read_text(encoding="utf-8")
    with pytest.raises(CaseError, match="says nothing"):
        parse(text[text.index("-- pipeline"):], LIFTED)


def test_a_pass_that_does_something_else_shows_in_the_lines_that_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lazy(stages: Any, _context: Any) -> Any:
        yield from stages

    lazy.__module__ = "headrace.compiler.passes.root_waiting"
    monkeypatch.setattr(fuse, "root_waiting", lazy)
    found = difference(case(PASSES / "root_waiting" / "side_inputs.txt")).splitlines()
    changed = [line for line in found if line[0] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == [
        "-First: pardo(Pairs, side Side) [root]",
        "-Second: pardo(First, side Side) [root]",
        "+First: pardo(Pairs, side Side)",
        "+Second: pardo(First, side Side)",
    ]


def test_what_is_meant_is_written_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "lift_combines" / "plain.txt"
    path.parent.mkdir()
    path.write_text(replace(case(LIFTED), before="", after="").text(), encoding="utf-8")
    main([str(path)])
    assert path.read_text(encoding="utf-8") == LIFTED.read_text(encoding="utf-8")
