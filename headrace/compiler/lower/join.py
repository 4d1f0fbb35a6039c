"""Lowers a step behind a GroupByKey that does nothing but loop over the values of each key.

Takes a DoFn and what its groups are made of, gives a `LoweredJoin`: what one turn of the innermost
loop gives, as an expression of the key and of the values that the loops are at. Such a function
may be called for each pair of values by itself, so nothing may go from one turn to the next, and
nothing that stands outside of the innermost loop may raise. Knows Beam's CoGroupByKey by its code
alone.
"""

from __future__ import annotations

import ast
import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType

from apache_beam.transforms import util

from headrace.compiler.code.names import Names
from headrace.compiler.code.subject import (
    Emits,
    Takes,
    asks_for_window,
    closure_of,
    lifecycle,
    subject_of,
    wrapped_callable,
)
from headrace.compiler.lower.build import Unlowerable, construct
from headrace.compiler.lower.ends import End
from headrace.compiler.lower.one_step import (
    MOMENTS,
    NotLowered,
    element_of,
    lower,
    lowered_of,
    with_window,
)
from headrace.compiler.lower.operands import Operand, operand_of, refuse
from headrace.compiler.lower.parameters import opened_call
from headrace.compiler.lower.reductions import refuse_values, values_from
from headrace.compiler.lower.statements import Follower, Way
from headrace.plan.expressions import Constant, Construct, Leaf, Lowered
from headrace.plan.joins import (
    CollectedSides,
    GroupStep,
    LoweredJoin,
    ReducedGroups,
    reduced_shape,
)
from headrace.plan.lowered_steps import Folding, LoweredStep, Ranged
from headrace.plan.shapes import OTHER, Shape, TupleShape, certain, width

_LOGGER = logging.getLogger(__name__)
#: What a function with more loops than a join of two sides has is asked for.
MOST_LOOPS = 2
#: Stands for the values of a group, or for its sides: nothing but a loop can use it.
_VALUES = Leaf(-1, OTHER, "values")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What the groups of a GroupByKey are made of."""

    key: Shape
    values: Shape | None = None  # None: of several shapes
    sides: Mapping[str, Shape] | None = None  # by their tags, where each value is (tag, value)
    is_collected: bool = False  # whether there is a list for each side already


def tagged(gives: Sequence[LoweredStep | None]) -> Group | None:
    """The groups of pairs that several steps give, of a tag and a value each; None: they do not."""
    keys: set[Shape] = set()
    sides: dict[str, Shape] = {}
    for each in gives:
        match each.gives if isinstance(each, Lowered) else None:
            case Construct(
                items=(key, Construct(items=(Constant(value=str() as tag), value), shape=pair))
            ) if type(pair) is TupleShape and tag not in sides:
                keys.add(certain(key.shape))
                sides[tag] = value.shape
            case _:
                return None
    return Group(key=keys.pop(), sides=sides) if len(keys) == 1 else None


def lower_group(
    dofn: object, group: Group, args: Sequence[object], kwargs: Mapping[str, object]
) -> GroupStep | NotLowered:
    """What a DoFn makes of groups."""
    collected = _collected(dofn, group)
    if collected is not None:
        return collected
    try:
        return _joined(dofn, group, args, kwargs)
    except Unlowerable as e:
        return NotLowered(str(e))
    except Exception as e:  # odd code must cost speed, never the pipeline
        _LOGGER.debug("a step was not lowered", exc_info=True)
        return NotLowered(f"the analysis gave up on its code ({type(e).__name__})")


def lower_reduced(
    dofn: object, key: Shape, args: Sequence[object], kwargs: Mapping[str, object]
) -> ReducedGroups | NotLowered:
    """What a DoFn makes of groups of ints, of which it asks what they add up to."""
    element = construct([element_of(key, "key"), values_from(width(key))])
    made = lower(dofn, reduced_shape(key), args, kwargs, element)
    if isinstance(made, Ranged):
        return NotLowered("gives many outputs for each of its groups")
    if isinstance(made, NotLowered):
        return made
    if isinstance(made, Lowered) and made.gives is None:
        return NotLowered("hands on its groups as they are")
    try:
        refuse_values((made.feeds if isinstance(made, Folding) else made).roots)
    except Unlowerable as e:
        return NotLowered(str(e))
    return ReducedGroups(each=made)


@functools.cache
def _collecting() -> CodeType | None:
    """The code of the function by which Beam's CoGroupByKey makes lists of tagged values."""
    for inner in util._CoGBKImpl.expand.__code__.co_consts:  # noqa: SLF001 (there is no other door)
        if isinstance(inner, CodeType) and inner.co_freevars == ("tags",):
            return inner
    return None


