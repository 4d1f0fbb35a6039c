"""Turns a function's statements into one expression for what it gives.

Follows every way through a function: assignments, if and else, early returns, yields. Where the
ways part there is a choice in the expression; what was evaluated on a way and may raise stays in
it, used or not. Loops, handlers and context managers are refused.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from types import FunctionType

from headrace.compiler.code.names import MISSING, Names, static_attribute
from headrace.compiler.code.source import is_generator
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable, constant
from headrace.compiler.lower.calls import MOST_DEPTH, call_arguments, lower_call
from headrace.compiler.lower.ends import End, Fork, Given, Nothing, value_of
from headrace.compiler.lower.expressions import Reader
from headrace.compiler.lower.operands import (
    STATEMENTS,
    Bound,
    Listed,
    Operand,
    Split,
    Thing,
    as_expression,
    refuse,
)
from headrace.compiler.lower.parameters import opened_call
from headrace.compiler.lower.raising import may_raise
from headrace.compiler.lower.ways import ends_inside, parted
from headrace.plan.expressions import Construct, Expression, Raises
from headrace.plan.shapes import NONE, RecordShape, TupleShape

#: How many ends a function may have: each doubles what stands after it.
MOST_ENDS = 32


@dataclass(slots=True)
class Way:
    """One way through a function, as far as it has been followed."""

    bound: dict[str, Operand]
    checks: list[Expression] = field(default_factory=list)
    given: Operand | None = None  # what was yielded
    #: What the fields of `self` stand for that may be written; None: none may.
    fields: dict[str, Expression] | None = None

    def copy(self) -> Way:
        """The same, to be followed in another direction."""
        return Way(dict(self.bound), list(self.checks), self.given, self._own_fields())

    def branch(self) -> Way:
        """The same at this place, with nothing behind it."""
        return Way(dict(self.bound), fields=self._own_fields())

    def _own_fields(self) -> dict[str, Expression] | None:
        return None if self.fields is None else dict(self.fields)


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
            if self._emits and (choice := parted(statement)) is not None:
                return self._if(choice, (), way)
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
        if not any(ends_inside(s) for body in bodies for s in body):
            merged = self._merged(asked, bodies, way)
            if merged is not None:
                return self.end(rest, merged)
        then = self.end([*statement.body, *rest], way.copy())
        otherwise = self.end([*statement.orelse, *rest], way.copy())
        return Fork(asked, then, otherwise)

    def _merged(
        self, asked: Expression, bodies: tuple[list[ast.stmt], ...], way: Way, last: bool = False
    ) -> Way | None:
        """One way after both branches of an if; None: their values have no shape in common."""
        ways = []
        for body in bodies:
            branch = self._through(body, way.branch(), last=last)
            if branch is None:
                return None
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
        fields = None
        if then.fields is not None and otherwise.fields is not None:
            pairs = ((n, v, otherwise.fields[n]) for n, v in then.fields.items())
            fields = {n: a if a is b else build.choose(asked, a, b) for n, a, b in pairs}
        checks = list(way.checks)
        if may_raise(asked):
            checks.append(asked)
        if then.checks or otherwise.checks:
            a, b = (build.checked(w.checks, build.TRUE) for w in (then, otherwise))
            checks.append(build.choose(asked, a, b))
        return Way(bound, checks, way.given, fields)

    def passed(self, statements: Sequence[ast.stmt], way: Way) -> Way:
        """The one way through statements that give nothing and end nowhere else."""
        found = self._through(statements, way, last=True)
        if found is None:
            refuse("has several ways through it", statements[0])
        return found

    def _through(
        self, statements: Sequence[ast.stmt], way: Way, *, last: bool = False
    ) -> Way | None:
        """The one way through statements; None: there are several, or it ends in between.

        Those that are the last of a function may end it by an empty `return`.
        """
        for place, statement in enumerate(statements):
            match statement:
                case ast.Return(value=None) if last:
                    return way
                case ast.If(test=test, body=then, orelse=otherwise):
                    ends = any(ends_inside(s) for s in (*then, *otherwise))
                    rest = statements[place + 1 :] if ends else []
                    if ends and not last:
                        return None
                    asked = self.test(test, way)
                    merged = self._merged(asked, ([*then, *rest], [*otherwise, *rest]), way, ends)
                    if merged is None or ends:
                        return merged
                    way = merged
                case _:
                    if self.statement(statement, way) is not None:
                        return None
        return way

    def statement(self, statement: ast.stmt, way: Way) -> End | None:
        """Go one step; what ends the way is given back."""
        match statement:
            case ast.Expr(value=ast.Yield(value=value)) if self._emits:
                if way.given is not None:
                    refuse("yields twice", statement)
                way.given = constant(None) if value is None else self._operand(value, way)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call) if way.fields is not None:
                self._helper(call, way)
            case ast.Expr(value=value):
                self._operand(value, way)
            case ast.Assign(targets=[ast.Attribute() as field], value=value) if (
                way.fields is not None
            ):
                self.bind(field, self._unnoted(value, way), way)
            case ast.Assign(targets=targets, value=value):
                made = self._operand(value, way)
                for target in targets:
                    self.bind(target, made, way)
            case ast.AnnAssign(target=ast.Name() as target, value=value):
                if value is not None:
                    self.bind(target, self._operand(value, way), way)
            case ast.AugAssign(
                target=ast.Name() | ast.Attribute() as target, op=op, value=value
            ) if isinstance(target, ast.Name) or way.fields is not None:
                old = _loaded(target)
                both = ast.copy_location(ast.BinOp(old, op, value), statement)
                kept = isinstance(target, ast.Attribute)
                self.bind(target, (self._unnoted if kept else self._operand)(both, way), way)
            case ast.Assert(test=test):
                asked = self.test(test, way)
                way.checks.append(build.choose(asked, build.TRUE, Raises(NONE)))
            case ast.Raise():
                return Given(Raises(NONE))
            case ast.Return(value=value):
                return self._over(way, value)
            case _:
                form = STATEMENTS.get(type(statement), type(statement).__name__)
                refuse(f"has {form}", statement)
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

    def _helper(self, call: ast.Call, way: Way) -> None:
        """Call what may write fields of `self`: a method of it, of which nothing else is asked."""
        match call.func:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if self._is_self(name, way):
                found = static_attribute(type(self._names.owner), attr)
            case _:
                found = MISSING
        if not isinstance(found, FunctionType) or found.__code__.co_flags & CO_GENERATOR:
            self._operand(call, way)
            return
        reader = self.reader(way)
        args, named = call_arguments(reader, call)
        way.checks += reader.checks
        names, owner = Names(found, self._names.owner), Thing(self._names.owner)
        node, bound = opened_call(found, [owner, *args], named, call)
        if isinstance(node, ast.Lambda):
            refuse(f"calls {attr}, a lambda, for what it does", call)
        inner = Follower(
            names, emits=False, generator=False, asked=False, depth=self._depth + 1
        )
        if self._depth >= MOST_DEPTH or names.self_name is None:
            refuse(f"calls {attr}, too deep inside others,", call)
        passed = inner.passed(node.body, Way(bound, fields=way.fields))
        way.checks += passed.checks
        way.fields = passed.fields

    def _is_self(self, name: str, way: Way) -> bool:
        held = way.bound.get(name)
        return isinstance(held, Thing) and held.value is self._names.owner is not None

    def reader(self, way: Way) -> Reader:
        """What reads expressions at this place."""
        # Statements hold expressions, expressions hold calls, and calls open statements again.
        return Reader(self._names, way.bound, lower_call, result_of, self._depth, way.fields)

    def _unnoted(self, node: ast.expr, way: Way) -> Operand:
        """What a field becomes: it is evaluated, as the field is what the way comes to."""
        reader = self.reader(way)
        made = reader.operand(node)
        way.checks += reader.checks
        return made

    def _operand(self, node: ast.expr, way: Way) -> Operand:
        reader = self.reader(way)
        made = reader.operand(node)
        reader.note(made)
        way.checks += reader.checks
        return made

    def test(self, node: ast.expr, way: Way) -> Expression:
        """What an if or assert asks; whoever branches by it evaluates it."""
        reader = self.reader(way)
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
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                way.fields is not None and attr in way.fields and self._is_self(name, way)
            ):
                way.fields[attr] = as_expression(made, target)
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
    given = args if owner is None else (Thing(owner), *args)
    node, bound = opened_call(function, given, named, at)
    generator = is_generator(node)
    if generator and not emits:
        refuse(f"calls {function.__name__}, a generator", at or ast.Pass())
    names, way = Names(function, owner), Way(bound)
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


def _loaded(target: ast.Name | ast.Attribute) -> ast.expr:
    """A name or field that is assigned to, as it is read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
