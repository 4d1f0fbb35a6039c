"""Looks at statements for where a way through a function parts or ends. Reads syntax alone."""

from __future__ import annotations

import ast


def parted(statement: ast.stmt) -> ast.If | None:
    """`return a if test else b` as an if statement: the lists may be of several lengths."""
    match statement:
        case ast.Return(value=ast.IfExp(test=test, body=then, orelse=otherwise)):
            ends = [ast.copy_location(ast.Return(value), value) for value in (then, otherwise)]
            return ast.copy_location(ast.If(test, [ends[0]], [ends[1]]), statement)
        case _:
            return None


def ends_inside(statement: ast.stmt) -> bool:
    """Whether a way may end within a statement, or give something there."""
    return any(
        isinstance(n, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom)
        for n in ast.walk(statement)
    )
