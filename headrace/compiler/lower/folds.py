"""Reads how a number that is kept changes by an element: what is added, or compared with it.

Takes the expression of the number's next value over its present one and the element. Gives a fold
and what the element brings to it, which looks at no number that is kept; or nothing, where the
change is another one. For accumulators of a CombineFn, and for fields of a DoFn.
"""

from __future__ import annotations

from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable, constant
from headrace.plan.combines import Fold
from headrace.plan.expressions import Binary, Call, Choose, Expression, Leaf, Operation, nodes

_BELOW = {Operation.LESS: True, Operation.LESS_EQUAL: True}
_ABOVE = {Operation.GREATER: False, Operation.GREATER_EQUAL: False}
_NOTHING = constant(0)


def folded(part: Expression, place: int) -> tuple[Fold, Expression] | None:
    """How a number changes whose present value is the leaf of a place."""
    match part:
        case Call(function="min" | "max" as name, arguments=(a, b)):
            other = b if _is_own(a, place) else a
            if _is_own(a, place) or _is_own(b, place):
                return Fold.LEAST if name == "min" else Fold.GREATEST, other
        case Choose(test=Binary(operation=how, left=a, right=b), then=then, otherwise=rest) if (
            how in _BELOW or how in _ABOVE
        ) and {a, b} == {then, rest} and (_is_own(a, place) or _is_own(b, place)):
            least = (how in _BELOW) == (then == a)  # `a if a < b else b`, and `b if a > b else a`
            other = b if _is_own(a, place) else a
            return Fold.LEAST if least else Fold.GREATEST, other
        case _:
            pass
    try:
        added = _added(part, place)
    except Unlowerable:
        return None
    return None if added is None or added is _NOTHING else (Fold.SUM, added)


def _is_own(node: Expression, place: int) -> bool:
    return isinstance(node, Leaf) and node.place == place


def _added(node: Expression, place: int) -> Expression | None:
    """What is added to the number; None: it does not stay what it was, but for that."""
    if _is_own(node, place):
        return _NOTHING
    match node:
        case Binary(operation=Operation.ADD, left=a, right=b):
            own, other = (a, b) if _looks(a, place) else (b, a)
            before = _added(own, place)
            if before is None or _looks(other, place):
                return None
            return other if before is _NOTHING else build.binary(Operation.ADD, before, other)
        case Binary(operation=Operation.SUBTRACT, left=own, right=other):
            before = _added(own, place)
            if before is None or _looks(other, place):
                return None
            return build.binary(Operation.SUBTRACT, before, other)
        case Choose(test=asked, then=then, otherwise=rest):
            one, two = _added(then, place), _added(rest, place)
            if one is None or two is None or _looks(asked, place):
                return None
            return build.choose(asked, _whole(one), _whole(two))
        case _:
            return None


def _whole(added: Expression) -> Expression:
    """The same as an int: a truth value that is added counts as one."""
    if added.shape == _NOTHING.shape:
        return added
    return build.binary(Operation.ADD, added, _NOTHING)


def _looks(node: Expression, place: int) -> bool:
    return any(_is_own(n, place) for n in nodes(node))
