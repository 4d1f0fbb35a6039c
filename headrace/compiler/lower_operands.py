"""What a name or an expression stands for while a function is lowered: an expression, or a thing.

A thing is an object that is known before anything runs: a function, a class, a module, a table of
constants. A split text is neither: only its items can be used.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from headrace.compiler.code_names import spelled
from headrace.compiler.lower_build import Unlowerable, constant, construct
from headrace.plan.expressions import Constant, Expression


@dataclass(frozen=True, slots=True)
class Thing:
    """An object that is there before the function is called."""

    value: object


@dataclass(frozen=True, slots=True)
class Split:
    """What `text.split(separator, most)` gives."""

    text: Expression
    separator: Constant
    most: Constant


@dataclass(frozen=True, slots=True)
class Listed:
    """A list that is written out: it can be given out item by item, or looked through."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A method and what it is called on."""

    base: Operand
    name: str


Operand: TypeAlias = Expression | Thing | Split | Listed | Bound

SCALARS = (bool, int, float, str, bytes, type(None))


def operand_of(value: object) -> Operand:
    """What stands for an object."""
    return constant(value) if type(value) in SCALARS else Thing(value)


def refuse(what: str, node: ast.AST) -> NoReturn:
    """Say what is not computed on columns, and in which line it stands."""
    line = getattr(node, "lineno", None)
    raise Unlowerable(what if line is None else f"{what} in line {line}")


def as_expression(operand: Operand, node: ast.expr) -> Expression:
    """The expression that an operand is."""
    match operand:
        case Thing(value=tuple() as items):
            return construct([as_expression(operand_of(i), node) for i in items])
        case Thing(value=value):
            refuse(f"uses {type(value).__name__} {spelled(node)} as a value", node)
        case Split():
            refuse(f"makes a list by {spelled(node)}", node)
        case Listed():
            refuse(f"makes a list {spelled(node)}", node)
        case Bound():
            refuse(f"uses the method {spelled(node)} as a value", node)
        case _:
            return operand


def int_of(operand: Operand) -> int | None:
    """The int that an operand is for all elements; None: it is none."""
    value = operand.value if isinstance(operand, Constant) else None
    return value if type(value) is int else None


#: Expressions that are not lowered, in words.
WORDS: dict[type[ast.expr], str] = {
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Lambda: "a lambda",
    ast.Yield: "yield as a value",
    ast.YieldFrom: "yield from",
    ast.Await: "await",
    ast.Starred: "a starred item",
    ast.Tuple: "a starred item",
    ast.List: "a starred item",
}
