"""Facts that the pages repeat from the code: the steps of the commit, the runner's options."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

from headrace.runner import HeadraceOptions

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"^(\d)\. (.*)$", flags=re.MULTILINE)


def test_the_commit_has_the_same_numbered_steps_in_code_and_docs() -> None:
    module = ast.parse((ROOT / "headrace" / "engine" / "epoch_run.py").read_text(encoding="utf-8"))
    in_code = STEP.findall(ast.get_docstring(module) or "")
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("### The commit\n")[2].partition("\n### ")[0]
    in_docs = STEP.findall(section.replace("**", ""))
    assert [number for number, _ in in_code] == ["1", "2", "3", "4", "5"]
    assert in_docs == in_code
    gaps = re.findall(r"^\| (\d) \|", section, flags=re.MULTILINE)
    assert gaps == ["1", "2", "3", "4", "5"], "each step says what a crash after it does"


def test_the_readme_lists_every_option_of_the_runner_with_its_default() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    HeadraceOptions._add_argparse_args(parser)
    offered = {action.option_strings[0]: action.default for action in parser._actions}
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(--\w+)` \| [^|]+ \| ([^|]+) \|$", page, flags=re.MULTILINE))
    assert sorted(listed) == sorted(offered)
    for option, default in offered.items():
        if isinstance(default, int | float) and not isinstance(default, bool):
            said = re.match(r"\d+", listed[option])
            assert said is not None and int(said.group()) == default, option
