"""How measurements end: one list of words, the status they come to, the words of older files."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from headrace.lab.ending import Ending, exit_status, of_bars

LAB = Path(__file__).parents[2] / "headrace" / "lab"


@pytest.mark.parametrize(
    ("cleared", "wrong", "ending"),
    [
        ([], False, Ending.RIGHT),
        ([True, True], False, Ending.OK),
        ([True, False], False, Ending.MISSED),
        ([True], True, Ending.WRONG),
        ([], True, Ending.WRONG),
    ],
)
def test_a_wrong_answer_weighs_more_than_a_bar(
    cleared: list[bool], wrong: bool, ending: Ending
) -> None:
    assert of_bars(cleared, wrong=wrong) is ending
    assert ending.counts is not wrong


@pytest.mark.parametrize(
    ("endings", "status"),
    [
        ([], 0),
        ([Ending.RIGHT, Ending.OK, Ending.UNBROKEN, Ending.NOT_THERE, Ending.REFUSED], 0),
        ([Ending.OK, Ending.MISSED], 1),
        ([Ending.MISSED, Ending.WRONG], 2),
        ([Ending.FAILED], 2),
        ([Ending.TOO_SHORT], 2),
    ],
)
def test_the_status_of_a_command_is_that_of_its_worst(endings: list[Ending], status: int) -> None:
    assert exit_status(endings) == status


def test_the_words_of_older_files_are_read_on() -> None:
    words = {"no bar": Ending.RIGHT, "wrong": Ending.WRONG, "DIFFERENT": Ending.WRONG,
             "FAILED": Ending.FAILED, "ok": Ending.OK, "missed": Ending.MISSED,
             "right": Ending.RIGHT}
    assert {word: Ending(word) for word in words} == words
    with pytest.raises(ValueError, match="perhaps"):
        Ending("perhaps")


def test_what_all_experiments_speak_of_is_defined_once() -> None:
    shared = ("System", "Verdict", "Outcome", "Ending", "Figure", "Trial", "Request", "Meter")
    defined = Counter(
        node.name
        for path in LAB.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name: defined[name] for name in shared} == dict.fromkeys(shared, 1)
