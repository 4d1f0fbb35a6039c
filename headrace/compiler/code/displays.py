"""What a tuple or dict that is written out holds, and what a call is given.

Takes expressions and a reader that knows what values mean, gives descriptions of values. Never runs
the code it reads.
"""

from __future__ import annotations

import ast
from typing import Protocol, TypeAlias

from headrace.compiler.code.values import Is, Kind, Parts, Value, dict_of, spread, tuple_of

#: What a call gives by position and by name, and whether more may follow.
Arguments: TypeAlias = tuple[list[Value], dict[str, Value], bool]


class Meanings(Protocol):
    """Knows what expressions mean."""

    def what(self, value: ast.expr) -> Value:
        """What the value of an expression is."""


def tuple_display(reader: Meanings, elts: list[ast.expr]) -> Value:
    """What `(a, *b, c)` is."""
    found: list[Value] = []
    for e in elts:
        if not isinstance(e, ast.Starred):
            found.append(reader.what(e))
            continue
        items, more = spread(reader.what(e.value))
        found += items
        if more:
            return tuple_of(found, more=True)
    return tuple_of(found)


def dict_display(
    reader: Meanings, keys: list[ast.expr | None], values: list[ast.expr]
) -> Value:
    """What `{"a": b, **c}` is."""
    found: dict[object, Value] = {}
    more = False
    for key, value in zip(keys, values, strict=True):
        inner = reader.what(value)
        if isinstance(key, ast.Constant):
            found[key.value] = inner
        elif key is None and isinstance(inner, Parts) and inner.kind is Kind.DICT:
            if inner.more:
                found, more = {}, True
            found |= dict(zip(inner.names, inner.items, strict=True))
        else:
            found, more = {}, True  # it may be one of those before
    return dict_of(found, found.values(), more=more)


def sum_of(a: Value, b: Value) -> Value:
    """What `a + b` is, for tuples."""
    (left, more_left), (right, more_right) = spread(a), spread(b)
    return Is.UNCLEAR if more_left or more_right else tuple_of((*left, *right))


def arguments(reader: Meanings, call: ast.Call) -> Arguments:
    """What a call is given."""
    args: list[Value] = []
    more = False
    for a in call.args:
        if not isinstance(a, ast.Starred):
            args.append(reader.what(a))
            continue
        items, more = spread(reader.what(a.value))
        args += items
        if more:
            break
    named: dict[str, Value] = {}
    for k in call.keywords:
        if k.arg is not None:
            named[k.arg] = reader.what(k.value)
            continue
        found = reader.what(k.value)
        if isinstance(found, Parts) and found.kind is Kind.DICT:
            named |= {str(n): v for n, v in zip(found.names, found.items, strict=True)}
    return args, named, more
