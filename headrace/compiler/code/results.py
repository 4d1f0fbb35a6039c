"""What a call gives, seen from the element.

Takes a call and a reader that knows what values mean. Beam's carriers of outputs, records, and the
functions of the standard library that hand a value on are known; other calls are followed by the
reader. Never runs the code it reads.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import operator
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from headrace.compiler.code.names import MISSING, Names
from headrace.compiler.code.values import (
    Is,
    Kind,
    Parts,
    Value,
    as_dict,
    attribute,
    dict_of,
    item,
    joined,
    record_of,
    replaced,
    tuple_of,
)

# Beam's carriers of an output value, and which argument is the value.
_CARRIERS: tuple[tuple[object, int], ...] = (
    (beam.pvalue.TaggedOutput, 1),
    (TimestampedValue, 0),
    (WindowedValue, 0),
    (GlobalWindows.windowed_value, 0),
)
#: The same by name, for those that a function imports itself.
_CARRIER_NAMES = {"TaggedOutput": 1, "TimestampedValue": 0, "WindowedValue": 0}


class Calls(Protocol):
    """Knows what expressions mean, and what is given to calls."""

    names: Names

    def what(self, value: ast.expr) -> Value:
        """What the value of an expression is."""

    def each(self, value: ast.expr) -> Value:
        """What every item of an iterable is."""

    def arguments(self, call: ast.Call) -> tuple[list[Value], dict[str, Value], bool]:
        """What a call gives by position and by name, and whether more may follow."""

    def followed(self, call: ast.Call) -> Value:
        """What the function that is called returns."""

    def imported(self, name: str) -> str:
        """The package from which a function itself imports a name; empty: it does not."""


def result_of(reader: Calls, call: ast.Call) -> Value:
    """What a call gives."""
    func = call.func
    target = reader.names.value(func)
    at = _carrier(reader, func, target)
    args, named, more = reader.arguments(call)
    if at is not None:
        return args[at] if len(args) > at else named.get("value", Is.UNCLEAR)
    if target is MISSING:
        found = _method(reader, call, args, named)
        return reader.followed(call) if found is None else found
    if isinstance(target, type):
        return _constructed(reader, call, target)
    if args and (not more or isinstance(target, operator.itemgetter | operator.attrgetter)):
        known = _known(reader, call, target, args, named)
        if known is not None:
            return known
    return reader.followed(call)


def _carrier(reader: Calls, func: ast.expr, target: object) -> int | None:
    for carrier, at in _CARRIERS:
        if target is carrier:
            return at
    if target is MISSING:
        root = func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and reader.imported(root.id).startswith("apache_beam"):
            name = func.attr if isinstance(func, ast.Attribute) else root.id
            return _CARRIER_NAMES.get(name)
    return None


def _constructed(reader: Calls, call: ast.Call, target: type) -> Value:
    args, named, more = reader.arguments(call)
    if target is tuple and len(call.args) == 1 and not more:
        return _as_tuple(reader, call.args[0], args[0])
    if target is dict:
        return _as_dict(call, args, named)
    if target is beam.Row:
        unknown = any(k.arg is None for k in call.keywords)
        fields = {} if unknown else named
        return Parts(Kind.OPEN_RECORD, tuple(fields.values()), tuple(fields), unknown)
    if more or any(k.arg is None for k in call.keywords):
        return Is.UNCLEAR
    found = record_of(target, tuple(args), named)
    if found is Is.UNCLEAR and target in (str, int, float, bool, list, set, frozenset, bytes):
        return Is.OTHER if target in (list, set, frozenset) else Is.UNCLEAR
    return found


def _as_tuple(reader: Calls, given: ast.expr, value: Value) -> Value:
    if isinstance(given, ast.List):
        return reader.what(ast.Tuple(elts=given.elts, ctx=ast.Load()))
    if isinstance(value, Parts):
        return tuple_of(value.items, more=value.more) if value.kind is Kind.TUPLE else Is.UNCLEAR
    return Is.ELEMENT if value is not Is.UNCLEAR and value not in (Is.KEY, Is.OTHER) else Is.UNCLEAR


def _as_dict(call: ast.Call, args: list[Value], named: dict[str, Value]) -> Value:
    unknown = any(k.arg is None for k in call.keywords)
    if not call.args and not unknown:
        return dict_of(named, named.values())
    if len(args) == 1 and isinstance(args[0], Parts) and args[0].kind is Kind.DICT and not unknown:
        made = dict(zip(args[0].names, args[0].items, strict=True)) | named
        return dict_of(made, made.values(), more=args[0].more)
    return Is.UNCLEAR


def _known(
    reader: Calls, call: ast.Call, target: object, args: list[Value], named: dict[str, Value]
) -> Value | None:
    """What a function of the standard library gives; None: it is not one of those known."""
    if target is typing.cast and len(args) == 2:
        return args[1]
    if target in (copy.copy, copy.deepcopy):
        return args[0]
    if target is dataclasses.replace:
        spread = any(k.arg is None for k in call.keywords)
        return Is.UNCLEAR if spread else replaced(args[0], named)
    if target is next:
        return joined([reader.each(call.args[0]), *args[1:]])
    if target is getattr and len(call.args) == 2 and isinstance(call.args[1], ast.Constant):
        return attribute(args[0], str(call.args[1].value))
    if isinstance(target, operator.itemgetter | operator.attrgetter):
        return _gotten(target, args[0])
    return None


def _gotten(getter: Any, value: Value) -> Value:
    _, wanted = getter.__reduce__()
    found = [
        item(value, w) if isinstance(getter, operator.itemgetter) else attribute(value, w)
        for w in wanted
    ]
    return found[0] if len(found) == 1 else tuple_of(found)


def _method(
    reader: Calls, call: ast.Call, args: list[Value], named: dict[str, Value]
) -> Value | None:
    """What a method of a local value gives; None: nothing is known of it."""
    func = call.func
    if isinstance(func, ast.Call):
        getters = (operator.itemgetter, operator.attrgetter)
        getter = reader.names.value(func.func)
        wanted = [a.value for a in func.args if isinstance(a, ast.Constant)]
        if any(getter is g for g in getters) and wanted and len(wanted) == len(func.args) and args:
            return _gotten(getter(*wanted), args[0])  # type: ignore[operator]
        return None
    if not isinstance(func, ast.Attribute):
        return None
    value = reader.what(func.value)
    match func.attr:
        case "_replace" if not any(k.arg is None for k in call.keywords):
            return replaced(value, named)
        case "_asdict":
            return as_dict(value)
        case "copy" if isinstance(value, Parts) and not args:
            return value
        case "get" if isinstance(value, Parts) and value.kind is Kind.DICT and call.args:
            key = call.args[0]
            return item(value, key.value) if isinstance(key, ast.Constant) else Is.UNCLEAR
        case _:
            return None


def imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that a function imports itself, each with the module it is from."""
    for n in nodes:
        if isinstance(n, ast.ImportFrom):
            yield from ((a.asname or a.name, n.module or "") for a in n.names)
        elif isinstance(n, ast.Import):
            yield from ((a.asname or a.name.partition(".")[0], a.name) for a in n.names)