def _collected(dofn: object, group: Group) -> CollectedSides | None:
    target = wrapped_callable(dofn)
    if group.sides is None or group.is_collected or not isinstance(target, FunctionType):
        return None
    if target.__code__ != _collecting() or subject_of(dofn).takes is not Takes.SPREAD:
        return None
    tags = closure_of(target).get("tags")
    if not isinstance(tags, list) or set(tags) != set(group.sides):
        return None
    return CollectedSides(tags=tuple(tags))


def _joined(
    dofn: object, group: Group, args: Sequence[object], kwargs: Mapping[str, object]
) -> LoweredJoin:
    for name, _ in lifecycle(dofn):
        msg = f"has {name}"
        raise Unlowerable(msg)
    subject = subject_of(dofn)
    function = subject.function
    if subject.emits is not Emits.ITEMS or not isinstance(function, FunctionType):
        msg = "takes each group as a whole"
        raise Unlowerable(msg)
    key = element_of(group.key, "key")
    whole: list[Operand] = [construct([key, _VALUES])]
    given = [key, _VALUES] if subject.takes is Takes.SPREAD else whole
    given = [*given, *map(operand_of, args)]
    named = {name: operand_of(value) for name, value in kwargs.items()}
    window = asks_for_window(function)
    if window is not None and window not in named:
        # Where its leaves stand follows from the loops: they are followed once to find out.
        first = _Loops(function, subject.owner, group)
        first.follow(given, {**named, window: element_of(MOMENTS, "window")})
        named[window] = element_of(MOMENTS, "window", width(first.shape))
    loops = _Loops(function, subject.owner, group)
    end = loops.follow(given, named)
    made = lowered_of(end, loops.shape, Emits.ITEMS)
    if made.micros is not None:
        msg = "gives its outputs a time"
        raise Unlowerable(msg)
    return LoweredJoin(
        tags=tuple(group.sides or ()), loops=loops.tags,
        each=made if window is None else with_window(made),
    )


