"""The functions and methods of Python that an expression may call, each with what it gives.

Takes a name and the kinds of the arguments, gives the kind of the result, or none: then the call is
not one that can be computed on columns. Each function is named with Python's own, so that a worker
that has no faster way calls just that. All of them are pure, and ask for their arguments alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.plan.expressions import Operation
from headrace.plan.shapes import ScalarKind

Kinds: TypeAlias = tuple[ScalarKind, ...]
Result: TypeAlias = Callable[[Kinds], ScalarKind | None]

_BOOL, _INT, _FLOAT = ScalarKind.BOOL, ScalarKind.INT, ScalarKind.FLOAT
_TEXT, _BYTES, _NONE = ScalarKind.TEXT, ScalarKind.BYTES, ScalarKind.NONE
_WHOLE = frozenset({_BOOL, _INT})
NUMBERS = frozenset({_BOOL, _INT, _FLOAT})
_PLAIN = NUMBERS | {_TEXT, _NONE}


@dataclass(frozen=True, slots=True)
class KnownFunction:
    """A function of Python's."""

    call: Callable[..., Any]
    result: Result  # the kind of the result for arguments of these kinds; None: not known


def result_kind(name: str, kinds: Kinds) -> ScalarKind | None:
    """What a call gives; None: it is not one that can be computed on columns."""
    known = FUNCTIONS.get(name)
    return None if known is None else known.result(kinds)


# What stands for an operator or a form of Python's that is no function ----------------------------


def _cut(text: str, start: int | None, stop: int | None, step: int | None) -> str:
    return text[start:stop:step]


def _item(text: str, place: int) -> str:
    return text[place]


def _contains(needle: str, text: str) -> bool:
    return needle in text


def _split_item(text: str, separator: str | None, most: int, place: int) -> str:
    return text.split(separator, most)[place]


def _split_part(text: str, separator: str | None, most: int, size: int, place: int) -> str:
    parts = text.split(separator, most)
    if len(parts) != size:
        raise ValueError
    return parts[place]


def _filled(template: str, *values: object) -> str:
    return template % values


# Results ------------------------------------------------------------------------------------------


def _takes(*kinds: frozenset[ScalarKind], gives: ScalarKind, least: int | None = None) -> Result:
    """Arguments of these kinds; those after the first `least` may be left out."""
    first = len(kinds) if least is None else least

    def result(given: Kinds) -> ScalarKind | None:
        fits = first <= len(given) <= len(kinds)
        return gives if fits and all(g in k for g, k in zip(given, kinds, strict=False)) else None

    return result


def _least_or_greatest(kinds: Kinds) -> ScalarKind | None:
    same = len(kinds) > 1 and len(set(kinds)) == 1
    return kinds[0] if same and kinds[0] in (_INT, _FLOAT, _TEXT, _BYTES) else None


def _absolute(kinds: Kinds) -> ScalarKind | None:
    return _number(kinds[0]) if len(kinds) == 1 and kinds[0] in NUMBERS else None


def _rounded(kinds: Kinds) -> ScalarKind | None:
    if not kinds or kinds[0] not in NUMBERS or len(kinds) > 2:
        return None
    if len(kinds) == 1:
        return _INT
    return _number(kinds[0]) if kinds[1] in _WHOLE else None


def _number(kind: ScalarKind) -> ScalarKind:
    return _FLOAT if kind is _FLOAT else _INT


def _filling(kinds: Kinds) -> ScalarKind | None:
    return _TEXT if kinds and kinds[0] is _TEXT and set(kinds) <= _PLAIN else None


_T, _I = frozenset({_TEXT}), frozenset({_INT})
_I_OR_NONE, _T_OR_NONE = frozenset({_INT, _NONE}), frozenset({_TEXT, _NONE})


def _text(name: str, *kinds: frozenset[ScalarKind], gives: ScalarKind = _TEXT, least: int = 0) -> (
    tuple[str, KnownFunction]
):
    result = _takes(_T, *kinds, gives=gives, least=1 + least)
    return f"str.{name}", KnownFunction(getattr(str, name), result)


def _math(name: str, gives: ScalarKind = _FLOAT, arguments: int = 1) -> tuple[str, KnownFunction]:
    result = _takes(*[NUMBERS] * arguments, gives=gives)
    return f"math.{name}", KnownFunction(getattr(math, name), result)


