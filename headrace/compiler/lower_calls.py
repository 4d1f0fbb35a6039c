"""Turns calls into expressions: known functions and methods, records, helpers of the same kind.

Takes a reader and a call, gives what the call gives. A helper whose text is at hand is read in its
place, with its arguments; anything else is refused by its name and line. Calls nothing of the
user's.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import math
import string
from collections.abc import Mapping, Sequence
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import apache_beam as beam

from headrace.compiler import lower_build as build
from headrace.compiler.code_names import spelled
from headrace.compiler.code_values import is_plain_dataclass, tuple_fields
from headrace.compiler.lower_build import constant, kind_of
from headrace.compiler.lower_expressions import Reader
from headrace.compiler.lower_operands import (
    Bound,
    Listed,
    Operand,
    Split,
    Thing,
    as_expression,
    operand_of,
    refuse,
)
from headrace.compiler.lower_raising import may_raise
from headrace.compiler.lower_shapes import class_of_record, record_of_class, row_record
from headrace.plan.expressions import Constant, Construct, Expression, Operation
from headrace.plan.functions import FUNCTIONS
from headrace.plan.shapes import RecordShape, ScalarKind, ScalarShape

#: Functions of Python's own that have a name in `plan.functions`.
_KNOWN: dict[object, str] = {
    **{getattr(builtins, n): n for n in FUNCTIONS if hasattr(builtins, n)},
    **{getattr(math, n.removeprefix("math.")): n for n in FUNCTIONS if n.startswith("math.")},
    **{getattr(str, n.removeprefix("str.")): n for n in FUNCTIONS if n.startswith("str.")},
}
_TYPES: dict[type, frozenset[ScalarKind]] = {
    int: frozenset({ScalarKind.INT, ScalarKind.BOOL}),
    bool: frozenset({ScalarKind.BOOL}),
    float: frozenset({ScalarKind.FLOAT}),
    str: frozenset({ScalarKind.TEXT}),
    bytes: frozenset({ScalarKind.BYTES}),
}
_EXACT: dict[type, ScalarKind] = {
    int: ScalarKind.INT, bool: ScalarKind.BOOL, float: ScalarKind.FLOAT, str: ScalarKind.TEXT,
    bytes: ScalarKind.BYTES,
}  # fmt: skip
MOST_DEPTH = 8


def known_name(target: object) -> str | None:
    """The name by which expressions know a function of Python's own."""
    return _KNOWN.get(target) if _is_hashable(target) else None


def lower_call(reader: Reader, node: ast.Call) -> Operand:
    """What a call gives."""
    if any(isinstance(a, ast.Starred) for a in node.args) or any(
        k.arg is None for k in node.keywords
    ):
        refuse(f"calls {spelled(node.func)} with starred arguments", node)
    target = reader.operand(node.func)
    args = [reader.operand(a) for a in node.args]
    named = {str(k.arg): reader.operand(k.value) for k in node.keywords}
    for given in (*args, *named.values()):
        reader.note(given)  # evaluated before the call, whether the helper uses it or not
    if isinstance(target, Bound):
        return _method(reader, target, args, named, node)
    if isinstance(target, Thing):
        return _called(reader, target.value, args, named, node)
    refuse(f"calls {spelled(node.func)}", node)


def _called(
    reader: Reader,
    target: object,
    args: list[Operand],
    named: dict[str, Operand],
    node: ast.Call,
) -> Operand:
    if target is isinstance and len(args) == 2 and not named:
        return _is_instance(as_expression(args[0], node), args[1], node)
    if target is bool and len(args) == 1 and not named:
        return build.truth(as_expression(args[0], node))
    if target is pow and len(args) == 2 and not named:
        a, b = (as_expression(x, node) for x in args)
        return build.binary(Operation.POWER, a, b)
    if target is getattr and len(args) == len(node.args) == 2 and not named:
        name = args[1].value if isinstance(args[1], Constant) else None
        if isinstance(name, str) and not name.startswith("__"):
            field = ast.Attribute(node.args[0], name, ast.Load())
            return reader.operand(ast.copy_location(field, node))
    known = known_name(target)
    if known is not None and args and not named:
        return build.call(known, [as_expression(a, node) for a in args])
    if target is tuple and len(args) == 1 and isinstance(args[0], Construct | Listed):
        return build.construct([as_expression(i, node) for i in args[0].items])
    if target is type and len(args) == 1 and not named:
        return _type_of(as_expression(args[0], node), node)
    if isinstance(target, BuiltinMethodType) and type(target.__self__) is dict:
        # A method that somebody took from a table, as in `find = table.get`.
        return _method_of_thing(reader, target.__self__, target.__name__, args, named, node)
    if isinstance(target, type):
        return _record(target, args, named, node)
    if isinstance(target, functools.partial):
        given = [operand_of(a) for a in target.args]
        return _called(
            reader, target.func, [*given, *args],
            {**{k: operand_of(v) for k, v in target.keywords.items()}, **named}, node,
        )  # fmt: skip
    if isinstance(target, FunctionType):
        return inlined(reader, target, None, args, named, node)
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        return inlined(reader, target.__func__, target.__self__, args, named, node)
    refuse(f"calls {spelled(node.func)}", node)


