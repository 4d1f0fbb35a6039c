"""What calling a function does, where functions call one another in many ways."""

from __future__ import annotations

from typing import Any
from unittest import mock

from headrace.compiler.code import effects as code_effects
from headrace.compiler.code import prover as code_prover
from headrace.compiler.code.calls import MOST_DEPTH
from headrace.compiler.code.effects import effects_of
from headrace.compiler.code.names import Names
from headrace.compiler.code.prover import Prover
from headrace.compiler.code.reader import Reader
from headrace.compiler.code.source import nodes_of
from headrace.compiler.code.subject import Emits
from headrace.compiler.code.values import Is

_SHARED: list[int] = []


def web_a(x: Any) -> Any:
    y = web_b(x)
    z = web_c(y)
    return web_d(z) or web_e(y) or web_a(x)


def web_b(x: Any) -> Any:
    y = web_c(x)
    z = web_d(y)
    return web_e(z) or web_a(y) or web_b(x)


def web_c(x: Any) -> Any:
    y = web_d(x)
    z = web_e(y)
    return web_a(z) or web_b(y) or web_c(x)


def web_d(x: Any) -> Any:
    y = web_e(x)
    z = web_a(y)
    return web_b(z) or web_c(y) or web_d(x)


def web_e(x: Any) -> Any:
    y = web_a(x)
    z = web_b(y)
    return web_c(z) or web_d(y) or web_e(x)


def test_functions_that_all_call_one_another_are_read_once_each() -> None:
    """Each way through them was read anew: of five functions, minutes; of a library, for ever."""
    readers = mock.Mock(wraps=Reader)
    with mock.patch.object(code_effects, "Reader", readers):
        found = effects_of(web_a)
    assert not found.writes
    assert readers.call_count <= 10 * len("abcde")


def down(x: int) -> list[int]:
    return [] if x == 0 else down(x - 1)


def to_the_shared(x: int) -> list[int]:
    return _SHARED if x == 0 else to_the_shared(x - 1)


def ping(x: int) -> list[int]:
    return _SHARED if x == 0 else pong(x - 1)


def pong(x: int) -> list[int]:
    return ping(x)


def fills_a_fresh_one(x: int) -> None:
    down(x).append(x)


def fills_the_shared_one(x: int) -> None:
    to_the_shared(x).append(x)


def fills_it_by_two(x: int) -> None:
    found = pong(x)
    found.append(x)


def step_1(x: int) -> list[int]:
    return step_2(x)


def step_2(x: int) -> list[int]:
    return step_3(x)


def step_3(x: int) -> list[int]:
    return step_4(x)


def step_4(x: int) -> list[int]:
    return step_5(x)


def step_5(x: int) -> list[int]:
    return step_6(x)


def step_6(x: int) -> list[int]:
    return step_7(x)


def step_7(x: int) -> list[int]:
    return step_8(x)


def step_8(x: int) -> list[int]:
    return step_9(x)


def step_9(x: int) -> list[int]:
    return step_10(x)


def step_10(_: int) -> list[int]:
    return _SHARED


def fills_from_far_down(x: int) -> None:
    found = step_1(x)
    found.append(x)


def test_a_function_that_calls_itself_returns_what_its_other_ways_return() -> None:
    assert not effects_of(fills_a_fresh_one).writes
    assert effects_of(fills_the_shared_one).writes
    assert effects_of(fills_it_by_two).writes


def test_what_lies_too_deep_to_be_read_may_be_shared() -> None:
    assert effects_of(fills_from_far_down).writes


def test_helpers_that_are_called_twice_each_are_read_once_for_each_depth() -> None:
    """Whose key comes back was asked along every way: 1,600 readings for a generator of events."""
    provers = mock.Mock(wraps=Prover)
    with mock.patch.object(code_prover, "Prover", provers):
        first: Any = web_a
        (node,) = nodes_of(first.__code__)
        found = Prover(node, {"x": Is.ELEMENT}, Names(first, None)).outputs(Emits.RESULT)
    assert found
    assert provers.call_count <= 5 * MOST_DEPTH * 3
