"""Turns a function's statements into one expression for what it gives.

Follows every way through a function: assignments, if and else, early returns, yields. Where the
ways part there is a choice in the expression; what was evaluated on a way and may raise stays in
it, used or not. Loops, handlers and context managers are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TypeAlias

from headrace.compiler import lower_build as build
from headrace.compiler.code_names import Names
from headrace.compiler.code_source import FunctionNode, is_generator, nodes_of
from headrace.compiler.lower_build import Unlowerable, constant
from headrace.compiler.lower_calls import lower_call
from headrace.compiler.lower_expressions import Reader
from headrace.compiler.lower_operands import (
    STATEMENTS,
    Bound,
    Listed,
    Operand,
    Split,
    Thing,
    as_expression,
    operand_of,
    refuse,
)
from headrace.compiler.lower_raising import may_raise
from headrace.plan.expressions import Construct, Expression, Raises
from headrace.plan.shapes import NONE, RecordShape, TupleShape

#: How many ends a function may have: each doubles what stands after it.
MOST_ENDS = 32


@dataclass(frozen=True, slots=True)
class Given:
    """An end with an output."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Nothing:
    """An end without an output, after what may have raised."""

    checks: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Fork:
    """Two ways, by the truth of a test."""

    test: Expression
    then: End
    otherwise: End


End: TypeAlias = Given | Nothing | Fork


@dataclass(slots=True)
class Way:
    """One way through a function, as far as it has been followed."""

    bound: dict[str, Operand]
    checks: list[Expression] = field(default_factory=list)
    given: Operand | None = None  # what was yielded

    def copy(self) -> Way:
        """The same, to be followed in another direction."""
        return Way(dict(self.bound), list(self.checks), self.given)


