"""Runs the code blocks of README and docs, page by page.

A page is one story: its blocks run from top to bottom in one namespace and in a folder of their
own. A traceback names the page and its line, because the code is compiled under the page's path.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import pytest

from tests.docs.blocks import Block, Need, needed_modules, read_blocks

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def pages_with_code() -> list[object]:
    """One parameter for each page that has code; those that need a session carry its marker."""
    found: list[object] = []
    for path in PAGES:
        blocks = read_blocks(path.read_text(encoding="utf-8"))
        if blocks:
            needs_session = any(block.need is Need.SESSION for block in blocks)
            marks = [pytest.mark.spark] if needs_session else []
            name = str(path.relative_to(ROOT))
            found.append(pytest.param(path, blocks, marks=marks, id=name))
    return found


def run_block(block: Block, path: Path, namespace: dict[str, object]) -> str:
    """Run one block in the page's namespace and give what it printed."""
    # The empty lines put every statement on the line it has on the page.
    code = compile("\n" * (block.line - 1) + block.source, str(path), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


@pytest.mark.parametrize(("path", "blocks"), pages_with_code())
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(
    path: Path,
    blocks: tuple[Block, ...],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in needed_modules(path.read_text(encoding="utf-8")):
        pytest.importorskip(module, reason=f"the page needs the module {module}")
    # "__main__" makes the picklers send a page's functions by value, as they would a script's.
    namespace: dict[str, object] = {"__name__": "__main__"}
    if any(block.need is Need.SESSION for block in blocks):
        namespace["spark"] = request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        printed = run_block(block, path, namespace)
        if block.prints is not None:
            assert printed == block.prints, f"{path.relative_to(ROOT)}, line {block.line}"


def test_links_between_pages_lead_to_files_that_are_in_the_tree() -> None:
    broken = []
    for path in PAGES:
        for target in links_of(path.read_text(encoding="utf-8")):
            if not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)} -> {target}")
    assert not broken


def links_of(page: str) -> list[str]:
    """The relative targets of a page's links, without their anchors."""
    targets = [part.partition(")")[0] for part in page.split("](")[1:]]
    local = [target for target in targets if "://" not in target and not target.startswith("#")]
    return [os.path.normpath(target.partition("#")[0]) for target in local]


def test_a_failing_block_is_reported_at_its_line_on_the_page(tmp_path: Path) -> None:
    block = Block(line=7, source="x = 1\nraise ValueError(x)\n", need=Need.NOTHING, prints=None)
    with pytest.raises(ValueError, match="1") as caught:
        run_block(block, tmp_path / "page.md", {})
    last = caught.traceback[-1]
    assert (Path(last.path), last.lineno + 1) == (tmp_path / "page.md", 8)


def test_links_are_found_without_anchors_and_without_the_web() -> None:
    text = "[a](one.md) [b](two/x.md#part) [c](https://example.org/y) [d](#here)"
    assert links_of(text) == ["one.md", "two/x.md"]
