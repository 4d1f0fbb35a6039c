"""Finds the values that a CombineFn passes over: those for which `add_input` gives its accumulator.

Takes a CombineFn and the shape of what it combines. Gives a `SkippingCombine`, or the reason why
there is none. What else `add_input` does is not followed: a way through it that is not understood
may change the accumulator, so the values that take it are all given to the CombineFn. Beam's `Top`
is known: once it has all values that it keeps, it passes over what ranks no higher than the last.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType

from apache_beam.transforms.combiners import TopCombineFn
from apache_beam.transforms.core import CombineFn

from headrace.compiler.code.effects import effects_of
from headrace.compiler.code.names import Names, static_attribute
from headrace.compiler.code.source import nodes_of
from headrace.compiler.lower import build
from headrace.compiler.lower.build import FALSE, TRUE, Unlowerable
from headrace.compiler.lower.combine import plain_method
from headrace.compiler.lower.ends import Given
from headrace.compiler.lower.one_step import NotLowered, element_of, result_of_call
from headrace.compiler.lower.operands import Operand, Thing, refuse
from headrace.compiler.lower.statements import MOST_ENDS, Follower, Way
from headrace.plan.combines import Looks, SkippingCombine
from headrace.plan.expressions import Constant, Expression, Leaf, Lowered, Operation
from headrace.plan.shapes import (
    OTHER,
    ScalarKind,
    ScalarShape,
    Shape,
    TupleShape,
    nullable,
    width,
)

#: What a way through a function leads to.
_Rest = Callable[[Way], Expression]
#: What a part of an accumulator may be for a test to look at it.
_LOOKED_AT = (ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.TEXT, ScalarKind.BYTES)


def lower_skipping(fn: object, value: Shape) -> SkippingCombine | NotLowered:
    """Which values of a shape a CombineFn passes over."""
    try:
        return _lowered(fn, value)
    except Unlowerable as e:
        return NotLowered(str(e))
    except Exception as e:  # noqa: BLE001 (odd code must cost speed, never the pipeline)
        return NotLowered(f"the analysis gave up on its code ({type(e).__name__})")


def _lowered(fn: object, value: Shape) -> SkippingCombine:
    if isinstance(fn, TopCombineFn):
        return _top(fn, value)
    shape = _shape(fn)
    _look_at_add_inputs(fn)
    accumulator = element_of(shape, "accumulator")
    changes = _Ways(fn, accumulator).changes(element_of(value, "x", width(shape)))
    if isinstance(changes, Constant):
        msg = "gives no value's accumulator back as it was"
        raise Unlowerable(msg)
    return SkippingCombine(
        value=value,
        shape=shape,
        changes=Lowered(shape=TupleShape((shape, value)), gives=None, keeps=changes),
    )


_RANKS = {operator.lt: Operation.LESS, operator.gt: Operation.GREATER}


def _top(fn: TopCombineFn, value: Shape) -> SkippingCombine:
    for name in ("create_accumulator", "add_input", "add_inputs"):
        if static_attribute(type(fn), name) is not static_attribute(TopCombineFn, name):
            msg = f"has {name}"
            raise Unlowerable(msg)
    own = vars(fn)
    rank = _RANKS.get(own["_compare"])
    element = element_of(value, "x", 1)
    by = element if own["_key"] is None else result_of_call(own["_key"], element)
    if rank is None or not isinstance(by.shape, ScalarShape) or by.shape.kind not in _LOOKED_AT:
        msg = f"ranks by {by}"
        raise Unlowerable(msg)
    shape = nullable(by.shape)
    least = Leaf(0, shape, "least")
    changes = build.choose(build.is_none(least), TRUE, build.binary(rank, least, by))
    return SkippingCombine(
        value=value,
        shape=shape,
        changes=Lowered(shape=TupleShape((shape, value)), gives=None, keeps=changes),
        looks=Looks.LEAST,
    )


def _shape(fn: object) -> Shape:
    """What accumulators are made of, as far as the first one tells; workers look at each."""
    function = plain_method(fn, "create_accumulator")
    (node,) = nodes_of(function.__code__) or (None,)
    if not isinstance(node, ast.FunctionDef) or len(node.args.args) != 1:
        msg = "the source of create_accumulator is not at hand"
        raise Unlowerable(msg)
    has_doc = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
    way = Way({node.args.args[0].arg: Thing(fn)})
    match node.body[1:] if has_doc else node.body:
        case [ast.Return(value=ast.Tuple(elts=parts))]:
            return TupleShape(tuple(_part(part, function, fn, way) for part in parts))
        case [ast.Return(value=ast.expr() as part)]:
            return _part(part, function, fn, way)
        case _:
            refuse("begins with more than an expression", node)


def _part(part: ast.expr, function: FunctionType, fn: object, way: Way) -> ScalarShape:
    follower = Follower(
        Names(function, fn), emits=False, generator=False, asked=False, depth=0
    )
    try:
        end = follower.statement(ast.copy_location(ast.Return(part), part), way.copy())
    except Unlowerable:
        return OTHER
    shape = end.value.shape if isinstance(end, Given) else OTHER
    known = isinstance(shape, ScalarShape) and shape.kind in _LOOKED_AT and not shape.nullable
    return shape if known and isinstance(shape, ScalarShape) else OTHER


def _look_at_add_inputs(fn: object) -> None:
    """Refuse a method that notes more than accumulators: it would miss what it is not given."""
    if static_attribute(type(fn), "add_inputs") is static_attribute(CombineFn, "add_inputs"):
        return
    found = effects_of(plain_method(fn, "add_inputs"), fn)
    if found.writes or found.doubts or found.dice:
        msg = f"has an add_inputs that may do more than add ({_first(found)})"
        raise Unlowerable(msg)


def _first(found: object) -> str:
    for name in ("writes", "doubts", "dice"):
        for each in getattr(found, name):
            return str(each)
    return ""


class _Ways:
    """The ways through `add_input`."""

    def __init__(self, fn: object, accumulator: Expression) -> None:
        self._fn = fn
        self._function = plain_method(fn, "add_input")
        self._accumulator = accumulator
        self._follower = Follower(
            Names(self._function, fn), emits=False, generator=False, asked=False, depth=0
        )
        self._ends = 0

    def changes(self, value: Expression) -> Expression:
        """Whether a value may change the accumulator."""
        found = nodes_of(self._function.__code__)
        node = found[0] if len(found) == 1 else None
        if not isinstance(node, ast.FunctionDef):
            msg = "the source of add_input is not at hand"
            raise Unlowerable(msg)
        taken = node.args
        names = [a.arg for a in (*taken.posonlyargs, *taken.args)]
        if len(names) != 3 or taken.vararg or taken.kwarg or taken.kwonlyargs:
            refuse("add_input takes other arguments than accumulator and value", node)
        given: tuple[Operand, ...] = (Thing(self._fn), self._accumulator, value)
        return self._of(node.body, Way(dict(zip(names, given, strict=True))))

    def _of(self, statements: Sequence[ast.stmt], way: Way) -> Expression:
        for place, statement in enumerate(statements):
            try:
                if isinstance(statement, ast.If):
                    rest = statements[place + 1 :]
                    bodies = ([*statement.body, *rest], [*statement.orelse, *rest])
                    return self._fork(statement.test, way, *(partial(self._of, b) for b in bodies))
                if isinstance(statement, ast.Return):
                    return self._result(statement.value, way)
                if self._follower.statement(statement, way) is not None:
                    return TRUE
            except Unlowerable:
                return TRUE
        return TRUE

    def _result(self, node: ast.expr | None, way: Way) -> Expression:
        match node:
            case ast.IfExp(test=asked, body=body, orelse=rest):
                return self._fork(
                    asked, way, partial(self._result, body), partial(self._result, rest)
                )
            case ast.Name(id=name) if way.bound.get(name) is self._accumulator:
                return build.checked(way.checks, FALSE)
            case _:
                return TRUE

    def _fork(self, asked: ast.expr, way: Way, then: _Rest, otherwise: _Rest) -> Expression:
        self._ends += 1
        if self._ends > MOST_ENDS:
            return TRUE
        test = self._follower.test(asked, way)
        ways = then(way.copy()), otherwise(way.copy())
        return TRUE if ways == (TRUE, TRUE) else build.choose(test, *ways)