class _Loops:
    """The loops of one function, the outermost first."""

    def __init__(self, function: FunctionType, owner: object | None, group: Group) -> None:
        self._function, self._owner, self._group = function, owner, group
        self._names = Names(function, owner)
        self._follower = Follower(
            self._names, emits=True, generator=True, asked=False, depth=0
        )
        self._lists: dict[str, str | None] = {}  # local names of lists, by their tags
        self._found: list[tuple[str | None, Shape]] = []

    @property
    def tags(self) -> tuple[str, ...]:
        """The sides that are looped over."""
        return tuple(tag for tag, _ in self._found if tag is not None)

    @property
    def shape(self) -> TupleShape:
        """Of the key and a value of each loop."""
        return TupleShape((self._group.key, *(shape for _, shape in self._found)))

    def follow(self, given: Sequence[Operand], named: Mapping[str, Operand]) -> End:
        """Where one turn of the innermost loop leads."""
        own = given if self._owner is None else (operand_of(self._owner), *given)
        node, bound = opened_call(self._function, own, named, None)
        way, body = Way(bound), node.body
        if isinstance(body, ast.expr):
            body = [ast.copy_location(ast.Return(body), body)]
        return self._block(body, way)

    def _block(self, body: Sequence[ast.stmt], way: Way) -> End:
        """Follow statements to the loop at their end and into it, or those of the innermost."""
        loop = _loop_at_end(body)
        if loop is None and not self._found:
            refuse("has no loop over the values of its groups", body[-1])
        if loop is None:
            return self._follower.end(body, way)
        for statement in body[:-1]:
            self._before(statement, way)
        return self._turn(loop, way)

    def _before(self, statement: ast.stmt, way: Way) -> None:
        """Follow a statement in front of a loop: it may name things, and do nothing else."""
        if isinstance(statement, ast.Assign) and self._names_lists(statement, way):
            return
        if isinstance(statement, ast.If) or self._follower.statement(statement, way) is not None:
            refuse("does more than begin before its loop", statement)
        if way.checks or way.given is not None:
            refuse("may raise before its loop, or gives something there", statement)

    def _names_lists(self, statement: ast.Assign, way: Way) -> bool:
        """Note the names that an assignment gives to lists of values; False: to other things."""
        (target,) = statement.targets if len(statement.targets) == 1 else (None,)
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
            if len(pairs) != len(target.elts) or len(pairs) != len(statement.value.elts):
                return False
        found: dict[str, str | None] = {}
        for name, value in pairs:
            if not isinstance(name, ast.Name) or not (made := self._list(value, way)):
                return False
            found[name.id] = made[0]
        self._lists |= found
        return True

    def _list(self, node: ast.expr, way: Way) -> tuple[str | None] | None:
        """The tag of the list that an expression is; None in it where groups have one list."""
        match node:
            case ast.Name(id=name) if name in self._lists:
                return (self._lists[name],)
            case ast.Call(func=ast.Name(id="list"), args=[inner], keywords=[]):
                builtin = self._names.value_of_name("list") is list
                return self._list(inner, way) if builtin else None
            case ast.Subscript(value=base, slice=ast.Constant(value=str() as tag)):
                sides = self._group.sides
                known = self._group.is_collected and sides is not None and tag in sides
                return (tag,) if known and self._is_values(base, way) else None
            case _:
                alone = not self._group.is_collected and self._group.values is not None
                return (None,) if alone and self._is_values(node, way) else None

    def _is_values(self, node: ast.expr, way: Way) -> bool:
        """Whether an expression is the values of the group: a local name, or its second item."""
        match node:
            case ast.Name(id=name):
                return way.bound.get(name) is _VALUES
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=1)):
                group = way.bound.get(name)
                return isinstance(group, Construct) and group.items[-1] is _VALUES
            case _:
                return False

    def _turn(self, loop: ast.For, way: Way) -> End:
        """Follow a loop into one of its turns."""
        found = self._list(loop.iter, way)
        if found is None:
            refuse("loops over something else than the values of its groups", loop.iter)
        (tag,) = found
        if len(self._found) == MOST_LOOPS or any(tag == known for known, _ in self._found):
            refuse("has more loops than a join of two sides", loop.iter)
        again = _assigned(loop) & {*way.bound, *self._lists}
        if again:
            refuse(f"keeps {min(again)} from turn to turn", loop.iter)
        if any(isinstance(n, ast.Return) for n in ast.walk(loop)):
            refuse("returns out of its loop", loop.iter)
        shape = self._group.values if tag is None else (self._group.sides or {})[tag]
        assert shape is not None
        element = element_of(shape, tag or "value", width(self.shape))
        self._found.append((tag, shape))
        self._follower.bind(loop.target, element, way)
        if way.checks:
            refuse("may raise where its loop begins", loop.iter)
        return self._block(loop.body, way)


def _loop_at_end(body: Sequence[ast.stmt]) -> ast.For | None:
    """The loop that some statements end with; a comprehension is one."""
    match body[-1]:
        case ast.For(orelse=[]) as loop:
            return loop
        case ast.Return(value=ast.ListComp() | ast.GeneratorExp() as made):
            return _as_loop(made)
        case ast.Expr(value=ast.YieldFrom(value=ast.GeneratorExp() as made)):
            return _as_loop(made)
        case _:
            return None


def _as_loop(made: ast.ListComp | ast.GeneratorExp) -> ast.For:
    """A comprehension as the loop that it stands for."""
    inside: ast.stmt = ast.Expr(ast.Yield(made.elt))
    for each in reversed(made.generators):
        for test in reversed(each.ifs):
            inside = ast.If(test, [inside], [])
        inside = ast.For(each.target, each.iter, [inside], [])
    assert isinstance(inside, ast.For)
    return ast.fix_missing_locations(ast.copy_location(inside, made))


def _assigned(loop: ast.For) -> set[str]:
    """The names that a loop gives values to."""
    return {
        n.id for n in ast.walk(loop)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)
    }
