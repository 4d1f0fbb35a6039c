"""Evaluates expressions on the columns of one batch.

Walks the tree once for each batch; a node that is used twice is computed once. Of two branches both
are computed on all rows, and of each only the rows count that Python would have come to. Decides
nothing about the function: that is done when it is lowered.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.plan.expressions import (
    COMPARISONS,
    Binary,
    Call,
    Checked,
    Choose,
    Constant,
    Construct,
    Either,
    Expression,
    IsNone,
    Leaf,
    Lookup,
    Lowered,
    Member,
    Negative,
    Not,
    Operation,
    Raises,
    operands,
)
from headrace.plan.shapes import ScalarKind, ScalarShape, Shape, leaves_of
from headrace.worker.columns import arithmetic
from headrace.worker.columns.calls import by_python, call
from headrace.worker.columns.column import ARROW, DTYPES, Column, Data, Mask, column_of_objects
from headrace.worker.columns.comparisons import compare, keys_of, values_of
from headrace.worker.columns.values import ColumnValues
from headrace.worker.columns.vectors import Vector, of_column, spread, truth, union, within

_ARROW_KINDS = (ScalarKind.TEXT, ScalarKind.BYTES)
#: Columns of a tuple or record, and the rows that Python has to compute.
Parts: TypeAlias = tuple[list[Column], Mask | None]


def calling(lowered: Lowered) -> frozenset[int]:
    """The nodes, by id, at or below which Python may be called for each row.

    For them it matters which rows count; all others are computed once, on all rows.
    """
    found: set[int] = set()

    def look(node: Expression) -> bool:
        own = isinstance(node, Call) or (
            isinstance(node, Binary) and node.operation is Operation.POWER
        )
        if any([look(below) for below in operands(node)]) or own:
            found.add(id(node))
        return id(node) in found

    for root in lowered.roots:
        look(root)
    return frozenset(found)


def void(shape: Shape, size: int) -> list[Column]:
    """Columns of a shape in which nothing stands."""
    found = []
    for leaf in leaves_of(shape):
        made = column_of_objects([None] * size, ScalarShape(leaf.kind, nullable=True))
        assert made is not None
        found.append(made)
    return found


class Evaluation:
    """The expressions of one function on one batch.

    Args:
        values: the batch.
        calls: the nodes that `calling` has found.
    """

    def __init__(self, values: ColumnValues, calls: frozenset[int]) -> None:
        self._values = values
        self._size = len(values)
        self._calls = calls
        self._known: dict[tuple[int, int], tuple[Vector, Mask | None]] = {}

    def columns(self, node: Expression, active: Mask | None) -> Parts:
        """The columns of a result of any shape; rows outside `active` mean nothing."""
        if isinstance(node, Leaf) and isinstance(node.shape, ScalarShape):
            return [self._values.leaves[node.place]], None  # handed on as it is, read or not
        if isinstance(node.shape, ScalarShape):
            made = self.of(node, active)
            return [made.column(self._size)], made.bad
        match node:
            case Raises(shape=shape):
                return void(shape, self._size), np.ones(self._size, np.bool_)
            case Construct(items=items):
                parts = [self.columns(item, active) for item in items]
                return [c for leaves, _ in parts for c in leaves], union(*(b for _, b in parts))
            case Checked(before=before, value=value):
                checks = [self.columns(b, active)[1] for b in before]
                leaves, bad = self.columns(value, active)
                return leaves, union(bad, *checks)
            case Choose(test=test, then=then, otherwise=otherwise, shape=shape):
                tested = self.of(test, active)
                where = truth(tested, self._size)
                a, bad_a = self._branch(then, shape, _both(active, where))
                b, bad_b = self._branch(otherwise, shape, _both(active, ~where))
                merged = [
                    _merged(where, of_column(x), of_column(y), leaf.kind, self._size)
                    for x, y, leaf in zip(a, b, leaves_of(shape), strict=True)
                ]
                bad = union(tested.bad, within(bad_a, where), within(bad_b, ~where))
                return [m.column(self._size) for m in merged], bad
            case _:
                msg = f"no columns of {type(node).__name__} of shape {node.shape}"
                raise TypeError(msg)

    def _branch(self, node: Expression, shape: Shape, active: Mask) -> Parts:
        return self.columns(Raises(shape) if isinstance(node, Raises) else node, active)

    def of(self, node: Expression, active: Mask | None) -> Vector:
        """The values of a scalar; those of rows outside `active` mean nothing."""
        if id(node) not in self._calls:
            active = None
        key = (id(node), id(active))
        known = self._known.get(key)
        if known is None:
            # The mask is kept beside the result, so that its id is not given to another.
            known = self._known[key] = (self._computed(node, active), active)
        return known[0]

    def _computed(self, node: Expression, active: Mask | None) -> Vector:
        match node:
            case Leaf(place=place):
                return of_column(self._values.leaves[place])
            case Constant(value=value):
                assert isinstance(node.shape, ScalarShape)
                return Vector(node.shape.kind, value, constant=True)
            case Binary():
                return self._binary(node, active)
            case Negative(operand=operand):
                return arithmetic.negative(self.of(operand, active))
            case Not(operand=operand, negated=negated):
                inner = self.of(operand, active)
                found = truth(inner, self._size)
                return Vector(ScalarKind.BOOL, ~found if negated else found, None, inner.bad)
            case IsNone(operand=operand):
                inner = self.of(operand, active)
                gone = inner.all_missing(self._size)
                return Vector(ScalarKind.BOOL, _none(gone, self._size), None, inner.bad)
            case Either() | Choose():
                return self._branches(node, active)
            case Member(operand=operand, values=values):
                inner = self.of(operand, active)
                found = keys_of(values, inner.kind).places(inner, self._size) >= 0
                return Vector(ScalarKind.BOOL, found, None, inner.bad)
            case Lookup():
                return self._lookup(node, active)
            case Call(function=name, arguments=arguments):
                given = [self.of(a, active) for a in arguments]
                return call(name, given, _kind(node), self._size, active)
            case Checked(before=before, value=value):
                checks = [self.columns(b, active)[1] for b in before]
                return self._array(self.of(value, active)).with_bad(*checks)
            case Raises():
                everywhere = np.ones(self._size, np.bool_)
                return Vector(ScalarKind.NONE, None, None, everywhere, constant=True)
            case Construct():
                msg = "a tuple is no scalar"
                raise TypeError(msg)

    def _array(self, vector: Vector) -> Vector:
        """The same, with a value for each row: what has bad rows is no constant."""
        if not vector.constant or vector.kind is ScalarKind.NONE:
            return vector
        return Vector(vector.kind, spread(vector, vector.kind, self._size), None, vector.bad)

    def _binary(self, node: Binary, active: Mask | None) -> Vector:
        left, right = self.of(node.left, active), self.of(node.right, active)
        if node.operation in COMPARISONS:
            return compare(node.operation, left, right, self._size)
        if node.operation is Operation.POWER:
            return by_python(pow, (left, right), _kind(node), self._size, active)
        if left.kind in _ARROW_KINDS:
            return self._joined(left, right)
        return arithmetic.compute(node.operation, left, right)

    def _joined(self, left: Vector, right: Vector) -> Vector:
        """Text and text, or bytes and bytes."""
        kind = ARROW[left.kind]
        a, b = (pa.scalar(v.data, kind) if v.constant else _cast(v.data, kind)
                for v in (left, right))  # fmt: skip
        made = pc.binary_join_element_wise(a, b, pa.scalar("" if left.kind is ScalarKind.TEXT
                                                           else b"", kind))  # fmt: skip
        bad = union(left.bad, right.bad, left.missing, right.missing)
        return Vector(left.kind, made, None, bad)

    def _branches(self, node: Either | Choose, active: Mask | None) -> Vector:
        kind = _kind(node)
        if isinstance(node, Choose):
            tested = self.of(node.test, active)
            where = truth(tested, self._size)
            then = self.of(node.then, _both(active, where))
            otherwise = self.of(node.otherwise, _both(active, ~where))
        else:
            tested = self.of(node.left, active)
            found = truth(tested, self._size)
            where = found if node.is_and else ~found  # where the second operand is the result
            then, otherwise = self.of(node.right, _both(active, where)), tested
        bad = union(tested.bad, within(then.bad, where), within(otherwise.bad, ~where))
        return _merged(where, then, otherwise, kind, self._size).with_bad(bad)

    def _lookup(self, node: Lookup, active: Mask | None) -> Vector:
        operand = self.of(node.operand, active)
        kind = _kind(node)
        places = keys_of(node.keys, operand.kind).places(operand, self._size)
        there = places >= 0
        table = values_of(node.values, kind)
        found = of_column(table.take(np.where(there, places, len(node.values))))
        if node.default is None:
            return found.with_bad(operand.bad, ~there)
        default = self.of(node.default, active)  # evaluated for every row, as an argument is
        made = _merged(there, found, default, kind, self._size)
        return made.with_bad(operand.bad, default.bad)


def _merged(where: Mask, a: Vector, b: Vector, kind: ScalarKind, size: int) -> Vector:
    """`a` where the mask is true, else `b`; says nothing of bad rows."""
    x, y = spread(a, kind, size), spread(b, kind, size)
    missing: Mask | None = None
    gone_a, gone_b = a.all_missing(size), b.all_missing(size)
    if gone_a is not None or gone_b is not None:
        missing = np.where(where, _none(gone_a, size), _none(gone_b, size))
        missing = missing if missing.any() or kind is ScalarKind.NONE else None
    if kind in _ARROW_KINDS:
        data: Data = pc.if_else(pa.array(where), x, _cast(y, x.type))
        return Vector(kind, data, missing)
    if kind is ScalarKind.OTHER:
        x, y = _objects(a, size), _objects(b, size)
    return Vector(kind, np.where(where, x, y), missing)


def _objects(vector: Vector, size: int) -> Data:
    return np.fromiter(vector.objects(size), DTYPES[ScalarKind.OTHER], size)


def _cast(data: Data, kind: Data) -> Data:
    return data if data.type == kind else data.cast(kind)


def _none(mask: Mask | None, size: int) -> Mask:
    return np.zeros(size, np.bool_) if mask is None else mask


def _both(active: Mask | None, where: Mask) -> Mask:
    return where if active is None else active & where


def _kind(node: Expression) -> ScalarKind:
    assert isinstance(node.shape, ScalarShape)
    return node.shape.kind
