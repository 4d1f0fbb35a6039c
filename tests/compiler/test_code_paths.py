"""What is claimed of a function's number of outputs holds in every run of it.

The functions are made at random, of all statements that steer control, and run with random answers
to each question that they ask. What they do is the oracle: the analysis only reads them.
HEADRACE_SLOW=1 makes four times as many.
"""

from __future__ import annotations

import ast
import contextlib
import random
import textwrap
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.code.items import Items
from headrace.compiler.code.paths import span_of
from headrace.compiler.code.source import is_generator
from headrace.compiler.code.spans import OPEN
from tests.places import SLOW


class Fault(Exception):
    """What the functions below raise and catch."""


class Quiet:
    """A context manager that may swallow what is raised in it, or fail as it is left."""

    def __init__(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def __enter__(self) -> None:
        return None

    def __exit__(self, *raised: object) -> bool:
        if self._asked():
            raise Fault
        return self._asked()


def counts(text: str, answers: Iterator[bool], *, runs: int = 120) -> list[int]:
    """Run a function again and again; give how many outputs came, where it ended well."""
    def asked() -> bool:
        return next(answers, False)

    def may_fail() -> int:
        if asked():
            raise Fault
        return 0

    space: dict[str, Any] = {
        "asked": asked, "may_fail": may_fail, "Fault": Fault, "Quiet": lambda: Quiet(asked),
        "suppress": contextlib.suppress,
    }
    exec(text, space)
    found = []
    for _ in range(runs):
        with contextlib.suppress(Fault):
            found.append(len(list(space["f"]() or ())))
    return found


def claimed(text: str) -> tuple[int, int]:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    span = span_of(node, Items(node, None, span_of))
    return span.low, span.high


def check(text: str, seed: int) -> None:
    drawn = random.Random(seed)
    low, high = claimed(text)
    for number in counts(text, iter(lambda: drawn.random() < 0.4, None)):
        assert low <= number <= high, f"{number} outputs, claimed {low} to {high}\n{text}"


SIMPLE = ["yield 1", "yield may_fail()", "may_fail()", "x = yield 2", "yield from (1, 2)", "pass",
          "return", "raise Fault", "asked() and (yield 3)", "yield (yield 4)",
          "x = 1 if asked() else (yield 5)", "assert asked() or may_fail() == 0"]  # fmt: skip
IN_LOOP = [*SIMPLE, "break", "continue"]


def blocks(*, depth: int, loop: bool) -> st.SearchStrategy[str]:
    simple = st.sampled_from(IN_LOOP if loop else SIMPLE)
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=3).map("\n".join)
    inner = blocks(depth=depth - 1, loop=loop)
    looped = blocks(depth=depth - 1, loop=True)

    def indented(*parts: tuple[str, str]) -> str:
        return "\n".join(f"{head}:\n{textwrap.indent(body, '  ')}" for head, body in parts)

    compound = st.one_of(
        st.builds(lambda a: indented(("if asked()", a)), inner),
        st.builds(lambda a, b: indented(("if asked()", a), ("else", b)), inner, inner),
        st.builds(lambda a: indented(("for _ in range(2)", a)), looped),
        st.builds(lambda a, b: indented(("for _ in range(2)", a), ("else", b)), looped, inner),
        st.builds(lambda a: indented(("for _ in (1,)", a)), looped),
        st.builds(lambda a, b: indented(("for _ in (1,)", a), ("else", b)), looped, inner),
        st.builds(lambda a: indented(("for _ in [1] if asked() else []", a)), looped),
        st.builds(lambda a: indented(("while asked()", a)), looped),
        st.builds(lambda a, b: indented(("try", a), ("except Fault", b)), inner, inner),
        st.builds(
            lambda a, b, c: indented(("try", a), ("except Fault", b), ("else", c)),
            inner, inner, inner,
        ),
        st.builds(lambda a, b: indented(("try", a), ("finally", b)), inner, inner),
        st.builds(
            lambda a, b, c: indented(("try", a), ("except Fault", b), ("finally", c)),
            inner, inner, inner,
        ),
        st.builds(lambda a: indented(("with suppress(Fault)", a)), inner),
        st.builds(lambda a: indented(("with Quiet()", a)), inner),
        st.builds(
            lambda a, b: f"match asked():\n  case True:\n{textwrap.indent(a, '    ')}\n"
            f"  case _ if asked():\n{textwrap.indent(b, '    ')}",
            inner, inner,
        ),
        st.builds(
            lambda a, b: f"match asked():\n  case True:\n{textwrap.indent(a, '    ')}\n"
            f"  case _:\n{textwrap.indent(b, '    ')}",
            inner, inner,
        ),
    )
    return st.lists(st.one_of(simple, compound), min_size=1, max_size=3).map("\n".join)


def functions() -> st.SearchStrategy[str]:
    return blocks(depth=3, loop=False).map(
        lambda body: f"def f():\n{textwrap.indent(body, '  ')}\n  return\n  yield"
    )


@settings(max_examples=400 if SLOW else 100, deadline=None)
@given(functions(), st.integers(0, 1 << 30))
def test_no_run_makes_other_numbers_than_were_claimed(text: str, seed: int) -> None:
    check(text, seed)


