"""Which expressions may raise in Python, and which are evaluated whenever another is.

Looks at nodes, builds none. Errs on one side: what may raise for all it is known does.
"""

from __future__ import annotations

from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Call,
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
    operands,
)
from headrace.plan.shapes import ScalarKind, ScalarShape

EQUALITY = (Operation.EQUAL, Operation.NOT_EQUAL)
_CALM = COMPARISONS | {
    Operation.ADD, Operation.SUBTRACT, Operation.MULTIPLY,
    Operation.AND_BITS, Operation.OR_BITS, Operation.XOR_BITS,
}  # fmt: skip


def surely(root: Expression) -> set[int]:
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
                (operation in _CALM or _divides_ints(node))
                and not any(_may_be_none(b) for b in below)
            )
            return not calm or any(map(may_raise, below))
        case Call(function="int" | "abs", arguments=(only,)) if _is_int(only):
            return _may_be_none(only) or may_raise(only)
        case Negative(operand=operand):
            return _may_be_none(operand) or may_raise(operand)
        case _:
            return True


def _divides_ints(node: Binary) -> bool:
    """Whether ints are divided by a constant other than zero."""
    whole = _is_int(node.left) and _is_int(node.right)
    known = isinstance(node.right, Constant) and bool(node.right.value)
    return whole and known and node.operation in (Operation.FLOOR_DIVIDE, Operation.REMAINDER)


def _is_int(node: Expression) -> bool:
    kinds = (ScalarKind.INT, ScalarKind.BOOL)
    return isinstance(node.shape, ScalarShape) and node.shape.kind in kinds


def _may_be_none(node: Expression) -> bool:
    return isinstance(node.shape, ScalarShape) and node.shape.nullable
