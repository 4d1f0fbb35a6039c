"""Steps behind a GroupByKey that take the groups of a window while they are pairs of columns.

Takes pairs whose keys nobody has put together, gives what the user's loops over them give, as
columns. What a turn of the loops gives is a lowered step of its own, of a key and a value of each
loop; it knows the way back to the user's function. Groups of objects take the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from headrace.errors import ColumnsDifferError
from headrace.plan.joins import CollectedSides, LoweredJoin
from headrace.plan.shapes import TEXT, Shape, TupleShape, fits
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.chains import Edge
from headrace.worker.batched.column_batches import COLUMN_ROWS, Node, RowNumbers
from headrace.worker.batched.keyed_rows import KeyedRows, Pairing, Side
from headrace.worker.batched.lowered_step import LoweredStep
from headrace.worker.beam_types import OfOne, Value
from headrace.worker.columns.values import ColumnValues


class CollectedNode:
    """Beam's step that makes lists of tagged values: whoever follows takes the pairs themselves.

    Args:
        collected: the tags.
        rows: the same step for groups of objects.
        edge: where its lists go.
    """

    def __init__(self, collected: CollectedSides, rows: Node, edge: Edge) -> None:
        self._tags = frozenset(collected.tags)
        self._rows = rows
        self._edge = edge

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take groups of objects."""
        self._rows(values, meta)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """Whether pairs are tagged, and of use so."""
        for part in parts:
            tags = _tags_of(part)
            if not tags or not tags <= self._tags:
                return False
        return self._edge.takes_groups(parts)

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Take the groups of a window."""
        self._edge.groups(groups, meta)


class JoinNode:
    """A step of the user's that loops over the values of each key.

    Args:
        join: what it was found to do.
        turns: what each turn gives.
        rows: the same step for groups of objects.
        verified: pairs are made by loops too, and compared.
    """

    def __init__(
        self, join: LoweredJoin, turns: LoweredStep, rows: Node, *, verified: bool
    ) -> None:
        self._join = join
        self._turns = turns
        self._rows = rows
        self._verified = verified
        shape = join.each.shape
        assert isinstance(shape, TupleShape)
        if join.each.window:
            shape = shape.items[0]
            assert isinstance(shape, TupleShape)
        self._shape = shape
        self._key, *self._values = shape.items

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take groups of objects."""
        self._rows(values, meta)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """Whether these pairs, and all others of these shapes, are what the loops are known for."""
        shapes = [part.shape.items for part in parts]  # type: ignore[union-attr]
        keys = {key for key, _ in shapes}
        if len(keys) != 1 or not fits(keys.pop(), self._key):
            return False
        if not self._join.tags:
            values = {value for _, value in shapes}
            return len(values) == 1 and fits(values.pop(), self._values[0])
        tags = list(map(_tags_of, parts))
        for tag, wanted in zip(self._join.loops, self._values, strict=True):
            values = {value for (_, value), its in zip(shapes, tags, strict=True) if tag in its}
            if len(values) > 1 or not all(fits(v, TupleShape((TEXT, wanted))) for v in values):
                return False
        return True

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Take the groups of a window."""
        sides = [self._side(groups, place) for place in range(len(self._values))]
        if any(side is None for side in sides):
            return  # nothing to loop over
        outer, *inners = [side for side in sides if side is not None]
        if not inners:
            for start in range(0, len(outer.values), COLUMN_ROWS):
                rows = np.arange(start, min(start + COLUMN_ROWS, len(outer.values)))
                self._hand_on([outer.keys.take(rows), outer.values.take(rows)], meta)
            return
        (inner,) = inners
        pairing = Pairing(outer, inner)
        ends = pairing.ends()
        total = int(ends[-1])
        if self._verified:
            _verify(pairing, ends)
        for start in range(0, total, COLUMN_ROWS):
            of_outer, of_inner = pairing.rows(ends, start, min(start + COLUMN_ROWS, total))
            self._hand_on(
                [
                    outer.keys.take(of_outer), outer.values.take(of_outer),
                    inner.values.take(of_inner),
                ],
                meta,
            )

    def _hand_on(self, items: Sequence[ColumnValues], meta: Meta) -> None:
        leaves = [leaf for item in items for leaf in item.leaves]
        self._turns.columns(ColumnValues(self._shape, leaves, len(items[0])), meta)

    def _side(self, groups: KeyedRows, loop: int) -> Side | None:
        """Give what a loop goes through; None: nothing at all."""
        if not self._join.tags:
            (part,) = groups.parts
            return groups.side(0, None, part.part(1))
        tag = self._join.loops[loop]
        for place, part in enumerate(groups.parts):
            if tag not in _tags_of(part):
                continue
            tagged = part.part(1)
            chosen = _rows_with(tagged, tag)
            if chosen is None or len(chosen):
                return groups.side(place, chosen, tagged.part(1))
        return None


def turn_of(join: LoweredJoin, function: OfOne) -> OfOne:
    """Give what the user's function gives for one turn of its loops: for a group of one each."""
    if not join.tags:
        return lambda turn: function((turn[0], [turn[1]]))

    def of_sides(turn: Value) -> Value:
        key, *values = turn
        sides: dict[str, list[Value]] = {tag: [] for tag in join.tags}
        for tag, value in zip(join.loops, values, strict=True):
            sides[tag].append(value)
        return function((key, sides))

    return of_sides


def _tags_of(part: ColumnValues) -> frozenset[str]:
    """Give the tags of pairs; none if their values are not tagged."""
    value: Shape = part.shape.items[1]  # type: ignore[union-attr]
    if type(value) is not TupleShape or len(value.items) != 2 or value.items[0] != TEXT:
        return frozenset()
    return frozenset(pc.unique(part.part(1).leaves[0].arrow()).to_pylist())


def _rows_with(tagged: ColumnValues, tag: str) -> RowNumbers | None:
    """Give the rows of a tag; None: all."""
    found = pc.equal(tagged.leaves[0].arrow(), tag).to_numpy(zero_copy_only=False)
    return None if found.all() else np.flatnonzero(found)


def _verify(pairing: Pairing, ends: RowNumbers) -> None:
    """Pair rows by loops as the user's function does, and compare."""
    outer, inner = pairing
    by_key: dict[int, list[int]] = {}
    for row, number in enumerate(inner.numbers.tolist()):
        by_key.setdefault(number, []).append(row)
    wanted = [
        (row, other)
        for row, number in enumerate(outer.numbers.tolist())
        for other in by_key.get(number, ())
    ]
    given: list[tuple[int, int]] = []
    if ends[-1]:
        found = pairing.rows(ends, 0, int(ends[-1]))
        given = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    if wanted != given:
        msg = "columns paired other rows than loops do: run with --columns=off, and report it"
        raise ColumnsDifferError(msg)
