"""Combines that columns compute: what a value brings, how accumulators merge, what they come to.

Takes a CombineFn and what the compiler found of it, gives a `KnownCombine`, for whole numbers only:
floats add up to something else in another order. Where columns are not sure, the CombineFn itself
is asked, with objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from apache_beam.transforms import combiners, core

from headrace.plan.combines import Combined, Fold, LoweredCombine, SeveralCombines
from headrace.plan.expressions import Construct, Lowered
from headrace.plan.shapes import (
    FLOAT,
    INT,
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    ScalarShape,
    TupleShape,
    certain,
)
from headrace.worker.batched.accumulators import Accumulators, Reduce, reduced
from headrace.worker.batched.column_batches import RowNumbers
from headrace.worker.batched.column_groups import (
    Numbers,
    counts,
    int_greatest,
    int_least,
    int_sums,
)
from headrace.worker.beam_types import CombineFn, OfOne, Value
from headrace.worker.columns.column import Column
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues

Listed = Callable[[Numbers, RowNumbers, int], list[int]]
#: For each leaf of an accumulator the numbers that values bring; None: one each.
Feeds = Sequence[Numbers | None]
_BUILTIN_FUNCTIONS = (sum, min, max)
#: Combines of Beam's that are several others side by side.
SEVERAL = (combiners.TupleCombineFn, combiners.SingleInputTupleCombineFn)
_NUMBERS = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCombine:
    """A combine whose accumulators are computed from columns."""

    accumulators: Accumulators
    feed: Callable[[ColumnValues], Feeds | None]  # None: only the CombineFn can take the values
    merge: Callable[[Value, Value], Value]  # an older and a newer accumulator, as objects
    extract: Callable[[ColumnValues], ColumnValues | None]  # None: only the CombineFn knows
    make: Callable[[Feeds, RowNumbers, int], list[Value]] | None = None  # where 64 bits are too few
    seeds: tuple[int, ...] = ()  # where leaves begin that are least or greatest

    def columns(self, feeds: Feeds, numbers: RowNumbers, groups: int) -> list[Numbers] | None:
        """Give the leaves of one accumulator per group; None if 64 bits might not hold one."""
        found: list[Numbers] = []
        for given, how in zip(feeds, self.accumulators.reduces, strict=True):
            if given is None:
                found.append(np.bincount(numbers, minlength=groups))
                continue
            made = reduced([given], [how], numbers, groups)
            if made is None:
                return None
            found += made
        for place, seed in enumerate(self.seeds):
            match self.accumulators.reduces[place]:
                case Reduce.LEAST:
                    found[place] = np.minimum(found[place], seed)
                case Reduce.GREATEST:
                    found[place] = np.maximum(found[place], seed)
                case Reduce.SUM:
                    pass  # it begins with nothing
        return found


def builtin_of(combine_fn: CombineFn) -> OfOne | None:
    """Give the builtin inside Beam's callable wrapper, whose accumulators are lists of values."""
    if isinstance(combine_fn, core.CallableWrapperCombineFn):
        function = combine_fn._fn  # noqa: SLF001 (Beam's own wrapper has no public door)
        if function in _BUILTIN_FUNCTIONS:
            return function  # type: ignore[no-any-return]
    return None


def known_combine(
    combine_fn: CombineFn, lowered: Combined | None = None
) -> KnownCombine | None:
    """Give how a CombineFn is computed on columns of whole numbers; None if only it knows.

    Args:
        combine_fn: Beam's or the user's.
        lowered: what the compiler found of its methods.
    """
    builtin = builtin_of(combine_fn)
    if builtin is not None:
        return _BUILTINS[builtin]
    if type(combine_fn) is combiners.CountCombineFn:
        return _COUNT
    if type(combine_fn) is combiners.MeanCombineFn:
        return _MEAN
    if type(combine_fn) in SEVERAL:
        parts = lowered.parts if isinstance(lowered, SeveralCombines) else ()
        return _of_several(combine_fn, parts)
    return _of_user(combine_fn, lowered) if isinstance(lowered, LoweredCombine) else None


# Beam's own ---------------------------------------------------------------------------------------


def _ints(values: ColumnValues) -> Numbers | None:
    """Give the whole numbers that values are; None if one is missing, or is something else."""
    shape = values.shape
    if type(shape) is not ScalarShape or shape.kind is not ScalarKind.INT:
        return None
    (column,) = values.leaves
    if column.missing is not None:
        return None
    found: Numbers = column.data
    return found


def _value(values: ColumnValues) -> Feeds | None:
    found = _ints(values)
    return None if found is None else [found]


def _value_and_one(values: ColumnValues) -> Feeds | None:
    found = _ints(values)
    return None if found is None else [found, None]


def _wrapped(how: Reduce, reduce: Listed, function: OfOne) -> KnownCombine:
    """Beam's wrapper of a callable: an accumulator is a list of values."""

    def make(feeds: Feeds, numbers: RowNumbers, groups: int) -> list[Value]:
        assert feeds[0] is not None
        return [[value] for value in reduce(feeds[0], numbers, groups)]

    return KnownCombine(
        accumulators=Accumulators(shape=FixedList((INT,)), reduces=(how,)),
        feed=_value,
        make=make,
        merge=lambda old, new: [function([*new, *old])],
        extract=lambda found: found.part(0),
    )


