"""What a name or an expression stands for while a function is lowered: an expression, or a thing.

A thing is an object that is known before anything runs: a function, a class, a module, a table of
constants. A split text is neither: only its items can be used.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from headrace.compiler.code.names import spelled
from headrace.compiler.lower.build import (
    Unlowerable,
    constant,
    construct,
    dict_of,
    fixed_list,
)
from headrace.plan.expressions import Constant, Construct, Expression
from headrace.plan.shapes import TupleShape


@dataclass(frozen=True, slots=True)
class Thing:
    """An object that is there before the function is called."""

    value: object


@dataclass(frozen=True, slots=True)
class Written(Thing):
    """A dict of constants that is written out: a new one for each element."""


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
        case Written(value=dict() as held) if all(type(key) is str for key in held):
            return dict_of({k: as_expression(operand_of(v), node) for k, v in held.items()})
        case Thing(value=value):
            refuse(f"uses {type(value).__name__} {spelled(node)} as a value", node)
        case Split():
            refuse(f"makes a list by {spelled(node)}", node)
        case Listed(items=items):
            return fixed_list([as_expression(i, node) for i in items])
        case Bound():
            refuse(f"uses the method {spelled(node)} as a value", node)
        case _:
            return operand


def spread(elts: Sequence[ast.expr], read: Callable[[ast.expr], Expression]) -> list[Expression]:
    """The items of a tuple that is written out; `*` of another tuple gives that one's items."""
    made: list[Expression] = []
    for item in elts:
        if not isinstance(item, ast.Starred):
            made.append(read(item))
            continue
        inner = read(item.value)
        plain = isinstance(inner.shape, TupleShape) or getattr(inner.shape, "is_tuple", False)
        if not isinstance(inner, Construct) or not plain:
            refuse("uses a starred item", item)
        made += inner.items
    return made


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
    ast.List: "a starred item",
}
#: Statements that are not lowered.
STATEMENTS: dict[type[ast.stmt], str] = {
    ast.For: "a for loop",
    ast.AsyncFor: "a for loop",
    ast.While: "a while loop",
    ast.Try: "a try statement",
    ast.With: "a with statement",
    ast.Match: "a match statement",
    ast.Global: "a global statement",
    ast.Nonlocal: "a nonlocal statement",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.FunctionDef: "a function inside",
    ast.ClassDef: "a class inside",
    ast.Delete: "a del statement",
    ast.AugAssign: "an assignment into an object",
    ast.AnnAssign: "an assignment into an object",
}
