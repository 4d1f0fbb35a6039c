"""Reads functions that go through a range of ints and give at most one output for each of them.

Takes the function and what it is given, gives the bounds of the range and what one number comes to;
nothing where the function has another form. The forms: `return range(...)`, a comprehension or a
generator expression over one, and a `for` over one as the last statement of a generator.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TypeVar

from headrace.compiler.code.names import Names
from headrace.compiler.code.source import is_generator, nodes_of
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable, constant, kind_of
from headrace.compiler.lower.calls import call_arguments
from headrace.compiler.lower.ends import given_of, kept_of
from headrace.compiler.lower.operands import Operand, Thing, as_expression, refuse
from headrace.compiler.lower.parameters import opened_call
from headrace.compiler.lower.raising import may_raise
from headrace.compiler.lower.statements import Follower, Way
from headrace.compiler.lower.times import unstamped
from headrace.plan.expressions import (
    Constant,
    Construct,
    Expression,
    Leaf,
    Lowered,
    Operation,
    moved,
)
from headrace.plan.lowered_steps import Ranged, with_number
from headrace.plan.shapes import INT, NONE, ScalarKind, Shape

_T = TypeVar("_T", bound=ast.AST)
_BREAKING = (ast.Break, ast.Continue, ast.Return, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class _Form:
    """The parts of a function that goes through a range."""

    before: Sequence[ast.stmt]
    numbers: ast.Call  # range(...)
    target: str | None  # the name of a number; None: the numbers themselves are the outputs
    body: Sequence[ast.stmt]  # of one number; yields its output
    is_list: bool = False  # all outputs are there before the first is given


def ranged_of(
    function: FunctionType,
    owner: object | None,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    shape: Shape,
) -> Ranged | None:
    """What a function gives for the numbers of a range; None: it goes through none."""
    names = Names(function, owner)
    found = nodes_of(function.__code__)
    form = _form_of(found[0], names) if len(found) == 1 else None
    if form is None:
        return None
    given = args if owner is None else (Thing(owner), *args)
    _, bound = opened_call(function, given, named, None)
    before = Follower(names, emits=False, generator=False, asked=False, depth=0)
    way = before.passed(form.before, Way(bound))
    bounds = _bounds(before, form.numbers, way)
    body = _body(names, form, way, shape)
    roots = body.roots
    return Ranged(
        bounds=Lowered(shape=shape, gives=build.checked(way.checks, bounds)),
        body=body,
        atomic=form.is_list and any(map(may_raise, roots)),
    )


# Forms --------------------------------------------------------------------------------------------


def _form_of(node: ast.AST, names: Names) -> _Form | None:
    match node:
        case ast.Lambda(body=body):
            return _of_result([], body, names)
        case ast.FunctionDef(body=[*before, last]):
            match last:
                case ast.Return(value=ast.expr() as value) if not is_generator(node):
                    return _of_result(before, value, names)
                case ast.For(target=ast.Name(id=target), iter=numbers, body=turns, orelse=[]) if (
                    is_generator(node) and _is_range(numbers, names)
                ):
                    assert isinstance(numbers, ast.Call)
                    return _Form(before, numbers, target, turns)
                case ast.Expr(value=ast.YieldFrom(value=value)):
                    return _of_result(before, value, names)
    return None


def _of_result(before: Sequence[ast.stmt], value: ast.expr, names: Names) -> _Form | None:
    if _is_range(value, names):
        assert isinstance(value, ast.Call)
        return _Form(before, value, None, [])
    match value:
        case ast.GeneratorExp(elt=elt, generators=[turn]) | ast.ListComp(
            elt=elt, generators=[turn]
        ) if isinstance(turn.target, ast.Name) and not turn.is_async:
            if not _is_range(turn.iter, names):
                return None
            assert isinstance(turn.iter, ast.Call)
            given: ast.stmt = _at(ast.Expr(_at(ast.Yield(elt), elt)), elt)
            for test in reversed(turn.ifs):
                given = _at(ast.If(test, [given], []), test)
            is_list = isinstance(value, ast.ListComp)
            return _Form(before, turn.iter, turn.target.id, [given], is_list)
    return None


def _at(made: _T, place: ast.AST) -> _T:
    return ast.copy_location(made, place)


def _is_range(node: ast.expr, names: Names) -> bool:
    return isinstance(node, ast.Call) and names.value(node.func) is range and not node.keywords


# Parts --------------------------------------------------------------------------------------------


def _bounds(follower: Follower, call: ast.Call, way: Way) -> Construct:
    """Start, stop and step."""
    reader = follower.reader(way)
    args, _ = call_arguments(reader, call)
    way.checks += reader.checks
    given = [as_expression(a, call) for a in args]
    if not 1 <= len(given) <= 3 or any(kind_of(g) is not ScalarKind.INT for g in given):
        refuse("goes through a range of something else than ints", call)
    # Of None it raises, as it does in a sum.
    given = [g if isinstance(g, Constant) else _certain(g) for g in given]
    if len(given) == 1:
        given = [constant(0), *given]
    return build.construct([*given, *[constant(1)][: 3 - len(given)]])


def _certain(node: Expression) -> Expression:
    loose = getattr(node.shape, "nullable", False)
    return build.binary(Operation.ADD, node, constant(0)) if loose else node


def _body(names: Names, form: _Form, way: Way, shape: Shape) -> Lowered:
    """What a number comes to, over the number and the element."""
    number = Leaf(-1, INT, form.target or "number")
    if form.target is None:
        return Lowered(shape=with_number(shape), gives=moved(number, 1))
    bad = next((n for s in form.body for n in ast.walk(s) if isinstance(n, _BREAKING)), None)
    if bad is not None:
        refuse("leaves its loop early", bad)
    # What a turn binds is not there before: what one turn leaves for the next is not followed.
    stored = {
        n.id
        for s in form.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
    bound = {name: operand for name, operand in way.bound.items() if name not in stored}
    turn = Way({**bound, form.target: number})
    follower = Follower(names, emits=True, generator=True, asked=False, depth=0)
    end = follower.end(form.body, turn)
    given = given_of(end)
    if given is None or given.shape == NONE:
        msg = "gives no output" if given is None else "gives nothing but None"
        raise Unlowerable(msg)
    kept = kept_of(end)
    if isinstance(kept, Constant) and kept.value is not True:
        msg = "gives no output"
        raise Unlowerable(msg)
    given, micros = unstamped(given)
    return Lowered(
        shape=with_number(shape),
        gives=moved(given, 1),
        keeps=None if isinstance(kept, Constant) else moved(kept, 1),
        micros=None if micros is None else moved(micros, 1),
    )
