"""Builds expressions with the shapes of their values, and refuses what columns cannot hold.

Takes operands, gives nodes. Operands that are all constants are computed here and now, by Python.
What has no single shape, or no meaning that columns could keep, is refused with a reason.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.compiler.lower.raising import EQUALITY, may_raise, surely
from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Call,
    Checked,
    Choose,
    Constant,
    ConstantValue,
    Construct,
    Either,
    Expression,
    IsNone,
    Lookup,
    Member,
    Negative,
    Not,
    Operation,
    Raises,
)
from headrace.plan.functions import FUNCTIONS, NUMBERS, OPERATORS, result_kind
from headrace.plan.shapes import (
    BOOL,
    NONE,
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    ScalarShape,
    Shape,
    TupleShape,
    joined,
)


class Unlowerable(Exception):
    """A function, or a part of one, that is not computed on columns; says why."""


_KINDS: dict[type, ScalarKind] = {
    bool: ScalarKind.BOOL,
    int: ScalarKind.INT,
    float: ScalarKind.FLOAT,
    str: ScalarKind.TEXT,
    bytes: ScalarKind.BYTES,
    type(None): ScalarKind.NONE,
}
_WHOLE = (ScalarKind.BOOL, ScalarKind.INT)
_TEXTS = (ScalarKind.TEXT, ScalarKind.BYTES)
_BITS = (Operation.AND_BITS, Operation.OR_BITS, Operation.XOR_BITS)
_GROWING = (Operation.POWER, Operation.SHIFT_LEFT)
_SHIFTS = (Operation.SHIFT_LEFT, Operation.SHIFT_RIGHT)
_TRUTHFUL = frozenset({*NUMBERS, *_TEXTS, ScalarKind.NONE})
_LONGEST = 4096  # bytes of a constant that is computed here
_MOST_KEYS = 20_000  # of a table that travels with the plan


def constant(value: object) -> Constant:
    """A constant of the exact type of a value."""
    kind = _KINDS.get(type(value))
    if kind is None or not isinstance(value, bool | int | float | str | bytes | None):
        msg = f"uses a {type(value).__name__} as a value"
        raise Unlowerable(msg)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        msg = "uses an int of more than 64 bits"
        raise Unlowerable(msg)
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        msg = "uses a text with a lone surrogate"
        raise Unlowerable(msg)
    return Constant(value, NONE if kind is ScalarKind.NONE else ScalarShape(kind), repr(value))


TRUE, FALSE = constant(True), constant(False)


def kind_of(node: Expression) -> ScalarKind | None:
    """The kind of a scalar; None for a tuple or record."""
    return node.shape.kind if isinstance(node.shape, ScalarShape) else None


def binary(operation: Operation, left: Expression, right: Expression) -> Expression:
    """`left operation right`."""
    if operation in COMPARISONS:
        return _comparison(operation, left, right)
    if isinstance(left, Constant) and isinstance(right, Constant):
        if operation in _GROWING and not _is_small(left.value, right.value):
            msg = f"computes {left} {operation.value} {right}"
            raise Unlowerable(msg)
        return _folded(OPERATORS[operation], left, right)
    a, b = kind_of(left), kind_of(right)
    if a in NUMBERS and b in NUMBERS and a is not None and b is not None:
        return _arithmetic(operation, left, right, a, b)
    if operation is Operation.ADD and a is b and a in _TEXTS and a is not None:
        return Binary(operation, left, right, ScalarShape(a))
    if operation is Operation.ADD and a is None and b is None:
        both = (*_tuple_items(left), *_tuple_items(right))
        return construct(both)
    msg = f"computes {left.shape} {operation.value} {right.shape}"
    raise Unlowerable(msg)


def _is_small(base: ConstantValue, exponent: ConstantValue) -> bool:
    """Whether a power of constants can be computed here: it must not fill the memory."""
    if isinstance(base, float) or isinstance(exponent, float):
        return True
    return isinstance(base, int) and isinstance(exponent, int) and (
        abs(base) <= 2**16 and abs(exponent) <= 64
    )


def _arithmetic(
    operation: Operation, left: Expression, right: Expression, a: ScalarKind, b: ScalarKind
) -> Expression:
    whole = a in _WHOLE and b in _WHOLE
    if operation in _BITS or operation in _SHIFTS:
        if not whole:
            msg = f"computes {left.shape} {operation.value} {right.shape}"
            raise Unlowerable(msg)
        same = a is ScalarKind.BOOL and b is ScalarKind.BOOL and operation in _BITS
        return Binary(operation, left, right, BOOL if same else ScalarShape(ScalarKind.INT))
    if operation is Operation.POWER and whole and isinstance(right, Constant):
        if right.value == 2 and a is ScalarKind.INT:
            return Binary(Operation.MULTIPLY, left, left, ScalarShape(ScalarKind.INT))
        if isinstance(right.value, int) and right.value < 0:
            return Binary(operation, left, right, ScalarShape(ScalarKind.FLOAT))
    floats = not whole or operation is Operation.DIVIDE
    kind = ScalarKind.FLOAT if floats else ScalarKind.INT
    return Binary(operation, left, right, ScalarShape(kind))


def _comparison(operation: Operation, left: Expression, right: Expression) -> Expression:
    a, b = kind_of(left), kind_of(right)
    if operation in EQUALITY and ScalarKind.NONE in (a, b) and a is not None and b is not None:
        other = right if a is ScalarKind.NONE else left
        found = is_none(other)
        return found if operation is Operation.EQUAL else negated(found)
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _folded(OPERATORS[operation], left, right)
    numbers = a in NUMBERS and b in NUMBERS
    alike = a is b and a in (*_TEXTS, ScalarKind.TIMESTAMP)
    if not numbers and not alike:
        msg = f"compares {left.shape} {operation.value} {right.shape}"
        raise Unlowerable(msg)
    return Binary(operation, left, right, BOOL)


def _folded(function: Callable[..., object], *constants: Constant) -> Constant:
    values = [c.value for c in constants]
    texts = [v for v in values if isinstance(v, str | bytes)]
    if any(len(v) > _LONGEST for v in texts) or (texts and function is operator.mul):
        msg = "repeats a text, or computes with a long one"
        raise Unlowerable(msg)
    try:
        return constant(function(*values))
    except Unlowerable:
        raise
    except Exception as e:
        msg = f"raises {type(e).__name__} for its constants"
        raise Unlowerable(msg) from e


def negative(operand: Expression) -> Expression:
    """`-operand`."""
    if isinstance(operand, Constant):
        return _folded(operator.neg, operand)
    kind = kind_of(operand)
    if kind not in NUMBERS:
        msg = f"computes -{operand.shape}"
        raise Unlowerable(msg)
    floats = kind is ScalarKind.FLOAT
    return Negative(operand, ScalarShape(ScalarKind.FLOAT if floats else ScalarKind.INT))


def is_none(operand: Expression) -> Expression:
    """`operand is None`."""
    if isinstance(operand, Constant):
        return constant(operand.value is None)
    shape = operand.shape
    if not isinstance(shape, ScalarShape) or not shape.nullable:
        return checked([operand], FALSE)
    return IsNone(operand, BOOL)


def test(operand: Expression) -> Expression:
    """What can be asked for its truth."""
    known = _known_truth(operand)
    return operand if known is None else checked([operand], constant(known))


def _known_truth(operand: Expression) -> bool | None:
    """What an operand's truth is for all elements; None: that depends on them."""
    if isinstance(operand, Constant):
        return bool(operand.value)
    if isinstance(operand.shape, TupleShape | FixedList | DictShape):
        return bool(operand.shape.items)
    if kind_of(operand) not in _TRUTHFUL:
        msg = f"asks whether {operand.shape} is true"
        raise Unlowerable(msg)
    return None