def inlined(
    reader: Reader,
    function: FunctionType,
    owner: object | None,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    node: ast.AST,
) -> Expression:
    """What a helper gives for these arguments."""
    # Statements hold expressions and expressions hold calls: the circle is closed here.
    from headrace.compiler.lower_statements import result_of

    if reader.depth >= MOST_DEPTH:
        refuse(f"calls {function.__name__}, too deep inside others,", node)
    return result_of(function, owner, args, named, node, reader.depth + 1)


def _is_hashable(target: object) -> bool:
    try:
        hash(target)
    except TypeError:
        return False
    return True


def _is_instance(value: Expression, asked: Operand, node: ast.Call) -> Expression:
    kinds = asked.value if isinstance(asked, Thing) else None
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    kind = kind_of(value)
    if not all(isinstance(w, type) and w in _TYPES for w in wanted) or kind in (
        None, ScalarKind.OTHER, ScalarKind.TIMESTAMP
    ):  # fmt: skip
        refuse(f"asks {spelled(node)}", node)
    if not any(kind in _TYPES[w] for w in wanted if isinstance(w, type)):
        return build.checked([value], build.FALSE)
    return build.negated(build.is_none(value))


def _type_of(value: Expression, node: ast.Call) -> Operand:
    """`type(value)`, where one type is certain."""
    shape = value.shape
    if isinstance(shape, RecordShape):
        found = class_of_record(shape)
        if found is not None and not may_raise(value):
            return Thing(found)
    if isinstance(shape, ScalarShape) and not shape.nullable and not may_raise(value):
        exact = next((t for t, kinds in _EXACT.items() if kinds is shape.kind), None)
        if exact is not None:
            return Thing(exact)
    refuse(f"asks {spelled(node)}", node)


# Methods ------------------------------------------------------------------------------------------


def _method(
    reader: Reader,
    target: Bound,
    args: list[Operand],
    named: dict[str, Operand],
    node: ast.Call,
) -> Operand:
    base, name = target.base, target.name
    if isinstance(base, Thing):
        return _method_of_thing(reader, base.value, name, args, named, node)
    if isinstance(base, Construct) and isinstance(base.shape, RecordShape):
        if name == "_replace" and base.shape.is_tuple and not args:
            return _replaced(reader, base, base.shape, named, node)
        refuse(f"calls .{name} of {base.shape.name}", node)
    if isinstance(base, Split | Listed | Bound):
        refuse(f"calls {spelled(node.func)}", node)
    kind = kind_of(base)
    if kind is ScalarKind.TEXT and name == "split":
        return _split(base, args, named, node)
    if kind is ScalarKind.TEXT and name == "join" and len(args) == 1 and not named:
        return _joined(base, args[0], node)
    if kind is ScalarKind.TEXT and name == "format" and isinstance(base, Constant):
        return _formatted(base, args, named, node)
    known = f"{'bytes' if kind is ScalarKind.BYTES else 'str'}.{name}"
    if kind not in (ScalarKind.TEXT, ScalarKind.BYTES) or known not in FUNCTIONS or named:
        refuse(f"calls {spelled(node.func)}", node)
    return build.call(known, (base, *(as_expression(a, node) for a in args)))


def _method_of_thing(
    reader: Reader,
    value: object,
    name: str,
    args: list[Operand],
    named: dict[str, Operand],
    node: ast.Call,
) -> Operand:
    if type(value) is dict and name == "get" and 1 <= len(args) <= 2 and not named:
        default = constant(None) if len(args) == 1 else as_expression(args[1], node)
        return build.lookup(as_expression(args[0], node), value, default)
    if isinstance(value, type):
        found = vars(value).get(name)
        if value is str and f"str.{name}" in FUNCTIONS and args and not named:
            return build.call(f"str.{name}", [as_expression(a, node) for a in args])
        if isinstance(found, staticmethod) and isinstance(found.__func__, FunctionType):
            return inlined(reader, found.__func__, None, args, named, node)
    if value is reader.names.owner and value is not None:
        found = next((vars(c)[name] for c in type(value).__mro__ if name in vars(c)), None)
        if isinstance(found, staticmethod) and isinstance(found.__func__, FunctionType):
            return inlined(reader, found.__func__, None, args, named, node)
        if isinstance(found, FunctionType):
            return inlined(reader, found, value, args, named, node)
    refuse(f"calls {spelled(node.func)}", node)


