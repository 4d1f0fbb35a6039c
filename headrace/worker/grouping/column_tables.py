"""Pairs that came to a grouping as columns, until somebody asks for them.

Takes pairs with their windows, gives them as tables of objects, key by key, like all others; or,
where they are accumulators that columns can merge and who follows takes columns, one merged
accumulator for each key, window by window. Knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from headrace.plan.shapes import OneInList, Shape, TupleShape
from headrace.worker.batched.accumulators import Accumulators, Held, Partials
from headrace.worker.batched.column_groups import Numbers, group_columns, in_groups
from headrace.worker.batched.verified_columns import verify_accumulator
from headrace.worker.beam_types import Key, Value
from headrace.worker.columns.values import ColumnValues, concatenate, of_objects
from headrace.worker.exchange.keyed_columns import Keyed, Span

#: The values of each key of each window.
Tables = dict[Span, dict[Key, list[Value]]]


class Merging(NamedTuple):
    """How accumulators that come as columns are merged."""

    accumulators: Accumulators
    merge: Callable[[list[Value]], Value] | None = None  # given: all is merged in both ways
    step: str = ""


class ColumnTables:
    """What came as columns, in the order of its coming.

    Args:
        global_span: the window of pairs that name none.
        merging: given where the pairs are accumulators that columns can merge.
    """

    def __init__(self, global_span: Span, merging: Merging | None = None) -> None:
        self._global = global_span
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
        """Take pairs; False: they are of another shape than those that are held.

        Args:
            keyed: the pairs.
            shared: gives the windows, or the slice, under which values of some windows are kept.
        """
        if self._shape not in (None, keyed.pairs.shape):
            return False
        sets = [shared(spans) for spans in keyed.windows] or [[self._global]]
        sizes = set(map(len, sets))
        if len(sizes) != 1:
            return False
        self._shape = keyed.pairs.shape
        table = np.array([[self._number(span) for span in spans] for spans in sets])
        size, copies = len(keyed.pairs), sizes.pop()
        places = np.zeros(size, np.int64) if keyed.places is None else keyed.places
        pairs = keyed.pairs
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
        """Add everything to tables of objects, and forget it."""
        if not self._held:
            return
        pairs, numbers = self._joined()
        groups = group_columns(pairs.leaves[0].arrow(), numbers).listed()
        places, ends = in_groups(groups.numbers, len(groups))
        values = pairs.part(1).take(places).objects()
        assert groups.starts is not None
        begin = 0
        for key, number, end in zip(groups.keys, groups.starts, ends, strict=True):
            table = tables.setdefault(self._spans[number], {})
            known = table.get(key)
            if known is None:
                table[key] = values[begin:end]
            else:
                known += values[begin:end]
            begin = end
        self.clear()

    def _joined(self) -> tuple[ColumnValues, Numbers]:
        pairs = concatenate([pairs for pairs, _ in self._held])
        return pairs, np.concatenate([numbers for _, numbers in self._held])

    # -- as columns

    def absorb(self, tables: Tables) -> bool:
        """Take over the objects of tables; False: they are no columns, all stays as it is."""
        if not tables:
            return True
        if self._shape is None:
            return False
        found: list[tuple[ColumnValues, Span]] = []
        for span, table in tables.items():
            pairs = [(key, value) for key, values in table.items() for value in values]
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
        made = ColumnTables(self._global, self.merging)
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
        pairs, numbers = self._joined()
        partials.add(pairs, numbers)
        if not partials.merge():
            return None
        made, of = partials.take()
        assert of is not None
        if self.merging.merge is not None:
            self._verify(self.merging, pairs, numbers, Held(made, of))
        short = of.astype(np.uint16) if len(self._spans) <= 1 << 16 else of
        order = np.argsort(short, kind="stable")
        ends = np.cumsum(np.bincount(of, minlength=len(self._spans))).tolist()
        made = made.take(order)
        bounds = zip(self._spans, [0, *ends], ends, strict=False)
        return {span: made.slice(begin, end) for span, begin, end in bounds if end > begin}

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


def together(parts: list[ColumnValues], accumulators: Accumulators) -> ColumnValues | None:
    """Merge accumulators by key, whatever their windows; None: a sum might not fit."""
    if len(parts) == 1:
        return parts[0]
    partials = Partials(accumulators)
    for part in parts:
        partials.add(part, None)
    return partials.take().pairs if partials.merge() else None


def as_groups(pairs: ColumnValues) -> ColumnValues:
    """Give pairs of keys and accumulators as groups, each of which has that one accumulator."""
    assert isinstance(pairs.shape, TupleShape)
    key, value = pairs.shape.items
    return ColumnValues(TupleShape((key, OneInList((value,)))), pairs.leaves, len(pairs))


def grouped_objects(keyed: Keyed) -> Iterator[tuple[list[Span], list[Key], list[list[Value]]]]:
    """Give pairs by their windows: keys, and the values of each."""
    groups = group_columns(keyed.pairs.leaves[0].arrow(), keyed.places).listed()
    places, ends = in_groups(groups.numbers, len(groups))
    values = keyed.pairs.part(1).take(places).objects()
    lists = [values[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    found: dict[int, list[int]] = {}
    for number, place in enumerate(groups.starts or [0] * len(groups)):
        found.setdefault(place, []).append(number)
    for place, those in found.items():
        windows = keyed.windows[place] if keyed.windows else []
        yield windows, [groups.keys[i] for i in those], [lists[i] for i in those]
