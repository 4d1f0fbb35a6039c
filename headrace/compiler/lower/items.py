"""Says what is inside of tuples, lists, dicts and records, and what looking into them gives.

Takes operands, gives operands or expressions; refuses what Python would not look into, or what it
would find there by a method of the user's. Evaluates nothing, and keeps nothing in mind: who asks
has to note what was evaluated.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from headrace.compiler.code.names import spelled
from headrace.compiler.lower import build
from headrace.compiler.lower.build import constant, kind_of
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
from headrace.plan.expressions import Constant, Construct, Expression, Operation
from headrace.plan.shapes import (
    ClassFound,
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    TupleShape,
)

_COLLECTIONS = (set, frozenset, tuple, list, dict)


def iterated(operand: Operand) -> tuple[Operand, ...] | None:
    """What a loop over an operand meets, in order; None: it raises, or that is not known."""
    match operand:
        case Listed(items=items) | Construct(items=items, shape=TupleShape() | FixedList()):
            return items
        case Construct(items=items, shape=RecordShape(is_tuple=is_tuple, found=found)):
            return items if is_tuple or found is ClassFound.ROW else None
        case Construct(shape=DictShape(names=names)):
            return tuple(map(constant, names))
        case Thing(value=held) if type(held) in (tuple, list):
            return tuple(map(operand_of, held))  # type: ignore[call-overload]
        case _:
            return None


def counted(operand: Operand) -> int | None:
    """The length of an operand; None: it has none, or it is not known."""
    if isinstance(operand, Construct) and isinstance(operand.shape, RecordShape):
        return len(operand.items) if operand.shape.is_tuple else None
    if isinstance(operand, Thing):
        held = operand.value
        return len(held) if type(held) in _COLLECTIONS else None  # type: ignore[arg-type]
    items = iterated(operand)
    return None if items is None else len(items)


def contained(
    left: Expression, right: Operand, node: ast.expr, note: Callable[[Operand], None]
) -> Expression:
    """`left in right`."""
    if isinstance(right, Thing) and type(right.value) in _COLLECTIONS:
        return build.member(left, list(right.value))  # type: ignore[call-overload]
    found = iterated(right)
    if found is None:
        if isinstance(right, Thing | Split | Bound | Construct):
            refuse(f"looks into {spelled(node)}", node)
        return build.call("contains", (left, as_expression(right, node)))
    note(right)
    items = [as_expression(i, node) for i in found]
    if all(isinstance(i, Constant) for i in items):
        return build.member(left, [i.value for i in items if isinstance(i, Constant)])
    if kind_of(left) is ScalarKind.FLOAT:
        refuse(f"looks for a float among others by {spelled(node)}", node)  # NaN is itself
    answer: Expression = build.FALSE
    for item in reversed(items):
        equal = build.binary(Operation.EQUAL, item, left)
        answer = build.either(False, equal, answer)
    return answer


# Getters ------------------------------------------------------------------------------------------


def _item(x: Any, key: Any) -> Any:
    return x[key]


def _items(x: Any, keys: Any) -> Any:
    return (x[keys[0]], x[keys[1]])


def _three(x: Any, keys: Any) -> Any:
    return (x[keys[0]], x[keys[1]], x[keys[2]])


def _field(x: Any, name: str) -> Any:
    return getattr(x, name)


def getter(target: object) -> tuple[FunctionType, list[Operand]] | None:
    """A function that does what an `itemgetter` or `attrgetter` does, and what it is given."""
    if type(target) is operator.attrgetter:
        names = _given(target)
        plain = len(names) == 1 and "." not in names[0]
        return (_made(_field), [constant(names[0])]) if plain else None
    if type(target) is not operator.itemgetter:
        return None
    keys = _given(target)
    if not all(type(key) in (int, str) for key in keys) or not 1 <= len(keys) <= 3:
        return None
    if len(keys) == 1:
        return _made(_item), [constant(keys[0])]
    return _made(_items if len(keys) == 2 else _three), [Thing(tuple(keys))]


def _given(made: Any) -> tuple[Any, ...]:
    """What a getter was made with."""
    return tuple(made.__reduce__()[1])


def _made(function: Any) -> FunctionType:
    assert isinstance(function, FunctionType)
    return function
