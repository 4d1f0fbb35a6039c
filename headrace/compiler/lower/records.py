"""Lowers what makes a record, and the methods that make one of another or look into a dict.

Takes what the call was given, gives the expression; refuses what the class would not take. Knows
the classes whose instances are their fields alone.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping
from typing import Any

import apache_beam as beam

from headrace.compiler.code.names import spelled
from headrace.compiler.code.values import is_plain_dataclass, tuple_fields
from headrace.compiler.lower import build
from headrace.compiler.lower.build import constant
from headrace.compiler.lower.displays import key_of
from headrace.compiler.lower.expressions import Reader
from headrace.compiler.lower.operands import Operand, as_expression, operand_of, refuse
from headrace.compiler.lower.shapes import record_of_class, row_record
from headrace.plan.expressions import Construct, Expression
from headrace.plan.shapes import DictShape, RecordShape


def record_made(
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


def replaced(
    reader: Reader,
    base: Construct,
    shape: RecordShape,
    named: dict[str, Operand],
    node: ast.Call,
) -> Expression:
    """`base._replace(name=value)`."""
    if set(named) - set(shape.names):
        refuse(f"calls {spelled(node)}", node)
    for name, item in zip(shape.names, base.items, strict=True):
        if name in named:
            reader.note(item)
    pairs = zip(shape.names, base.items, strict=True)
    items = [as_expression(named[n], node) if n in named else i for n, i in pairs]
    return build.construct(items, shape)


def dict_get(
    reader: Reader,
    base: Construct,
    shape: DictShape,
    name: str,
    args: list[Operand],
    named: dict[str, Operand],
    node: ast.Call,
) -> Operand:
    """`{...}.get(key, default)`."""
    key = key_of(args[0]) if args else None
    if name != "get" or key is None or len(args) > 2 or named:
        refuse(f"calls {spelled(node.func)}", node)
    if key in shape.names:
        return reader.picked(base, shape.names.index(key))
    reader.note(base)
    return args[1] if len(args) == 2 else constant(None)
