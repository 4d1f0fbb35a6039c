"""Steps behind a GroupByKey that ask of their groups' values only what they add up to.

Takes the groups of a window while they are pairs of columns, gives the step one row for each group:
its key and the numbers that stand for its values. Where the step has to look at the group itself,
its values are found again by the group's number. Groups of objects take the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.plan.expressions import Leaf, Lowered, nodes
from headrace.plan.joins import REDUCED, ReducedGroups
from headrace.plan.lowered_steps import Folding
from headrace.plan.shapes import INT, ScalarKind, TupleShape, certain, fits, width
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import COLUMN_ROWS, ColumnNode, Node
from headrace.worker.batched.column_groups import (
    Numbers,
    greatest,
    group_columns,
    in_groups,
    least,
    sums,
)
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.beam_types import Value
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues


class GroupLists:
    """The values of the groups that a step is at, as lists where it asks for them."""

    def __init__(self) -> None:
        self._values: ColumnValues | None = None
        self._numbers: Numbers | None = None
        self._groups = 0
        self._lists: list[list[Value]] | None = None

    def begin(self, values: ColumnValues, numbers: Numbers, groups: int) -> None:
        """Take the values of a window, with the number of the group of each."""
        self._values, self._numbers, self._groups, self._lists = values, numbers, groups, None

    def end(self) -> None:
        """Let them go."""
        self._values = self._numbers = self._lists = None

    def all(self) -> list[list[Value]]:
        """Give the values of all groups, in the order of their coming."""
        if self._lists is None:
            assert self._values is not None
            assert self._numbers is not None
            places, ends = in_groups(self._numbers, self._groups)
            values = self._values.take(places).objects()
            self._lists = [values[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        return self._lists

    def group(self, row: Value) -> Value:
        """Give the group that a row stands for."""
        key, (number, *_) = row
        return key, self.all()[number]


class ReduceNode:
    """A step of the user's that asks what the values of each key add up to.

    Args:
        known: what it was found to ask and to do.
        step: takes a row for each group.
        lists: where the step finds the groups themselves.
        rows: the same step for groups of objects.
    """

    def __init__(
        self, known: ReducedGroups, step: ColumnNode, lists: GroupLists, rows: Node
    ) -> None:
        of_one = known.each.feeds if isinstance(known.each, Folding) else known.each
        self._step = step
        self._lists = lists
        self._rows = rows
        self._shape = _of_groups(of_one)
        self._key = self._shape.items[0]
        asked = {n.place for root in of_one.roots for n in nodes(root) if isinstance(n, Leaf)}
        start = width(self._key)
        self._asked = {name for at, name in enumerate(REDUCED, start) if at in asked}

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take groups of objects."""
        self._rows(values, meta)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """Whether these pairs, batch by batch, are what the step is known for."""
        shapes = {part.shape for part in parts}
        if len(shapes) != 1:
            return False
        key, value = shapes.pop().items  # type: ignore[union-attr]
        if certain(value) != INT or not fits(key, self._key):
            return False
        missing = (part.leaves[-1].missing for part in parts)
        return not any(each is not None and each.any() for each in missing)

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Take the groups of a window."""
        (part,) = groups.parts
        values = part.part(1)
        numbers, keys, _ = group_columns(part.part(0), None)
        self._lists.begin(values, numbers, len(keys))
        try:
            reduced = self._reduced(values.leaves[0].data, numbers, len(keys))
            if reduced is None:  # a sum needs more than 64 bits, for all that is known
                pairs = zip(keys.objects(), self._lists.all(), strict=True)
                self._rows(list(pairs), meta)
                return
            leaves = [*keys.leaves, *(Column(ScalarKind.INT, each) for each in reduced)]
            rows = ColumnValues(self._shape, leaves, len(keys))
            for start in range(0, len(rows), COLUMN_ROWS):
                self._step.columns(rows.slice(start, start + COLUMN_ROWS), meta)
        finally:
            self._lists.end()

    def _reduced(self, values: Numbers, numbers: Numbers, groups: int) -> list[Numbers] | None:
        """Give what stands for the values of each group; what nobody asks for is nothing."""
        found = {"number": np.arange(groups)}
        if "count" in self._asked:
            found["count"] = np.bincount(numbers, minlength=groups).astype(np.int64)
        if "least" in self._asked:
            found["least"] = least(values, numbers, groups)
        if "greatest" in self._asked:
            found["greatest"] = greatest(values, numbers, groups)
        if "sum" in self._asked:
            added = sums(values, numbers, groups)
            if added is None:
                return None
            found["sum"] = added
        nothing = np.zeros(groups, np.int64)
        return [found.get(name, nothing) for name in REDUCED]


def _of_groups(known: Lowered) -> TupleShape:
    shape = known.shape
    if known.window:
        assert isinstance(shape, TupleShape)
        shape = shape.items[0]
    assert isinstance(shape, TupleShape)
    return shape
