"""What docs/capabilities.md and other pages call a test, against the tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from apache_beam.runners.portability.fn_api_runner import fn_runner_test
from apache_beam.testing import test_stream_test

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
#: `tests/room/test_x.py`, or `tests/room/test_x.py::test_name`
OURS = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
BEAMS = re.compile(r"`(FnApiRunnerTest|TestStreamTest)\.(\w+)`")
SUITES = {
    "FnApiRunnerTest": fn_runner_test.FnApiRunnerTest,
    "TestStreamTest": test_stream_test.TestStreamTest,
}


def missing(page: str) -> list[str]:
    """The tests that a page names and that are not there."""
    lost = []
    for path, name in OURS.findall(page):
        file = ROOT / path
        if not file.exists():
            lost.append(path)
        elif name and not re.search(rf"^\s*def {name}\(", file.read_text(), flags=re.MULTILINE):
            lost.append(f"{path}::{name}")
    lost += [f"{suite}.{name}" for suite, name in BEAMS.findall(page)
             if not hasattr(SUITES[suite], name)]
    return lost


def rows(page: str) -> list[tuple[str, str, str]]:
    """The rows of a page's tables of three columns, without their heads."""
    found = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ?([^|]*?) ?\|$", page, flags=re.MULTILINE)
    return [row for row in found if row[0] != "feature"]


@pytest.mark.parametrize("path", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_test_that_a_page_names_is_there(path: Path) -> None:
    assert not missing(path.read_text(encoding="utf-8"))


def test_every_feature_that_is_said_to_work_has_a_test() -> None:
    features = rows((ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8"))
    assert len(features) > 40
    bare = [feature for feature, state, shown in features
            if not state.startswith("no") and not (OURS.search(shown) or BEAMS.search(shown))]
    assert not bare


def test_a_test_that_is_not_there_is_found() -> None:
    names = ["tests/docs/test_facts.py::test_nothing", "tests/none.py", "FnApiRunnerTest.test_no"]
    assert missing(" ".join(f"`{name}`" for name in names)) == names
