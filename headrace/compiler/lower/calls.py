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

from apache_beam.transforms.window import TimestampedValue

from headrace.compiler.code.names import spelled
from headrace.compiler.lower import build
from headrace.compiler.lower.build import constant, kind_of
from headrace.compiler.lower.displays import as_dict, called_dict
from headrace.compiler.lower.expressions import Reader
from headrace.compiler.lower.items import counted, getter, iterated
from headrace.compiler.lower.operands import (
    Bound,
    Listed,
    Operand,
    Split,
    Thing,
    as_expression,
    operand_of,
    refuse,
)
from headrace.compiler.lower.raising import may_raise
from headrace.compiler.lower.records import dict_get, record_made, replaced
from headrace.compiler.lower.reductions import reduction
from headrace.compiler.lower.shapes import class_of_record
from headrace.compiler.lower.times import stamped
from headrace.plan.expressions import Constant, Construct, Expression, Operation
from headrace.plan.functions import FUNCTIONS
from headrace.plan.shapes import (
    ClassFound,
    DictShape,
    RecordShape,
    ScalarKind,
    ScalarShape,
    TupleShape,
)

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
    target = reader.operand(node.func)
    args, named = call_arguments(reader, node)
    if isinstance(target, Bound):
        return _method(reader, target, args, named, node)
    if isinstance(target, Thing):
        return _called(reader, target.value, args, named, node)
    refuse(f"calls {spelled(node.func)}", node)


def call_arguments(
    reader: Reader, node: ast.Call
) -> tuple[list[Operand], dict[str, Operand]]:
    """What a call gives to what it calls; `*` of a tuple gives its items."""
    args: list[Operand] = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            args.append(reader.operand(argument))
            continue
        inner = reader.opened(reader.operand(argument.value))
        plain = isinstance(inner, Construct) and (
            isinstance(inner.shape, TupleShape) or getattr(inner.shape, "is_tuple", False)
        )
        if not plain or not isinstance(inner, Construct):
            refuse(f"calls {spelled(node.func)} with starred arguments", node)
        args += inner.items
    if any(k.arg is None for k in node.keywords):
        refuse(f"calls {spelled(node.func)} with starred arguments", node)
    named = {str(k.arg): reader.operand(k.value) for k in node.keywords}
    for given in (*args, *named.values()):
        reader.note(given)  # evaluated before the call, whether the helper uses it or not
    return args, named


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
    reduced = None if named else reduction(target, args)
    if reduced is not None:
        return reduced
    if target is len and len(args) == 1 and not named:
        size = counted(args[0])
        if size is not None:
            return constant(size)
    known = known_name(target)
    if known is not None and args and not named:
        return build.call(known, [as_expression(a, node) for a in args])
    if target in (tuple, list) and len(args) == 1 and not named:
        items = iterated(args[0])
        if items is not None:
            found = [as_expression(i, node) for i in items]
            return build.construct(found) if target is tuple else build.fixed_list(found)
    if target is dict:
        return called_dict(args, named, node)
    if target is dataclasses.asdict and len(args) == 1 and not named:
        return as_dict(args[0], node)
    if target is type and len(args) == 1 and not named:
        return _type_of(as_expression(args[0], node), node)
    if isinstance(target, BuiltinMethodType) and type(target.__self__) is dict:
        # A method that somebody took from a table, as in `find = table.get`.
        return _method_of_thing(reader, target.__self__, target.__name__, args, named, node)
    if target is TimestampedValue and not named and len(args) == 2:
        return stamped(*(as_expression(a, node) for a in args))
    asked = getter(target)
    if asked is not None and len(args) == 1 and not named:
        return inlined(reader, asked[0], None, [*args, *asked[1]], {}, node)
    if isinstance(target, type):
        return record_made(target, args, named, node)
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
    if reader.depth >= MOST_DEPTH:
        refuse(f"calls {function.__name__}, too deep inside others,", node)
    return reader.helpers(function, owner, args, named, node, reader.depth + 1)


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
            return replaced(reader, base, base.shape, named, node)
        plain = base.shape.is_tuple or base.shape.found is ClassFound.ROW
        if name == "_asdict" and plain and not args and not named:
            return build.dict_of(dict(zip(base.shape.names, base.items, strict=True)))
        refuse(f"calls .{name} of {base.shape.name}", node)
    if isinstance(base, Construct) and isinstance(base.shape, DictShape):
        return dict_get(reader, base, base.shape, name, args, named, node)
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
    if value is not None and any(value is v for v in reader.held()):
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
    met = iterated(items)
    if met is None:
        refuse(f"calls {spelled(node)}", node)
    parts = [as_expression(i, node) for i in met]
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