def _mean(feeds: Feeds, numbers: RowNumbers, groups: int) -> list[Value]:
    assert feeds[0] is not None
    totals = int_sums(feeds[0], numbers, groups)
    return list(zip(totals, counts(numbers, groups), strict=True))


def _mean_of(found: ColumnValues) -> ColumnValues:
    """Divide as Beam does: both as floats; a mean of nothing is none."""
    total, count = (leaf.data.astype(np.float64) for leaf in found.leaves)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(count == 0, np.nan, total / count)
    return ColumnValues(FLOAT, [Column(ScalarKind.FLOAT, means)], len(found))


_BUILTINS: dict[OfOne, KnownCombine] = {
    sum: _wrapped(Reduce.SUM, int_sums, sum),
    min: _wrapped(Reduce.LEAST, int_least, min),
    max: _wrapped(Reduce.GREATEST, int_greatest, max),
}
_COUNT = KnownCombine(
    accumulators=Accumulators(shape=INT, reduces=(Reduce.SUM,)),
    feed=lambda _: [None],
    merge=lambda old, new: old + new,
    extract=lambda found: found,
)
_MEAN = KnownCombine(
    accumulators=Accumulators(shape=TupleShape((INT, INT)), reduces=(Reduce.SUM, Reduce.SUM)),
    feed=_value_and_one,
    make=_mean,
    merge=lambda old, new: (old[0] + new[0], old[1] + new[1]),
    extract=_mean_of,
)


# Several side by side -----------------------------------------------------------------------------


def _of_several(combine_fn: CombineFn, lowered: Sequence[Combined | None]) -> KnownCombine | None:
    """Beam's tuple of combines: an accumulator is a list with one of each of them."""
    fns = combine_fn._combiners  # noqa: SLF001 (Beam's own has no public door)
    found = [
        known_combine(fn, part)
        for fn, part in zip(fns, lowered or [None] * len(fns), strict=True)
    ]
    parts = [part for part in found if part is not None]
    if not parts or len(parts) < len(found):
        return None
    shared = type(combine_fn) is combiners.SingleInputTupleCombineFn  # all are given the same

    def feed(values: ColumnValues) -> Feeds | None:
        brought: list[Numbers | None] = []
        if not shared and not _has_items(values, len(parts)):
            return None
        for place, part in enumerate(parts):
            feeds = part.feed(values if shared else values.part(place))
            if feeds is None:
                return None
            brought += feeds
        return brought

    def extract(accumulators: ColumnValues) -> ColumnValues | None:
        made = [part.extract(accumulators.part(place)) for place, part in enumerate(parts)]
        known = [result for result in made if result is not None]
        if len(known) < len(made):
            return None
        shape = TupleShape(tuple(result.shape for result in known))
        leaves = [leaf for result in known for leaf in result.leaves]
        return ColumnValues(shape, leaves, len(accumulators))

    return KnownCombine(
        accumulators=Accumulators(
            shape=FixedList(tuple(part.accumulators.shape for part in parts)),
            reduces=tuple(how for part in parts for how in part.accumulators.reduces),
        ),
        feed=feed,
        merge=lambda old, new: [
            part.merge(a, b) for part, a, b in zip(parts, old, new, strict=True)
        ],
        extract=extract,
        seeds=tuple(seed for part in parts for seed in _seeds(part)),
    )


def _has_items(values: ColumnValues, count: int) -> bool:
    """Whether values are tuples or lists of so many items: of others, some would be left out."""
    shape = values.shape
    if isinstance(shape, ScalarShape | DictShape):
        return False
    if isinstance(shape, RecordShape) and not shape.is_tuple:
        return False
    return len(shape.items) == count


def _seeds(part: KnownCombine) -> tuple[int, ...]:
    """Where each leaf begins; of Beam's own nothing changes the first value that comes."""
    if part.seeds:
        return part.seeds
    ends = {
        Reduce.SUM: 0, Reduce.LEAST: _NUMBERS.max, Reduce.GREATEST: _NUMBERS.min,
    }
    return tuple(ends[how] for how in part.accumulators.reduces)


# The user's ---------------------------------------------------------------------------------------

_REDUCES = {Fold.SUM: Reduce.SUM, Fold.LEAST: Reduce.LEAST, Fold.GREATEST: Reduce.GREATEST}


def _of_user(combine_fn: CombineFn, lowered: LoweredCombine) -> KnownCombine:
    bring = kernel_of(
        Lowered(
            shape=lowered.value,
            gives=Construct(lowered.feeds, TupleShape((INT,) * len(lowered.feeds))),
        )
    )
    come_to = kernel_of(lowered.extract)

    def feed(values: ColumnValues) -> Feeds | None:
        if values.shape != lowered.value:
            if certain(values.shape) != lowered.value:
                return None
            if any(leaf.missing is not None for leaf in values.leaves):
                return None
            values = ColumnValues(lowered.value, values.leaves, len(values))
        outcome = bring(values)
        if outcome.back is not None:
            return None
        return [leaf.data for leaf in outcome.values.leaves]

    def extract(found: ColumnValues) -> ColumnValues | None:
        outcome = come_to(found)
        return None if outcome.back is not None else outcome.values

    return KnownCombine(
        accumulators=Accumulators(
            shape=lowered.shape, reduces=tuple(_REDUCES[fold] for fold in lowered.folds)
        ),
        feed=feed,
        merge=lambda old, new: combine_fn.merge_accumulators([old, new]),
        extract=extract,
        seeds=lowered.seeds,
    )
