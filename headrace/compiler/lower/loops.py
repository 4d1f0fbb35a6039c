"""Follows the loop of a method that merges accumulators: what one turn makes of its variables.

Takes the statements before the loop and the loop itself, gives what names stand for. Knows nothing
of folds.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType

from headrace.compiler.code.names import Names
from headrace.compiler.lower.ends import value_of
from headrace.compiler.lower.operands import Operand, refuse
from headrace.compiler.lower.statements import Follower, Way
from headrace.plan.expressions import Construct, Expression


class Loop:
    """A function with one loop."""

    def __init__(self, function: FunctionType, owner: object) -> None:
        self._follower = Follower(
            Names(function, owner), emits=False, generator=False, asked=False, depth=0
        )

    def bound(self, before: Sequence[ast.stmt]) -> Mapping[str, Operand]:
        """What names stand for when the loop begins."""
        way = Way({})
        for statement in before:
            if isinstance(statement, ast.If) or self._follower.statement(statement, way):
                refuse("does more than begin before its loop", statement)
        if way.checks:
            refuse("may raise before its loop", before[0])
        return way.bound

    def after(
        self, loop: ast.For, held: Mapping[str, Expression], item: Expression
    ) -> dict[str, Expression]:
        """What the held names stand for after a turn with an item."""
        way = Way(dict(held))
        self._follower.bind(loop.target, item, way)
        names = [ast.copy_location(ast.Name(name, ast.Load()), loop) for name in held]
        all_held = ast.copy_location(ast.Tuple(list(names), ast.Load()), loop)
        end = ast.copy_location(ast.Return(all_held), loop)
        made = value_of(self._follower.end([*loop.body, end], way))
        if not isinstance(made, Construct):
            refuse("has a loop with several ways through it", loop)
        return dict(zip(held, made.items, strict=True))
