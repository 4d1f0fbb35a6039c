"""Pairs that came to a grouping as columns, until somebody asks for them.

Takes pairs with their windows, gives them as tables of objects, key by key, like all others; or,
where they are accumulators that columns can merge and who follows takes columns, one merged
accumulator for each key, window by window. Knows no store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from headrace.plan.shapes import FixedList, Shape, TupleShape
from headrace.worker.batched.accumulators import Accumulators, Held, Partials, Reduce, keyed
from headrace.worker.batched.column_groups import Numbers, group_columns, in_groups
from headrace.worker.batched.near_numbers import by_number
from headrace.worker.beam_types import Key, Value
from headrace.worker.checks.verified_columns import verify_accumulator
from headrace.worker.columns.values import ColumnValues, concatenate, of_objects
from headrace.worker.exchange.keyed_columns import Keyed, Span

#: Rows that are made objects at once: their columns and their objects stand side by side.
SPREAD_ROWS = 1 << 18
#: The values of each key of each window.
Tables = dict[Span, dict[Key, list[Value]]]


class TableKeys(NamedTuple):
    """What stands for keys in tables of objects: see `BoundedGrouper.table_key`."""

    of: Callable[[ColumnValues], list[Key]]
    real: Callable[[Key], Key]  # the key that one of them stands for


class Merging(NamedTuple):
    """How accumulators that come as columns are merged."""

    accumulators: Accumulators
    merge: Callable[[list[Value]], Value] | None = None  # given: all is merged in both ways
    step: str = ""


class ColumnTables:
    """What came as columns, in the order of its coming.

    Args:
        global_span: the window of pairs that name none.
        keys: what stands for keys in tables of objects.
        merging: given where the pairs are accumulators that columns can merge.
    """

    def __init__(
        self, global_span: Span, keys: TableKeys, merging: Merging | None = None
    ) -> None:
        self._global = global_span
        self._keys = keys
        self.merging = merging
        self._numbers: dict[Span, int] = {}
        self._spans: list[Span] = []  # by their numbers
        self._shape: Shape | None = None
        self._held: list[tuple[ColumnValues, Numbers]] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def clear(self) -> None:
        """Forget everything."""
        self._numbers, self._spans, self._shape, self._held = {}, [], None, []

    def add(self, keyed: Keyed, shared: Callable[[list[Span]], list[Span]]) -> bool:
        """Take pairs; False: they have to be objects, as accumulators of another shape have.

        Args:
            keyed: the pairs.
            shared: gives the windows, or the slice, under which values of some windows are kept.
        """
        if self.merging is not None and self._shape not in (None, keyed.pairs.shape):
            return False
        sets = [shared(spans) for spans in keyed.windows] or [[self._global]]
        sizes = set(map(len, sets))
        if len(sizes) != 1:
            return False
        self._shape = keyed.pairs.shape
        table = np.array([[self._number(span) for span in spans] for spans in sets])
        size, copies = len(keyed.pairs), sizes.pop()
        pairs = keyed.pairs
        if keyed.places is None and copies == 1:  # one number that stands for all rows
            self._held.append((pairs, np.broadcast_to(table[0], (size,))))
            return True
        places = np.zeros(size, np.int64) if keyed.places is None else keyed.places
        if copies > 1:
            pairs = pairs.take(np.repeat(np.arange(size), copies))
        self._held.append((pairs, table[places].reshape(-1)))
        return True

    def _number(self, span: Span) -> int:
        number = self._numbers.get(span)
        if number is None:
            number = self._numbers[span] = len(self._spans)
            self._spans.append(span)
        return number

    # -- as objects

    def spread(self, tables: Tables) -> None:
        """Add everything to tables of objects, and forget it: what is done leaves the memory."""
        waiting, self._held = deque(self._held), []
        while waiting:
            part = [waiting.popleft()]
            shape, rows = part[0][0].shape, len(part[0][1])
            while waiting and rows < SPREAD_ROWS and waiting[0][0].shape == shape:
                part.append(waiting.popleft())
                rows += len(part[-1][1])
            pairs, numbers = _joined(part)
            part.clear()
            self._spread(pairs, numbers, tables)
        self.clear()

    def _spread(self, pairs: ColumnValues, numbers: Numbers, tables: Tables) -> None:
        found = group_columns(pairs.part(0), numbers)
        keys, groups = self._keys.of(found.keys), found.listed()
        places, ends = in_groups(groups.numbers, len(groups))
        values = pairs.part(1).take(places).objects()
        assert groups.starts is not None
        begin = 0
        for key, number, end in zip(keys, groups.starts, ends, strict=True):
            table = tables.setdefault(self._spans[number], {})
            known = table.get(key)
            if known is None:
                table[key] = values[begin:end]
            else:
                known += values[begin:end]
            begin = end

    # -- as columns

    def parts(self) -> list[ColumnValues]:
        """Give the pairs as they came, batch by batch."""
        return [pairs for pairs, _ in self._held]

    def by_span(self) -> dict[Span, list[ColumnValues]]:
        """Give the pairs of each window in the order of their coming, those of a shape together."""
        found: dict[Span, list[ColumnValues]] = {}
        by_shape: dict[Shape, list[tuple[ColumnValues, Numbers]]] = {}
        for held in self._held:
            by_shape.setdefault(held[0].shape, []).append(held)
        for each in by_shape.values():
            for span, part in self._cut(*_joined(each)):
                found.setdefault(span, []).append(part)
        return found

    def _cut(self, pairs: ColumnValues, of: Numbers) -> Iterator[tuple[Span, ColumnValues]]:
        """Give each window the pairs that have its number."""
        ends = np.cumsum(np.bincount(of, minlength=len(self._spans))).tolist()
        if len(ends) > 1:
            pairs = pairs.take(by_number(of, len(self._spans)))
        for span, begin, end in zip(self._spans, [0, *ends], ends, strict=False):
            if end > begin:
                yield span, pairs.slice(begin, end)

    def absorb(self, tables: Tables) -> bool:
        """Take over the objects of tables; False: they are no columns, all stays as it is."""
        if not tables:
            return True
        if self._shape is None or len({pairs.shape for pairs, _ in self._held}) != 1:
            return False
        found: list[tuple[ColumnValues, Span]] = []
        for span, table in tables.items():
            real = self._keys.real
            pairs = [(real(key), value) for key, values in table.items() for value in values]
            made = of_objects(pairs, self._shape)
            if made is None:
                return False
            found.append((made, span))
        for made, span in found:
            self._held.append((made, np.full(len(made), self._number(span))))
        tables.clear()
        return True

    def rows(self) -> dict[Span, int]:
        """Give how many pairs each window has."""
        counts = np.zeros(len(self._spans), np.int64)
        for _, numbers in self._held:
            counts += np.bincount(numbers, minlength=len(counts))
        return {s: n for s, n in zip(self._spans, counts.tolist(), strict=True) if n}

    def keep(self, wanted: Callable[[Span], bool]) -> None:
        """Forget what came for other windows than some."""
        chosen = np.array([wanted(span) for span in self._spans], np.bool_)
        kept: list[tuple[ColumnValues, Numbers]] = []
        for pairs, numbers in self._held:
            mask = chosen[numbers]
            if mask.all():
                kept.append((pairs, numbers))
            elif mask.any():
                kept.append((pairs.filter(mask), numbers[mask]))
        self._held = kept

    def only(self, wanted: Callable[[Span], bool]) -> ColumnTables:
        """Give a copy that has but some of the windows."""
        made = ColumnTables(self._global, self._keys, self.merging)
        made.__dict__.update(
            _numbers=dict(self._numbers), _spans=list(self._spans), _shape=self._shape,
            _held=list(self._held),
        )
        made.keep(wanted)
        return made

    def merged(self) -> dict[Span, ColumnValues] | None:
        """Give one accumulator for each window and key; None: a sum might not fit.

        Everything stays as it is.
        """
        assert self.merging is not None
        partials = Partials(self.merging.accumulators)
        pairs, numbers = _joined(self._held)
        partials.add(pairs, numbers)
        if not partials.merge():
            return None
        made, of = partials.take()
        assert of is not None
        if self.merging.merge is not None:
            self._verify(self.merging, pairs, numbers, Held(made, of))
        return dict(self._cut(made, of))

    def _verify(
        self, merging: Merging, pairs: ColumnValues, numbers: Numbers, made: Held
    ) -> None:
        """Merge objects too, and compare."""
        assert merging.merge is not None
        wanted: dict[tuple[int, Value], list[Value]] = {}
        for number, (key, value) in zip(numbers.tolist(), pairs.objects(), strict=True):
            wanted.setdefault((number, key), []).append(value)
        assert made.windows is not None
        for number, (key, value) in zip(made.windows.tolist(), made.pairs.objects(), strict=True):
            verify_accumulator(merging.step, key, merging.merge(wanted[number, key]), value)


def _joined(held: Sequence[tuple[ColumnValues, Numbers]]) -> tuple[ColumnValues, Numbers]:
    pairs = concatenate([pairs for pairs, _ in held])
    return pairs, np.concatenate([numbers for _, numbers in held])


def together(parts: list[ColumnValues], accumulators: Accumulators) -> ColumnValues | None:
    """Merge accumulators by key, whatever their windows; None: a sum might not fit."""
    if len(parts) == 1:
        return parts[0]
    found = _side_by_side(parts, accumulators)
    if found is not None:
        return found
    partials = Partials(accumulators)
    for part in parts:
        partials.add(part, None)
    return partials.take().pairs if partials.merge() else None


def _side_by_side(parts: list[ColumnValues], accumulators: Accumulators) -> ColumnValues | None:
    """Merge accumulators row by row where all parts have the same keys in the same order."""
    first, *others = (part.part(0) for part in parts)
    if not all(isinstance(leaf.data, np.ndarray) for leaf in first.leaves):
        return None
    for other in others:
        pairs = zip(first.leaves, other.leaves, strict=True)
        if not all(np.array_equal(a.data, b.data) for a, b in pairs):
            return None
    made: list[Numbers] = []
    for place, how in enumerate(accumulators.reduces):
        columns = [part.part(1).leaves[place].data for part in parts]
        far = max(max(-int(c.min()), int(c.max())) for c in columns)
        if how is Reduce.SUM and far * len(parts) >= 1 << 63:
            return None
        made.append(reduce(OF_TWO[how], columns))
    return keyed(first, parts[0].part(1).shape, made)


#: Merges the numbers of two accumulators.
OF_TWO = {Reduce.SUM: np.add, Reduce.LEAST: np.minimum, Reduce.GREATEST: np.maximum}


def as_groups(pairs: ColumnValues) -> ColumnValues:
    """Give pairs of keys and accumulators as groups, each of which has that one accumulator."""
    assert isinstance(pairs.shape, TupleShape)
    key, value = pairs.shape.items
    return ColumnValues(TupleShape((key, FixedList((value,)))), pairs.leaves, len(pairs))


def grouped_objects(
    keyed: Keyed, table_keys: TableKeys
) -> Iterator[tuple[list[Span], list[Key], list[list[Value]]]]:
    """Give pairs by their windows: keys, and the values of each."""
    numbered = group_columns(keyed.pairs.part(0), keyed.places)
    keys, groups = table_keys.of(numbered.keys), numbered.listed()
    places, ends = in_groups(groups.numbers, len(groups))
    values = keyed.pairs.part(1).take(places).objects()
    lists = [values[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    found: dict[int, list[int]] = {}
    for number, place in enumerate(groups.starts or [0] * len(groups)):
        found.setdefault(place, []).append(number)
    for place, those in found.items():
        windows = keyed.windows[place] if keyed.windows else []
        yield windows, [keys[i] for i in those], [lists[i] for i in those]