def negated(operand: Expression) -> Expression:
    """`not operand`."""
    operand = test(operand)
    if isinstance(operand, Constant):
        return constant(not operand.value)
    return Not(operand, BOOL)


def truth(operand: Expression) -> Expression:
    """`bool(operand)`."""
    operand = test(operand)
    if isinstance(operand, Constant):
        return constant(bool(operand.value))
    return operand if operand.shape == BOOL else Not(operand, BOOL, negated=False)


def either(is_and: bool, left: Expression, right: Expression) -> Expression:
    """`left and right`, or `left or right`."""
    known = _known_truth(left)
    if known is not None:
        return checked([left], right) if known is is_and else left
    if isinstance(right, Raises):
        return choose(left, right, left) if is_and else choose(left, left, right)
    shape = _joined(left, right)
    if not isinstance(shape, ScalarShape):
        msg = f"gives {left.shape} or {right.shape}"
        raise Unlowerable(msg)
    return Either(is_and, left, right, shape)


def choose(asked: Expression, then: Expression, otherwise: Expression) -> Expression:
    """`then if asked else otherwise`."""
    asked = test(asked)
    if isinstance(asked, Constant):
        return then if asked.value else otherwise
    if isinstance(then, Raises) and isinstance(otherwise, Raises):
        return then
    if (then, otherwise) == (TRUE, FALSE):
        return truth(asked)
    if (then, otherwise) == (FALSE, TRUE):
        return negated(asked)
    return Choose(asked, then, otherwise, _joined(then, otherwise))


def _joined(a: Expression, b: Expression) -> Shape:
    if isinstance(a, Raises) or isinstance(b, Raises):
        return b.shape if isinstance(a, Raises) else a.shape
    shape = joined(a.shape, b.shape)
    if shape is None:
        msg = f"gives {a.shape} or {b.shape}"
        raise Unlowerable(msg)
    return shape


