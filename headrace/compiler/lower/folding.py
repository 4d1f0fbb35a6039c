"""Lowers a DoFn that gives nothing and does nothing but fold its elements into fields of its own.

Takes the DoFn and what its `process` is given, gives the fields, how each changes, and what an
element brings to it. A field begins with whatever the DoFn's other methods make it: whoever
computes the folds looks whether that is a whole number.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType

import apache_beam as beam
from apache_beam.transforms.core import CallableWrapperDoFn

from headrace.compiler.code.names import MISSING, Names, static_attribute
from headrace.compiler.code.source import is_generator, nodes_of, own_nodes
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable
from headrace.compiler.lower.constants import held_by
from headrace.compiler.lower.fields import written_fields
from headrace.compiler.lower.folds import folded
from headrace.compiler.lower.operands import Operand, Thing
from headrace.compiler.lower.parameters import opened_call
from headrace.compiler.lower.statements import Follower, Way
from headrace.compiler.lower.times import refuse_stamped
from headrace.plan.combines import Fold
from headrace.plan.expressions import Expression, Leaf, Lowered, nodes
from headrace.plan.lowered_steps import Folding
from headrace.plan.shapes import INT, ScalarKind, ScalarShape, Shape

_WHOLE = (ScalarKind.INT, ScalarKind.BOOL)


def only_folds(dofn: object, process: object) -> bool:
    """Whether a DoFn gives nothing, and writes into fields of its own."""
    if not isinstance(dofn, beam.DoFn) or isinstance(dofn, CallableWrapperDoFn):
        return False
    found = nodes_of(process.__code__) if isinstance(process, FunctionType) else ()
    if len(found) != 1 or not isinstance(found[0], ast.FunctionDef) or is_generator(found[0]):
        return False
    gives = any(isinstance(n, ast.Return) and n.value is not None for n in own_nodes(found[0]))
    return not gives and bool(written_fields(dofn))


def folding_of(
    dofn: object,
    process: FunctionType,
    shape: Shape,
    given: Sequence[Operand],
    named: Mapping[str, Operand],
) -> Folding:
    """What `process` folds into which fields."""
    held_by_class = {n for n in written_fields(dofn) if _is_special(type(dofn), n)}
    if held_by_class or not held_by(dofn):
        msg = "keeps fields in another way than objects do"
        raise Unlowerable(msg)
    begun: dict[str, Expression] = {
        name: Leaf(-place, INT, f"self.{name}")  # no leaf of an element, all of which are 0 or more
        for place, name in enumerate(sorted(written_fields(dofn)), start=1)
    }
    node, bound = opened_call(process, [Thing(dofn), *given], named, None)
    assert isinstance(node, ast.FunctionDef)
    follower = Follower(
        Names(process, dofn), emits=False, generator=False, asked=False, depth=0
    )
    way = follower.passed(node.body, Way(bound, fields=dict(begun)))
    assert way.fields is not None
    changed = [name for name in begun if way.fields[name] is not begun[name]]
    found = [_folded(name, begun[name], way.fields[name]) for name in changed]
    if not found:
        msg = "gives no output"
        raise Unlowerable(msg)
    feeds = build.construct([feed for _, feed in found])
    gives = build.checked(way.checks, feeds)
    refuse_stamped(gives)
    if any(isinstance(n, Leaf) and n.place < 0 for n in nodes(gives)):
        msg = "looks at what it keeps"
        raise Unlowerable(msg)
    return Folding(
        names=tuple(changed), folds=tuple(fold for fold, _ in found),
        feeds=Lowered(shape=shape, gives=gives),
    )


def _folded(name: str, own: Expression, after: Expression) -> tuple[Fold, Expression]:
    assert isinstance(own, Leaf)
    found = folded(after, own.place)
    kind = found[1].shape if found is not None else None
    if found is None or not isinstance(kind, ScalarShape) or kind.kind not in _WHOLE or (
        found[0] is not Fold.SUM and kind.kind is not ScalarKind.INT
    ):
        msg = f"computes {after} for {name}"
        raise Unlowerable(msg)
    return found


def _is_special(cls: type, name: str) -> bool:
    """Whether setting a field does something else than to set it."""
    plain = getattr(cls, "__setattr__", None) is object.__setattr__
    found = static_attribute(cls, name)
    return not plain or (found is not MISSING and hasattr(type(found), "__set__"))
