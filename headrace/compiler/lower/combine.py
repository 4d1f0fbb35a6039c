"""Lowers a combine: from the methods of a CombineFn to a fold for each number of its accumulators.

Takes a CombineFn and the shape of what it combines. Gives a `LoweredCombine`, or the reason why
there is none. An accumulator has to be a whole number or a tuple of such, and `add_input` and
`merge_accumulators` have to treat each of them by itself, as a sum, a minimum or a maximum: then
the order and the grouping in which values are combined make no difference.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Sequence
from types import FunctionType

from apache_beam.transforms.core import CombineFn

from headrace.compiler.code.names import Names, static_attribute
from headrace.compiler.code.source import nodes_of
from headrace.compiler.lower.build import Unlowerable
from headrace.compiler.lower.ends import value_of
from headrace.compiler.lower.folds import folded
from headrace.compiler.lower.loops import Loop
from headrace.compiler.lower.one_step import NotLowered, element_of
from headrace.compiler.lower.operands import refuse
from headrace.compiler.lower.statements import end_of
from headrace.compiler.lower.times import refuse_stamped
from headrace.plan.combines import Fold, LoweredCombine
from headrace.plan.expressions import (
    Constant,
    Construct,
    Expression,
    Leaf,
    Lowered,
    moved,
    nodes,
)
from headrace.plan.shapes import INT, Shape, TupleShape, width

_LOGGER = logging.getLogger(__name__)

#: Methods that must be Beam's own: what the user's do instead is not looked at.
_BEAMS = ("add_inputs", "compact", "setup", "teardown", "apply")
_BUILTINS: dict[object, Fold] = {sum: Fold.SUM, min: Fold.LEAST, max: Fold.GREATEST}


def lower_combine(fn: object, value: Shape) -> LoweredCombine | NotLowered:
    """What a CombineFn computes from values of a shape."""
    try:
        return _lowered(fn, value)
    except Unlowerable as e:
        return NotLowered(str(e))
    except Exception as e:  # odd code must cost speed, never the pipeline
        _LOGGER.debug("a combine was not lowered", exc_info=True)
        return NotLowered(f"the analysis gave up on its code ({type(e).__name__})")


def _lowered(fn: object, value: Shape) -> LoweredCombine:
    for name in _BEAMS:
        if static_attribute(type(fn), name) is not static_attribute(CombineFn, name):
            msg = f"has {name}"
            raise Unlowerable(msg)
    begun = end_of(plain_method(fn, "create_accumulator"), fn, [], {}, emits=False)
    seeds, shape = _seeds(value_of(begun))
    size = len(seeds)
    accumulator, it = element_of(shape, "accumulator"), element_of(value, "x", size)
    added = value_of(end_of(plain_method(fn, "add_input"), fn, [accumulator, it], {}, emits=False))
    folded = [_fold(part, place, size) for place, part in enumerate(_parts(added, shape))]
    folds = tuple(fold for fold, _ in folded)
    if any(fold is Fold.SUM and seed for fold, seed in zip(folds, seeds, strict=True)):
        msg = "adds to what does not begin with 0"
        raise Unlowerable(msg)
    merges = _merges(plain_method(fn, "merge_accumulators"), fn, shape, seeds)
    if merges != folds:
        msg = "merges accumulators in another way than it adds values"
        raise Unlowerable(msg)
    got = value_of(
        end_of(plain_method(fn, "extract_output"), fn, [element_of(shape, "x")], {}, emits=False)
    )
    refuse_stamped(got)
    return LoweredCombine(
        value=value,
        shape=shape,
        folds=folds,
        feeds=tuple(moved(feed, -size) for _, feed in folded),
        seeds=seeds,
        extract=Lowered(shape=shape, gives=got),
    )


def plain_method(fn: object, name: str) -> FunctionType:
    """Give a method that can be followed: one of the class, written in Python."""
    found = static_attribute(type(fn), name)
    if not isinstance(found, FunctionType) or name in getattr(fn, "__dict__", {}):
        msg = f"has no plain method {name}"
        raise Unlowerable(msg)
    return found


def _seeds(made: Expression) -> tuple[tuple[int, ...], Shape]:
    """Where accumulators begin, and what they are."""
    items = made.items if isinstance(made, Construct) else (made,)
    found = [item.value for item in items if isinstance(item, Constant)]
    ints = [value for value in found if type(value) is int and abs(value) < 1 << 63]
    plain = not isinstance(made, Construct) or type(made.shape) is TupleShape
    if not items or len(ints) != len(items) or not plain:
        msg = f"begins with {made}, which is no tuple of whole numbers"
        raise Unlowerable(msg)
    shape: Shape = TupleShape((INT,) * len(ints)) if isinstance(made, Construct) else INT
    return tuple(ints), shape


def _parts(made: Expression, shape: Shape) -> tuple[Expression, ...]:
    """The numbers of an accumulator that a method gives."""
    if made.shape != shape or (isinstance(shape, TupleShape) and not isinstance(made, Construct)):
        msg = f"gives {made} as an accumulator"
        raise Unlowerable(msg)
    return made.items if isinstance(made, Construct) else (made,)


def _fold(part: Expression, place: int, size: int) -> tuple[Fold, Expression]:
    """How a number of an accumulator changes, and by what; that looks at no accumulator."""
    found = folded(part, place)
    if found is None or found[1].shape != INT or _places(found[1]) & set(range(size)):
        msg = f"computes {part} for number {place} of its accumulators"
        raise Unlowerable(msg)
    return found


def _places(node: Expression) -> set[int]:
    return {n.place for n in nodes(node) if isinstance(n, Leaf)}


# Merging ------------------------------------------------------------------------------------------


def _merges(
    function: FunctionType, owner: object, shape: Shape, seeds: tuple[int, ...]
) -> tuple[Fold, ...]:
    """How the numbers of several accumulators become one."""
    found = nodes_of(function.__code__)
    node = found[0] if len(found) == 1 else None
    if not isinstance(node, ast.FunctionDef):
        msg = "the source of merge_accumulators is not at hand"
        raise Unlowerable(msg)
    names = [a.arg for a in node.args.args]
    if len(names) != 2 or node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        msg = "merge_accumulators takes other arguments than the accumulators"
        raise Unlowerable(msg)
    body = [s for s in node.body if not _is_text(s)]
    known = Names(function, owner)
    match body:
        case [ast.Return(value=ast.expr() as value)]:
            return _at_once(value, names[1], known, shape)
        case [
            ast.Assign(
                targets=[ast.Tuple(elts=columns)],
                value=ast.Call(
                    func=ast.Name(id="zip"), args=[ast.Starred(value=ast.Name(id=it))],
                    keywords=[] | [ast.keyword(arg="strict")],  # all accumulators are of one length
                ),
            ),
            ast.Return(value=ast.Tuple(elts=given)),
        ] if it == names[1] and known.value_of_name("zip") is zip:
            return _by_column(columns, given, known, shape)
        case [*before, ast.For(iter=ast.Name(id=it), orelse=[]) as loop, ast.Return() as last] if (
            it == names[1]
        ):
            return _by_loop(function, owner, before, loop, last, shape, seeds)
        case _:
            refuse("merges accumulators in a way that is not known", node)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _builtin(node: ast.expr, known: Names) -> tuple[Fold, ast.expr] | None:
    """What is reduced by `sum`, `min` or `max`."""
    match node:
        case ast.Call(func=ast.Name() as name, args=[given], keywords=[]):
            fold = _BUILTINS.get(known.value(name))
            return None if fold is None else (fold, given)
        case _:
            return None


def _at_once(value: ast.expr, it: str, known: Names, shape: Shape) -> tuple[Fold, ...]:
    """`sum(accumulators)`."""
    found = _builtin(value, known)
    if found is None or shape != INT or not isinstance(found[1], ast.Name) or found[1].id != it:
        refuse("merges accumulators in a way that is not known", value)
    return (found[0],)


def _by_column(
    columns: Sequence[ast.expr], given: Sequence[ast.expr], known: Names, shape: Shape
) -> tuple[Fold, ...]:
    """`a, b = zip(*accumulators)`, then `return sum(a), min(b)`."""
    names = [c.id for c in columns if isinstance(c, ast.Name)]
    found = [_builtin(each, known) for each in given]
    wanted = [f[1].id for f in found if f is not None and isinstance(f[1], ast.Name)]
    if len(names) != width(shape) or names != wanted or len(found) != len(columns):
        refuse("merges accumulators in a way that is not known", given[0])
    return tuple(f[0] for f in found if f is not None)


def _by_loop(
    function: FunctionType,
    owner: object,
    before: Sequence[ast.stmt],
    loop: ast.For,
    last: ast.Return,
    shape: Shape,
    seeds: tuple[int, ...],
) -> tuple[Fold, ...]:
    """Variables that begin as accumulators do, a loop that folds, and a return of them."""
    assert last.value is not None
    given = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    names = [name.id for name in given if isinstance(name, ast.Name)]
    if len(names) != len(seeds) or len(set(names)) != len(names) or len(given) != len(names):
        refuse("gives something else than what its loop has merged", last)
    tuple_given = isinstance(last.value, ast.Tuple)
    if tuple_given != isinstance(shape, TupleShape):
        refuse("gives another accumulator than it begins with", last)
    follow = Loop(function, owner)
    begun = follow.bound(before)
    for name, seed in zip(names, seeds, strict=True):
        first = begun.get(name)
        if not isinstance(first, Constant) or type(first.value) is not int or first.value != seed:
            refuse(f"{name} does not begin as accumulators do", loop)
    size = len(seeds)
    held: dict[str, Expression] = {
        name: Leaf(place, INT, name) for place, name in enumerate(names)
    }
    after = follow.after(loop, held, element_of(shape, "other", size))
    folds = []
    for place, name in enumerate(names):
        found = folded(after[name], place)
        other = None if found is None else found[1]
        if found is None or not isinstance(other, Leaf) or other.place != size + place:
            refuse(f"computes {after[name]} for {name}", loop)
        folds.append(found[0])
    return tuple(folds)