RETURNS = ["return [1]", "return []", "return None", "return [may_fail()]", "return (1, 2)",
           "return [1] if asked() else None", "may_fail()", "raise Fault", "pass",
           "return {1, 1}", "return [y for y in (1, 2) if y > 1]", "return {1: 2}"]  # fmt: skip


@settings(max_examples=200 if SLOW else 50, deadline=None)
@given(st.data(), st.integers(0, 1 << 30))
def test_the_same_of_functions_that_return_what_they_put_out(data: Any, seed: int) -> None:
    with_returns = blocks(depth=2, loop=False).map(
        lambda body: "\n".join(
            line if "yield" not in line else
            " " * (len(line) - len(line.lstrip()))
            + RETURNS[zlib.crc32(line.encode()) % len(RETURNS)]
            for line in body.splitlines()
        ).replace("return\n", "return None\n")
    )
    text = f"def f():\n{textwrap.indent(data.draw(with_returns), '  ')}\n  return [1]"
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef) and not is_generator(tree)
    check(text, seed)


FILLS = ["out.append(1)", "out.append(may_fail())", "out.extend((1, 2))", "out += [may_fail()]",
         "out.extend([1] if asked() else [])", "return out", "return sorted(out)", "return [1]",
         "return None", "out.insert(0, 1)", "if out:\n  may_fail()", "may_fail()"]  # fmt: skip


@settings(max_examples=300 if SLOW else 75, deadline=None)
@given(st.data(), st.integers(0, 1 << 30))
def test_the_same_of_functions_that_fill_a_list(data: Any, seed: int) -> None:
    def filling(line: str) -> str:
        indent = " " * (len(line) - len(line.lstrip()))
        return textwrap.indent(FILLS[zlib.crc32(line.encode()) % len(FILLS)], indent)

    body = data.draw(blocks(depth=2, loop=False))
    lines = (filling(n) if "yield" in n or "return" in n else n for n in body.splitlines())
    made = data.draw(st.sampled_from(["[]", "[1]", "list()", "[may_fail()]"]))
    inside = textwrap.indent("\n".join([f"out = {made}", *lines]), "  ")
    check(f"def f():\n{inside}\n  return out", seed)


FILLING = {
    "one or none": ("out = []\nif asked():\n  out.append(1)\nreturn out", 0, 1),
    "always one": ("out: list = []\nout.append(1)\nreturn out", 1, 1),
    "one of two": ("out = []\nif asked():\n  out.append(1)\nelse:\n  out += [2]\nreturn out", 1, 1),
    "another list": ("out = []\nout.append(1)\nif asked():\n  return []\nreturn out", 0, 1),
    "two names": ("out = []\nmore = out\nmore.append(1)\nout.append(2)\nreturn out", 0, OPEN),
    "made anew": ("out = [1]\nif asked():\n  out = []\nreturn out", 0, OPEN),
    "in an expression": ("out = []\n[out.append(x) for x in (1, 2)]\nreturn out", 0, OPEN),
    "taken from": ("out = [1]\nout.pop()\nreturn out", 0, OPEN),
    "a part of it": ("out = [1]\nout.append(2)\nreturn out[:1]", 0, OPEN),
}


@pytest.mark.parametrize("case", FILLING)
def test_a_list_that_is_filled_and_returned_is_counted(case: str) -> None:
    body, low, high = FILLING[case]
    text = f"def f():\n{textwrap.indent(body, '  ')}"
    assert claimed(text) == (low, high)
    check(text, 1)


#: Code on which the counts went wrong, or could: what it is, and the numbers that can come.
CASES = {
    "an output, then a raise that is caught": (
        """
        try:
          yield 1
          raise Fault
        except Fault:
          yield 2
        """, 2, 2,
    ),
    "an output, then a check that may raise": (
        """
        try:
          yield 1
          may_fail()
        except Fault:
          yield 2
        """, 1, 2,
    ),
    "an output whose making may raise": (
        """
        try:
          yield may_fail()
        except Fault:
          yield 2
        """, 1, 1,
    ),
    "a raise that a manager swallows": (
        """
        with suppress(Fault):
          raise Fault
        yield 1
        yield 2
        """, 2, 2,
    ),
    "a manager that fails as it is left": (
        """
        try:
          with Quiet():
            yield 1
        except Fault:
          yield 2
        """, 1, 2,
    ),
    "a break with an output, before a return": (
        """
        for _ in range(2):
          if asked():
            yield 1
            break
          return
        yield 2
        """, 0, 2,
    ),
    "an endless loop that is left with its output": (
        """
        while True:
          if asked():
            yield 1
            break
          if asked():
            continue
        """, 1, 1,
    ),
    "a break in finally, which swallows": (
        """
        for _ in range(2):
          try:
            yield 1
            raise Fault
          finally:
            break
        """, 0, OPEN,
    ),
    "the first that fits": (
        """
        for _ in range(2):
          if asked():
            yield 1
            return
        """, 0, 1,
    ),
    "a comparison that is cut short": ("1 < 0 < (yield 1)", 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_claimed_of_known_traps(case: str) -> None:
    body, low, high = CASES[case]
    text = f"def f():\n{textwrap.indent(textwrap.dedent(body).strip(), '  ')}\n  return\n  yield"
    check(text, 0)
    assert claimed(text) == (low, high)