def _split(
    base: Expression, args: list[Operand], named: dict[str, Operand], node: ast.Call
) -> Operand:
    given = dict(zip(("sep", "maxsplit"), args, strict=False)) | named
    separator = given.get("sep", constant(None))
    most = given.get("maxsplit", constant(-1))
    plain = isinstance(separator, Constant) and isinstance(most, Constant)
    if not plain or len(args) > 2 or set(given) - {"sep", "maxsplit"}:
        refuse(f"calls {spelled(node)}", node)
    assert isinstance(separator, Constant) and isinstance(most, Constant)
    if separator.value == "" or type(most.value) is not int:
        refuse(f"calls {spelled(node)}", node)
    return Split(base, separator, most)


def _joined(base: Expression, items: Operand, node: ast.Call) -> Expression:
    if not isinstance(items, Construct | Listed):
        refuse(f"calls {spelled(node)}", node)
    parts = [as_expression(i, node) for i in items.items]
    if not all(kind_of(p) is ScalarKind.TEXT for p in parts):
        refuse(f"calls {spelled(node)}", node)
    found = parts[0] if parts else constant("")
    for part in parts[1:]:
        found = build.binary(Operation.ADD, build.binary(Operation.ADD, found, base), part)
    # Of a single item, or None among them, join says more than the sum does.
    checks = [build.call("len", (p,)) for p in (base, *parts) if not isinstance(p, Constant)]
    return build.checked(checks, found)


def _formatted(
    base: Constant, args: list[Operand], named: dict[str, Operand], node: ast.Call
) -> Expression:
    """`"{} {}".format(a, b)`: plain fields, without attributes or items of them."""
    found: Expression = constant("")
    number = 0
    try:
        pieces = list(string.Formatter().parse(str(base.value)))
    except ValueError:
        refuse(f"calls {spelled(node)}", node)
    for text, field, spec, conversion in pieces:
        found = build.binary(Operation.ADD, found, constant(text)) if text else found
        if field is None:
            continue
        if field == "":
            field, number = str(number), number + 1
        elif field.isdecimal() and number:
            refuse(f"calls {spelled(node)}", node)
        at = int(field) if field.isdecimal() else -1
        value = args[at] if 0 <= at < len(args) else named.get(field)
        if value is None or "{" in (spec or ""):
            refuse(f"calls {spelled(node)}", node)
        made = as_expression(value, node)
        if conversion:
            made = build.call({"r": "repr", "s": "str", "a": "ascii"}[conversion], (made,))
        made = build.call("format", (made, constant(spec or "")))
        found = build.binary(Operation.ADD, found, made)
    rest = [as_expression(v, node) for v in (*args, *named.values())]
    return build.checked(rest, found)


# Records ------------------------------------------------------------------------------------------


def _record(
    cls: type, args: list[Operand], named: dict[str, Operand], node: ast.Call
) -> Expression:
    """An instance of a class whose instances are their fields."""
    given = [as_expression(a, node) for a in args]
    fields = {name: as_expression(v, node) for name, v in named.items()}
    if cls is beam.Row:
        if given:
            refuse(f"calls {spelled(node)}", node)
        return build.construct(fields.values(), row_record(tuple(fields)))
    names = tuple_fields(cls)
    defaults: Mapping[str, Any] = getattr(cls, "_field_defaults", {}) if names else {}
    if not names and is_plain_dataclass(cls):
        shaped = dataclasses.fields(cls)
        if all(f.init and not f.kw_only for f in shaped):
            names = tuple(f.name for f in shaped)
            missing = dataclasses.MISSING
            defaults = {f.name: f.default for f in shaped if f.default is not missing}
    record = record_of_class(cls, names)
    if record is None:
        refuse(f"calls {spelled(node.func)}", node)
    known = dict(zip(names, given, strict=False))
    if len(given) > len(names) or set(fields) - set(names) or set(fields) & set(known):
        refuse(f"calls {spelled(node)}", node)
    known |= fields
    for name in names:
        if name not in known:
            if name not in defaults:
                refuse(f"calls {spelled(node)} without {name}", node)
            known[name] = as_expression(operand_of(defaults[name]), node)
    return build.construct([known[n] for n in names], record)


def _replaced(
    reader: Reader,
    base: Construct,
    shape: RecordShape,
    named: dict[str, Operand],
    node: ast.Call,
) -> Expression:
    if set(named) - set(shape.names):
        refuse(f"calls {spelled(node)}", node)
    for name, item in zip(shape.names, base.items, strict=True):
        if name in named:
            reader.note(item)
    pairs = zip(shape.names, base.items, strict=True)
    items = [as_expression(named[n], node) if n in named else i for n, i in pairs]
    return build.construct(items, shape)