def member(operand: Expression, values: Iterable[object]) -> Expression:
    """`operand in values`, which are constants."""
    kind = kind_of(operand)
    if kind not in _TRUTHFUL:
        msg = f"looks for {operand.shape} among constants"
        raise Unlowerable(msg)
    return Member(operand, _keys(values), BOOL)


def _keys(values: Iterable[object]) -> tuple[Constant, ...]:
    found = tuple(constant(v) for v in values)
    if len(found) > _MOST_KEYS:
        msg = f"looks into a table of {len(found)} constants"
        raise Unlowerable(msg)
    if any(c.value != c.value for c in found):
        msg = "looks for NaN, which is found by being the same object"
        raise Unlowerable(msg)
    return found


def lookup(
    operand: Expression, table: dict[object, object], default: Expression | None
) -> Expression:
    """`table[operand]`, or `table.get(operand, default)`."""
    kind = kind_of(operand)
    if kind not in _TRUTHFUL:
        msg = f"looks for {operand.shape} in a dict"
        raise Unlowerable(msg)
    keys = _keys(table)
    values = tuple(constant(v) for v in table.values())
    shape: Shape | None = values[0].shape if values else None if default is None else default.shape
    for other in (*values, *(() if default is None else (default,))):
        shape = None if shape is None else joined(shape, other.shape)
    if not isinstance(shape, ScalarShape):
        msg = "looks up values of several types"
        raise Unlowerable(msg)
    return Lookup(operand, keys, values, default, shape)


def call(name: str, arguments: Iterable[Expression]) -> Expression:
    """A call of a known function."""
    given = tuple(arguments)
    kinds = tuple(k for k in map(kind_of, given) if k is not None)
    gives = result_kind(name, kinds) if len(kinds) == len(given) else None
    if gives is None:
        shapes = ", ".join(str(g.shape) for g in given)
        msg = f"calls {name} with ({shapes})"
        raise Unlowerable(msg)
    constants = [g for g in given if isinstance(g, Constant)]
    if len(constants) == len(given):
        return _folded(FUNCTIONS[name].call, *constants)
    return Call(name, given, ScalarShape(gives))


def construct(items: Iterable[Expression], record: RecordShape | None = None) -> Construct:
    """A tuple of these, or a record with the names of another."""
    found = tuple(items)
    inside = tuple(i.shape for i in found)
    return Construct(found, replace(record or TupleShape(()), items=inside))


def fixed_list(items: Iterable[Expression]) -> Construct:
    """A list of these."""
    found = tuple(items)
    return Construct(found, FixedList(tuple(i.shape for i in found)))


def dict_of(pairs: Mapping[str, Expression]) -> Construct:
    """A dict of these, in this order."""
    found = tuple(pairs.values())
    return Construct(found, DictShape(tuple(pairs), tuple(i.shape for i in found)))


def opened(node: Expression) -> tuple[tuple[Expression, ...], Construct] | None:
    """A tuple or record as its items, and what was evaluated besides; None: it is a scalar."""
    match node:
        case Construct():
            return (), node
        case Checked(before=before, value=value):
            inner = opened(value)
            return None if inner is None else ((*before, *inner[0]), inner[1])
        case Choose(test=asked, then=then, otherwise=otherwise, shape=shape) if not isinstance(
            shape, ScalarShape
        ):
            size = len(shape.items)
            raised = Construct((Raises(NONE),) * size, shape)
            a, b = (((), raised) if isinstance(x, Raises) else opened(x) for x in (then, otherwise))
            if a is None or b is None:
                return None
            pairs = zip(a[1].items, b[1].items, strict=True)
            items = tuple(choose(asked, x, y) for x, y in pairs)
            checks: tuple[Expression, ...] = ()
            if a[0] or b[0]:
                checks = (choose(asked, checked(a[0], TRUE), checked(b[0], TRUE)),)
            return checks, Construct(items, shape)
        case _:
            return None


def _tuple_items(node: Expression) -> tuple[Expression, ...]:
    plain = isinstance(node.shape, TupleShape) or (
        isinstance(node.shape, RecordShape) and node.shape.is_tuple
    )
    if not plain or not isinstance(node, Construct):
        msg = f"adds to {node.shape}"
        raise Unlowerable(msg)
    return node.items


def checked(before: Iterable[Expression], value: Expression) -> Expression:
    """A value after others, of which those are kept that could raise and that it does not imply."""
    if isinstance(value, Raises):
        return value
    known = surely(value)
    kept: list[Expression] = []
    for other in before:
        if may_raise(other) and id(other) not in known:
            kept.append(other)
            known |= surely(other)
    return Checked(tuple(kept), value, value.shape) if kept else value