FUNCTIONS: dict[str, KnownFunction] = dict([
    ("len", KnownFunction(len, _takes(frozenset({_TEXT, _BYTES}), gives=_INT))),
    ("abs", KnownFunction(abs, _absolute)),
    ("min", KnownFunction(min, _least_or_greatest)),
    ("max", KnownFunction(max, _least_or_greatest)),
    ("round", KnownFunction(round, _rounded)),
    ("int", KnownFunction(int, _takes(NUMBERS | {_TEXT}, gives=_INT))),
    ("float", KnownFunction(float, _takes(NUMBERS | {_TEXT}, gives=_FLOAT))),
    ("str", KnownFunction(str, _takes(_PLAIN, gives=_TEXT))),
    ("repr", KnownFunction(repr, _takes(_PLAIN | {_BYTES}, gives=_TEXT))),
    ("ascii", KnownFunction(ascii, _takes(_PLAIN | {_BYTES}, gives=_TEXT))),
    ("format", KnownFunction(format, _takes(_PLAIN, _T, gives=_TEXT))),
    ("ord", KnownFunction(ord, _takes(frozenset({_TEXT, _BYTES}), gives=_INT))),
    ("chr", KnownFunction(chr, _takes(_WHOLE, gives=_TEXT))),
    ("cut", KnownFunction(_cut, _takes(_T, *[_I_OR_NONE] * 3, gives=_TEXT))),
    ("item", KnownFunction(_item, _takes(_T, _I, gives=_TEXT))),
    ("contains", KnownFunction(_contains, _takes(_T, _T, gives=_BOOL))),
    ("split_item", KnownFunction(_split_item, _takes(_T, _T_OR_NONE, _I, _I, gives=_TEXT))),
    ("split_part", KnownFunction(_split_part, _takes(_T, _T_OR_NONE, _I, _I, _I, gives=_TEXT))),
    ("fill", KnownFunction(_filled, _filling)),
    *[_text(n) for n in ("upper", "lower", "title", "capitalize", "swapcase", "casefold")],
    *[_text(n, _T_OR_NONE) for n in ("strip", "lstrip", "rstrip")],
    *[_text(n, _T, least=1) for n in ("removeprefix", "removesuffix")],
    *[_text(n, _I, _T, least=1) for n in ("ljust", "rjust", "center")],
    *[_text(n, _T, _I, _I, gives=_BOOL, least=1) for n in ("startswith", "endswith")],
    *[_text(n, _T, _I, _I, gives=_INT, least=1)
      for n in ("find", "rfind", "index", "rindex", "count")],
    *[_text(n, gives=_BOOL)
      for n in ("isdigit", "isalpha", "isalnum", "isspace", "isupper", "islower", "isnumeric",
                "isdecimal", "istitle", "isidentifier", "isascii")],
    _text("zfill", _I, least=1),
    _text("replace", _T, _T, _I, least=2),
    _text("encode", _T, _T, gives=_BYTES),
    ("bytes.decode", KnownFunction(
        bytes.decode, _takes(frozenset({_BYTES}), _T, _T, gives=_TEXT, least=1))),
    *[_math(n) for n in ("sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos",
                         "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "fabs", "degrees",
                         "radians")],
    *[_math(n, arguments=2) for n in ("pow", "atan2", "hypot", "fmod", "copysign")],
    *[_math(n, _INT) for n in ("floor", "ceil", "trunc")],
    *[_math(n, _BOOL) for n in ("isnan", "isinf", "isfinite")],
])  # fmt: skip

#: Operators, as the functions that they call.
OPERATORS: dict[Operation, Callable[..., Any]] = {
    Operation.ADD: operator.add,
    Operation.SUBTRACT: operator.sub,
    Operation.MULTIPLY: operator.mul,
    Operation.DIVIDE: operator.truediv,
    Operation.FLOOR_DIVIDE: operator.floordiv,
    Operation.REMAINDER: operator.mod,
    Operation.AND_BITS: operator.and_,
    Operation.OR_BITS: operator.or_,
    Operation.XOR_BITS: operator.xor,
    Operation.SHIFT_RIGHT: operator.rshift,
    Operation.SHIFT_LEFT: operator.lshift,
    Operation.POWER: operator.pow,
    Operation.EQUAL: operator.eq,
    Operation.NOT_EQUAL: operator.ne,
    Operation.LESS: operator.lt,
    Operation.LESS_EQUAL: operator.le,
    Operation.GREATER: operator.gt,
    Operation.GREATER_EQUAL: operator.ge,
}
