"""Says what could raise when an expression is evaluated, and keeps it where it is evaluated.

Takes nodes, gives nodes. A value that nobody uses is still evaluated by Python, and its exception
is the user's: it stands as a check before the value that follows.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Checked,
    Choose,
    Constant,
    Construct,
    Either,
    Expression,
    IsNone,
    Leaf,
    Member,
    Negative,
    Not,
    Operation,
    Raises,
    operands,
)
from headrace.plan.shapes import ScalarShape

BITS = (Operation.AND_BITS, Operation.OR_BITS, Operation.XOR_BITS)
EQUALITY = (Operation.EQUAL, Operation.NOT_EQUAL)
_CALM = COMPARISONS | {Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY, *BITS}


def checked(before: Iterable[Expression], value: Expression) -> Expression:
    """A value after others, of which those are kept that could raise and that it does not imply."""
    if isinstance(value, Raises):
        return value
    surely = _surely(value)
    kept: list[Expression] = []
    for other in before:
        if may_raise(other) and id(other) not in surely:
            kept.append(other)
            surely |= _surely(other)
    return Checked(tuple(kept), value, value.shape) if kept else value


def _surely(root: Expression) -> set[int]:
    """The ids of nodes that are evaluated whenever the root is."""
    found: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found.add(id(node))
        match node:
            case Choose(test=asked):
                waiting.append(asked)
            case Either(left=left):
                waiting.append(left)
            case _:
                waiting.extend(operands(node))
    return found


def may_raise(node: Expression) -> bool:
    """Whether an exception could come from evaluating it."""
    match node:
        case Leaf() | Constant():
            return False
        case Construct() | Not() | IsNone() | Either() | Choose() | Member():
            return any(map(may_raise, operands(node)))
        case Binary(operation=operation):
            below = operands(node)
            calm = operation in EQUALITY or (
                operation in _CALM and not any(_may_be_none(b) for b in below)
            )
            return not calm or any(map(may_raise, below))
        case Negative(operand=operand):
            return _may_be_none(operand) or may_raise(operand)
        case _:
            return True


def _may_be_none(node: Expression) -> bool:
    return isinstance(node.shape, ScalarShape) and node.shape.nullable
