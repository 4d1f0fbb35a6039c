"""What is shown of an exception of user code: the user's frames, the element's type, the place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.worker.batched.chains import augment
from headrace.worker.batched.gather import Gatherer
from headrace.worker.batched.steps import Results, Step
from headrace.worker.task.blame import MAX_LINES, blame


def caught(function: Any, *arguments: Any) -> BaseException:
    """What user code raises, as a task catches it: with the step in its message."""
    with pytest.raises(Exception) as outer:
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 (as batched chains do)
            assert error.__traceback__ is not None
            error.__traceback__ = error.__traceback__.tb_next  # this frame stands for ours
            augment(error, "Parse")
    return outer.value


def reads(line: str) -> int:
    return int(line)


def test_the_users_frames_are_shown_once_and_without_the_message() -> None:
    failure = caught(reads, "x")
    assert "[while running 'Parse']" in str(failure)
    told = blame(failure)
    assert told.short.count("in reads") == 1
    assert "int(line)" in told.short
    assert "invalid literal" not in told.short  # Python prints it below
    assert "batched chains.py" not in told.short


def test_the_place_is_the_users_own_last_line_and_not_the_librarys() -> None:
    def parse(text: str) -> Any:
        return json.loads(text)

    told = blame(caught(parse, "{"))
    assert told.place.startswith(__file__)
    assert told.place.endswith(", in parse")
    assert "json/decoder.py" in told.short


def generates(value: Any) -> Any:
    value = [value]  # what the function makes of its argument is not the element
    yield value[0]
    msg = "later"
    raise ValueError(msg)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(("element", "named"), [("x", "str"), (("k", 1), "(str, int)")])
def test_the_type_of_the_element_is_known_from_who_called(
    trusted: bool, element: Any, named: str
) -> None:
    gatherer = Gatherer(Step(function=generates, results=Results.STREAM), trusted)
    assert blame(caught(list, gatherer.over([element], False))).element == named


def test_an_element_that_nobody_holds_is_known_by_the_functions_argument() -> None:
    assert blame(caught(reads, "x")).element == "str"


class Bundles:
    def finish_bundle(self) -> None:
        msg = "no"
        raise ValueError(msg)


def test_where_there_is_no_element_none_is_named() -> None:
    assert blame(caught(Bundles().finish_bundle)).element == ""


def test_what_led_to_an_exception_comes_before_it() -> None:
    def wraps(line: str) -> int:
        try:
            return reads(line)
        except ValueError as error:
            msg = "not a line of ours"
            raise LookupError(msg) from error

    short = blame(caught(wraps, "x")).short
    first, second = short.split("The above exception was the direct cause")
    assert "ValueError: invalid literal" in first
    assert "in wraps" in second


def test_a_builtin_without_a_frame_of_the_users_keeps_the_last_frames() -> None:
    gatherer = Gatherer(Step(function=int, results=Results.MANY), False)
    told = blame(caught(list, gatherer.over(["x"], False)))
    assert "gather.py" in told.short
    assert (told.element, told.place) == ("str", "")


def test_a_deep_recursion_is_cut_in_the_middle() -> None:
    def even(n: int) -> Any:
        return odd(n - 1)

    def odd(n: int) -> Any:
        return even(n - 1) if n > 0 else reads("x")

    lines = blame(caught(even, 100)).short.splitlines()
    assert len(lines) == MAX_LINES
    assert any("lines left out" in line for line in lines)
    assert "in even" in lines[0] and "in reads" in "".join(lines[-3:])