class Follower:
    """Follows the statements of one function.

    Args:
        names: what names outside the function stand for.
        emits: whether what it yields, or the items of what it returns, are the outputs.
        generator: whether it yields.
        asked: whether nothing but the truth of what it returns is asked.
        depth: how many functions are open around it.
    """

    def __init__(
        self, names: Names, *, emits: bool, generator: bool, asked: bool, depth: int
    ) -> None:
        self._names = names
        self._asked = asked
        self._emits = emits
        self._generator = generator
        self._depth = depth
        self._ends = 0

    def end(self, statements: Sequence[ast.stmt], way: Way) -> End:
        """Where a way leads."""
        for place, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                return self._if(statement, statements[place + 1 :], way)
            ended = self.statement(statement, way)
            if ended is not None:
                return self._counted(ended, statement)
        return self._counted(self._over(way, None), statements[-1] if statements else None)

    def _counted(self, ended: End, node: ast.AST | None) -> End:
        self._ends += 1
        if self._ends > MOST_ENDS:
            refuse(f"has more than {MOST_ENDS} ways through it", node or ast.Pass())
        return ended

    def _if(self, statement: ast.If, rest: Sequence[ast.stmt], way: Way) -> End:
        asked = self.test(statement.test, way)
        bodies = (statement.body, statement.orelse)
        if not any(_ends_inside(s) for body in bodies for s in body):
            merged = self._merged(asked, bodies, way)
            if merged is not None:
                return self.end(rest, merged)
        then = self.end([*statement.body, *rest], way.copy())
        otherwise = self.end([*statement.orelse, *rest], way.copy())
        return Fork(asked, then, otherwise)

    def _merged(
        self, asked: Expression, bodies: tuple[list[ast.stmt], ...], way: Way
    ) -> Way | None:
        """One way after both branches of an if; None: their values have no shape in common."""
        ways = []
        for body in bodies:
            branch = Way(dict(way.bound))
            for statement in body:
                if isinstance(statement, ast.If):
                    inner = self.test(statement.test, branch)
                    both = (statement.body, statement.orelse)
                    nested = self._merged(inner, both, branch)
                    if nested is None:
                        return None
                    branch = nested
                else:
                    self.statement(statement, branch)
            ways.append(branch)
        then, otherwise = ways
        bound: dict[str, Operand] = {}
        for name in then.bound:
            a, b = then.bound[name], otherwise.bound.get(name)
            if a is b:
                bound[name] = a
            elif b is not None:
                if isinstance(a, Thing | Listed | Bound) or isinstance(b, Thing | Listed | Bound):
                    return None
                try:
                    x, y = (as_expression(o, ast.Constant(None)) for o in (a, b))
                    bound[name] = build.choose(asked, x, y)
                except Unlowerable:
                    return None
        checks = list(way.checks)
        if may_raise(asked):
            checks.append(asked)
        if then.checks or otherwise.checks:
            a, b = (build.checked(w.checks, build.TRUE) for w in (then, otherwise))
            checks.append(build.choose(asked, a, b))
        return Way(bound, checks, way.given)

    def statement(self, statement: ast.stmt, way: Way) -> End | None:
        """Go one step; what ends the way is given back."""
        match statement:
            case ast.Expr(value=ast.Yield(value=value)) if self._emits:
                if way.given is not None:
                    refuse("yields twice", statement)
                way.given = constant(None) if value is None else self._operand(value, way)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self._operand(value, way)
            case ast.Assign(targets=targets, value=value):
                made = self._operand(value, way)
                for target in targets:
                    self.bind(target, made, way)
            case ast.AnnAssign(target=ast.Name() as target, value=value):
                if value is not None:
                    self.bind(target, self._operand(value, way), way)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                old = ast.copy_location(ast.Name(name, ast.Load()), target)
                both = ast.copy_location(ast.BinOp(old, op, value), statement)
                self.bind(target, self._operand(both, way), way)
            case ast.Assert(test=test):
                asked = self.test(test, way)
                way.checks.append(build.choose(asked, build.TRUE, Raises(NONE)))
            case ast.Raise():
                return Given(Raises(NONE))
            case ast.Return(value=value):
                return self._over(way, value)
            case _:
                told = STATEMENTS.get(type(statement), type(statement).__name__)
                refuse(f"has {told}", statement)
        return None

    def _over(self, way: Way, value: ast.expr | None) -> End:
        """The end of a way."""
        if self._asked and value is not None:
            return Given(build.checked(way.checks, build.truth(self.test(value, way))))
        if not self._emits:
            given = constant(None) if value is None else self._read(value, way)
            return Given(build.checked(way.checks, given))
        if self._generator:
            if value is not None:
                self._operand(value, way)
            if way.given is None:
                return Nothing(tuple(way.checks))
            given = as_expression(way.given, value or ast.Constant(None))
            return Given(build.checked(way.checks, given))
        found = constant(None) if value is None else self._operand(value, way)
        if isinstance(found, Listed | Construct) and (
            isinstance(found, Listed) or isinstance(found.shape, TupleShape)
        ):
            if not found.items:
                return Nothing(tuple(way.checks))
            if len(found.items) == 1:
                given = as_expression(found.items[0], value or ast.Constant(None))
                return Given(build.checked(way.checks, given))
            refuse(f"gives {len(found.items)} outputs", value or ast.Pass())
        if found == constant(None):
            return Nothing(tuple(way.checks))
        refuse("returns an iterable of open length", value or ast.Pass())

    def _operand(self, node: ast.expr, way: Way) -> Operand:
        reader = Reader(self._names, way.bound, lower_call, self._depth)
        made = reader.operand(node)
        reader.note(made)
        way.checks += reader.checks
        return made

    def test(self, node: ast.expr, way: Way) -> Expression:
        """What an if or assert asks; whoever branches by it evaluates it."""
        reader = Reader(self._names, way.bound, lower_call, self._depth)
        made = reader.condition(node)
        way.checks += reader.checks
        return made

    def _read(self, node: ast.expr, way: Way) -> Expression:
        return as_expression(self._operand(node, way), node)

    def bind(self, target: ast.expr, made: Operand, way: Way) -> None:
        """Let names stand for a value, or for its parts."""
        if isinstance(target, ast.Tuple) and not isinstance(made, Thing | Listed | Bound | Split):
            found = build.opened(made)
            if found is not None:
                way.checks.extend(found[0])
                made = found[1]
        match target:
            case ast.Name(id=name):
                way.bound[name] = made
            case ast.Tuple(elts=elts) if isinstance(made, Construct) and len(elts) == len(
                made.items
            ):
                if isinstance(made.shape, RecordShape) and not made.shape.is_tuple:
                    refuse("takes a record apart", target)
                for inner, item in zip(elts, made.items, strict=True):
                    self.bind(inner, item, way)
            case ast.Tuple(elts=elts) if isinstance(made, Split) and not any(
                isinstance(e, ast.Starred) for e in elts
            ):
                given = (made.text, made.separator, made.most, constant(len(elts)))
                for place, inner in enumerate(elts):
                    part = build.call("split_part", (*given, constant(place)))
                    if not place:
                        way.checks.append(part)  # each of them raises if one does
                    self.bind(inner, part, way)
            case ast.Tuple():
                refuse("takes something apart whose parts are not known", target)
            case _:
                refuse("writes into an object", target)


