"""Refuses arguments of operators that are outside their domain, when the operator is made.

Takes the argument's name and value, gives the value back. Knows no operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.errors import OptionError


def whole(name: str, value: Any, most: int | None = None) -> int:
    """Give back a whole number from 1 up, or up to `most`.

    >>> whole("size", 0)
    Traceback (most recent call last):
    headrace.errors.OptionError: size=0 is outside its domain: a whole number from 1 up
    """
    if type(value) is int and value >= 1 and (most is None or value <= most):
        return value
    raise _outside(name, value, f"a whole number from 1 {'up' if most is None else f'to {most}'}")


def integer(name: str, value: Any) -> int:
    """Give back a whole number."""
    if type(value) is int:
        return value
    raise _outside(name, value, "a whole number")


def seconds(name: str, value: Any) -> float:
    """Give back a length of time: at least Beam's tick of a millisecond, and finite."""
    if isinstance(value, (int, float)) and type(value) is not bool:
        if 0.001 <= value < math.inf:
            return value
    raise _outside(name, value, "a finite number of seconds, 0.001 or more")


def function(name: str, value: Any) -> Callable[..., Any]:
    """Give back what can be called."""
    if callable(value):
        return value  # type: ignore[no-any-return]
    raise _outside(name, value, "a function")


def function_or_none(name: str, value: Any) -> Callable[..., Any] | None:
    """Give back what can be called, or None."""
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    raise _outside(name, value, "a function or None")


def _outside(name: str, value: Any, domain: str) -> OptionError:
    return OptionError(f"{name}={value!r} is outside its domain: {domain}")
