"""Turns sets and dicts that are written out, and `is`, into operands.

Takes syntax and what reads its parts. Refuses, with the line, a set of what is no constant, and a
dict whose keys are not known texts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from headrace.compiler.code.names import spelled
from headrace.compiler.lower import build
from headrace.compiler.lower.build import kind_of
from headrace.compiler.lower.operands import (
    Operand,
    Thing,
    Written,
    as_expression,
    operand_of,
    refuse,
)
from headrace.plan.expressions import Constant, Construct, Expression, Operation
from headrace.plan.shapes import ClassFound, DictShape, RecordShape, ScalarKind, ScalarShape


def displayed(
    node: ast.Set | ast.Dict, read: Callable[[ast.expr], Operand], note: Callable[[Operand], None]
) -> Operand:
    """A set of constants, a dict of constants, or a dict whose keys are known texts."""
    if isinstance(node, ast.Set):
        made = [read(e) for e in node.elts]
        if not all(isinstance(m, Constant) for m in made):
            refuse(f"makes a set {spelled(node)}", node)
        return Thing(frozenset(m.value for m in made if isinstance(m, Constant)))
    keys = [None if k is None else read(k) for k in node.keys]
    values = [read(v) for v in node.values]
    if all(isinstance(m, Constant) for m in (*keys, *values)):
        plain = [m.value for m in keys if isinstance(m, Constant)]
        items = [v.value for v in values if isinstance(v, Constant)]
        return Written(dict(zip(plain, items, strict=True)))
    pairs: dict[str, Expression] = {}
    for key, value, at in zip(keys, values, node.values, strict=True):
        if key is None:
            more = pairs_of(value, at)
        elif isinstance(key, Constant) and isinstance(key.value, str):
            more = {key.value: as_expression(value, at)}
        else:
            refuse(f"makes a dict {spelled(node)}", node)
        for name in pairs.keys() & more.keys():
            note(pairs[name])  # it was evaluated, and is not used
        pairs |= more
    return build.dict_of(pairs)


def pairs_of(operand: Operand, node: ast.expr) -> dict[str, Expression]:
    """The items of a dict whose keys are known texts."""
    if isinstance(operand, Construct) and isinstance(operand.shape, DictShape):
        return dict(zip(operand.shape.names, operand.items, strict=True))
    held = operand.value if isinstance(operand, Thing) else None
    if type(held) is not dict or not all(type(key) is str for key in held):
        refuse(f"makes a dict of {spelled(node)}", node)
    return {key: as_expression(operand_of(value), node) for key, value in held.items()}


def called_dict(
    args: list[Operand], named: Mapping[str, Operand], node: ast.Call
) -> Expression:
    """`dict(other, name=value)`."""
    if len(args) > 1:
        refuse(f"calls {spelled(node)}", node)
    pairs = pairs_of(args[0], node) if args else {}
    return build.dict_of(pairs | {name: as_expression(v, node) for name, v in named.items()})


def as_dict(value: Operand, node: ast.Call) -> Expression:
    """`dataclasses.asdict(value)`, of fields that are not copied deeply."""
    shape = value.shape if isinstance(value, Construct) else None
    if not isinstance(value, Construct) or not isinstance(shape, RecordShape) or (
        shape.is_tuple or shape.found is not ClassFound.PICKLED
        or not all(isinstance(i, ScalarShape) and i.kind is not ScalarKind.OTHER
                   for i in shape.items)
    ):  # fmt: skip
        refuse(f"calls {spelled(node)}", node)
    return build.dict_of(dict(zip(shape.names, value.items, strict=True)))


def key_of(index: Operand) -> str | None:
    """The text by which a dict is asked, the same for all elements; None: it is none."""
    value = index.value if isinstance(index, Constant) else None
    return value if isinstance(value, str) else None


def identical(a: Expression, b: Expression, node: ast.expr) -> Expression:
    """`a is b`, for None and truth values alone: there is one of each."""
    if ScalarKind.NONE in (kind_of(a), kind_of(b)):
        return build.is_none(b if kind_of(a) is ScalarKind.NONE else a)
    if kind_of(a) is ScalarKind.BOOL and kind_of(b) is ScalarKind.BOOL:
        return build.binary(Operation.EQUAL, a, b)
    refuse(f"asks {spelled(node)}", node)