def end_of(
    function: FunctionType,
    owner: object | None,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    *,
    emits: bool,
    asked: bool = False,
    depth: int = 0,
    at: ast.AST | None = None,
) -> End:
    """Where a call of a function with these arguments leads."""
    nodes = nodes_of(function.__code__)
    if len(nodes) != 1:
        refuse(f"the source of {function.__name__} is not at hand", at or ast.Pass())
    (node,) = nodes
    generator = is_generator(node)
    if isinstance(node, ast.AsyncFunctionDef) or (generator and not emits):
        refuse(f"calls {function.__name__}, a generator", at or ast.Pass())
    names = Names(function, owner)
    given = args if owner is None else (Thing(owner), *args)
    way = Way(_parameters(function, node, given, named, at or node))
    follower = Follower(names, emits=emits, generator=generator, asked=asked, depth=depth)
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
    else:
        body = node.body
    return follower.end(body, way)


def result_of(
    function: FunctionType,
    owner: object | None,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    at: ast.AST,
    depth: int,
) -> Expression:
    """What a helper gives for these arguments."""
    return value_of(end_of(function, owner, args, named, emits=False, depth=depth, at=at))


def value_of(end: End) -> Expression:
    """The value at the end of every way, of a function that has one on each."""
    found = given_of(end)
    assert found is not None
    return found


def given_of(end: End) -> Expression | None:
    """The value at the end of every way that has an output; None: there is no such way."""
    match end:
        case Given(value=value):
            return value
        case Nothing():
            return None
        case Fork(test=asked, then=then, otherwise=otherwise):
            a, b = given_of(then), given_of(otherwise)
            if a is None or b is None:
                return b if a is None else a
            return build.choose(asked, a, b)


def kept_of(end: End) -> Expression:
    """Whether there is an output at the end of every way."""
    match end:
        case Given():
            return build.TRUE
        case Nothing(checks=checks):
            return build.checked(checks, build.FALSE)
        case Fork(test=asked, then=then, otherwise=otherwise):
            return build.choose(asked, kept_of(then), kept_of(otherwise))


def _parameters(
    function: FunctionType,
    node: FunctionNode,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    at: ast.AST,
) -> dict[str, Operand]:
    code = function.__code__
    if node.args.vararg is not None or node.args.kwarg is not None:
        refuse(f"{function.__name__} takes any number of arguments", at)
    params = code.co_varnames[: code.co_argcount]
    only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    found: dict[str, Operand] = {
        name: operand_of(v) for name, v in zip(params[-len(defaults) :], defaults, strict=False)
    } if defaults else {}
    found |= {name: operand_of(v) for name, v in (function.__kwdefaults__ or {}).items()}
    given = dict(zip(params, args, strict=False))
    if len(args) > len(params) or set(named) - {*params, *only} or set(named) & set(given):
        refuse(f"calls {function.__name__} with other arguments than it takes", at)
    found |= {**given, **named}
    missing = [name for name in (*params, *only) if name not in found]
    if missing:
        refuse(f"calls {function.__name__} without {missing[0]}", at)
    return found


def _ends_inside(statement: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom)
        for n in ast.walk(statement)
    )
