"""The reader of Markdown pages, on pages written by hand."""

from __future__ import annotations

import pytest

from tests.docs.blocks import Block, Need, PageError, needed_modules, read_blocks


def page(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_a_block_knows_its_line_its_need_and_its_output() -> None:
    text = page(
        "# Title",
        "",
        "```python",
        "print(1)",
        "print(2)",
        "```",
        "gives",
        "```text output",
        "1",
        "2",
        "```",
        "```python session",
        "spark.range(1)",
        "```",
    )
    assert read_blocks(text) == (
        Block(line=4, source="print(1)\nprint(2)\n", need=Need.NOTHING, prints="1\n2\n"),
        Block(line=13, source="spark.range(1)\n", need=Need.SESSION, prints=None),
    )


def test_other_languages_and_plain_text_are_left_alone() -> None:
    text = page("```sh", "rm -r x", "```", "```text", "a => b", "```", "```", "```")
    assert read_blocks(text) == ()


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["```python sesion", "x", "```"], "line 1: unknown words after python: sesion"),
        (["", "```text outputs", "x", "```"], "line 2: unknown words after text: outputs"),
        (["```text output", "x", "```"], "line 1: output with no code above it"),
        (["text", "```python", "x = 1"], "line 2: the fence is never closed"),
        (
            ["```python", "```", "```text output", "```", "```text output", "```"],
            "line 5: output with no code above it",
        ),
    ],
    ids=["misspelt need", "misspelt output", "output first", "open fence", "two outputs"],
)
def test_a_page_that_could_hide_an_example_is_refused(lines: list[str], fault: str) -> None:
    with pytest.raises(PageError, match=f"^{fault}$"):
        read_blocks(page(*lines))


def test_a_page_names_the_modules_that_it_needs() -> None:
    text = page("# Title", "<!-- needs: one, two.three -->", "words")
    assert needed_modules(text) == ("one", "two.three")
    assert needed_modules(page("# T")) == ()
