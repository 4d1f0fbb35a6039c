"""Where the ways through a function lead: to an output, to none, or apart.

Gives the one value, and the one condition for it, that all ends of a function come to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.compiler.lower import build
from headrace.plan.expressions import Expression


@dataclass(frozen=True, slots=True)
class Given:
    """An end with an output."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Nothing:
    """An end without an output, after what may have raised."""

    checks: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Fork:
    """Two ways, by the truth of a test."""

    test: Expression
    then: End
    otherwise: End


End: TypeAlias = Given | Nothing | Fork


def value_of(end: End) -> Expression:
    """The value at the end of every way, of a function that has one on each."""
    found = given_of(end)
    assert found is not None
    return found


def given_of(end: End) -> Expression | None:
    """The value at the end of every way that has an output; None: there is no such way."""
    match end:
        case Given(value=value):
            return value
        case Nothing():
            return None
        case Fork(test=asked, then=then, otherwise=otherwise):
            a, b = given_of(then), given_of(otherwise)
            if a is None or b is None:
                return b if a is None else a
            return build.choose(asked, a, b)


def kept_of(end: End) -> Expression:
    """Whether there is an output at the end of every way."""
    match end:
        case Given():
            return build.TRUE
        case Nothing(checks=checks):
            return build.checked(checks, build.FALSE)
        case Fork(test=asked, then=then, otherwise=otherwise):
            return build.choose(asked, kept_of(then), kept_of(otherwise))
