"""Combining before the exchange on columns of pairs.

Takes pairs as columns, gives for each window and key an accumulator, as the CombineFn would have
made it of the same values: for known combines of whole numbers computed on the columns, for any
other the list of a key's values, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.transforms import combiners
from numpy.typing import NDArray

from headrace.plan.shapes import ScalarKind, ScalarShape, TupleShape
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import Micros, Places, Started
from headrace.worker.batched.column_groups import (
    Groups,
    counts,
    groups_of,
    in_groups,
    int_greatest,
    int_least,
    int_sums,
)
from headrace.worker.beam_types import CombineFn, Value
from headrace.worker.columns.column import Column, concatenated
from headrace.worker.columns.values import ColumnValues, concatenate

#: Keys that a dict and their encoding tell apart in the same way; see `plain_values`.
_KEYS = frozenset({ScalarKind.INT, ScalarKind.TEXT, ScalarKind.BYTES})

Numbers: TypeAlias = NDArray[np.int64]
Reduce = Callable[[Numbers, Places, int], list[int]]
#: The values of a combine that does not look at them.
NO_NUMBERS: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCombine:
    """A combine whose accumulators are computed from columns."""

    make: Callable[[Numbers, Places, int], list[Value]]  # one accumulator per group
    merge: Callable[[Value, Value], Value]  # an older and a newer accumulator
    wants_values: bool = True  # else it is enough to know the groups


def _wrapped(reduce: Reduce, function: Callable[[Any], Any]) -> KnownCombine:
    """Beam's wrapper of a callable: an accumulator is a list of values."""
    return KnownCombine(
        make=lambda values, numbers, groups: [[v] for v in reduce(values, numbers, groups)],
        merge=lambda old, new: [function([*new, *old])],
    )


def _count(_: Numbers, numbers: Places, groups: int) -> list[Value]:
    return counts(numbers, groups)


def _mean(values: Numbers, numbers: Places, groups: int) -> list[Value]:
    return list(
        zip(int_sums(values, numbers, groups), counts(numbers, groups), strict=True)
    )


_BUILTINS: dict[Callable[[Any], Any], KnownCombine] = {
    sum: _wrapped(int_sums, sum),
    min: _wrapped(int_least, min),
    max: _wrapped(int_greatest, max),
}
_COUNT = KnownCombine(make=_count, merge=lambda old, new: old + new, wants_values=False)
_MEAN = KnownCombine(make=_mean, merge=lambda old, new: (old[0] + new[0], old[1] + new[1]))


def known_combine(
    combine_fn: CombineFn, builtin: Callable[[Any], Any] | None
) -> KnownCombine | None:
    """Give how a CombineFn is computed on columns of whole numbers; None if only it knows.

    Args:
        combine_fn: Beam's or the user's.
        builtin: the builtin inside, if it is Beam's wrapper of one.
    """
    if builtin is not None:
        return _BUILTINS[builtin]
    if type(combine_fn) is combiners.CountCombineFn:
        return _COUNT
    return _MEAN if type(combine_fn) is combiners.MeanCombineFn else None


class Pairs(NamedTuple):
    """Keys and values as columns, with the windows they stand in."""

    keys: Column
    values: ColumnValues
    windows: Any  # Started, or the windows that all of them share

    def goes_with(self, other: Pairs) -> bool:
        """Whether both can be one batch."""
        if self.values.shape != other.values.shape or self.keys.kind is not other.keys.kind:
            return False
        if type(self.windows) is Started and type(other.windows) is Started:
            return self.windows.known is other.windows.known
        return self.windows is other.windows


def pairs_of(values: ColumnValues, meta: Meta) -> Pairs | None:
    """Take a batch of pairs apart; None if its keys cannot be told apart as columns."""
    shape = values.shape
    if type(shape) is not TupleShape or len(shape.items) != 2:
        return None
    key = shape.items[0]
    if type(key) is not ScalarShape or key.kind not in _KEYS:
        return None
    keys = values.leaves[0]
    return None if keys.missing is not None else Pairs(keys, values.part(1), meta.windows)


def owned(pairs: Pairs) -> Pairs:
    """Give the same pairs without the batch they came in: one column would keep all of it."""
    values = pairs.values
    leaves = [_copied(leaf) for leaf in values.leaves]
    windows = pairs.windows
    if type(windows) is Started:
        windows = Started(windows.starts.copy(), windows.known)
    return Pairs(_copied(pairs.keys), ColumnValues(values.shape, leaves, len(values)), windows)


def _copied(column: Column) -> Column:
    data = column.data
    copy = data.copy() if isinstance(data, np.ndarray) else pa.concat_arrays([data, data[:0]])
    return replace(column, data=copy)


def text_bytes(column: Column) -> int:
    """Give the bytes of a column whose values differ in size; numbers count as nothing."""
    return 0 if isinstance(column.data, np.ndarray) else int(column.data.nbytes)


def joined(parts: list[Pairs]) -> Pairs:
    """Make one batch of several that go with each other."""
    if len(parts) == 1:
        return parts[0]
    windows = parts[0].windows
    if type(windows) is Started:
        windows = Started(
            np.concatenate([part.windows.starts for part in parts]), windows.known
        )
    keys = concatenated([part.keys for part in parts])
    return Pairs(keys, concatenate([part.values for part in parts]), windows)


def grouped(pairs: Pairs, by_window: bool) -> Groups:
    """Number the pairs by key, and by window if asked to."""
    starts: Micros | None = None
    if by_window and type(pairs.windows) is Started:
        starts = pairs.windows.starts
    return groups_of(pairs.keys.arrow(), starts)


def numbers_for(known: KnownCombine | None, values: ColumnValues) -> Numbers | None:
    """Give what a known combine is computed from; None if only the CombineFn can take it."""
    if known is None:
        return None
    if not known.wants_values:
        return NO_NUMBERS
    shape = values.shape
    if type(shape) is not ScalarShape or shape.kind is not ScalarKind.INT:
        return None
    (column,) = values.leaves
    return None if column.missing is not None else column.data


def lists(pairs: Pairs, groups: Groups) -> list[list[Value]]:
    """Give the values of each group, in their order."""
    places, ends = in_groups(groups.numbers, len(groups))
    found = pairs.values.take(places).objects()
    return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def windows_of(pairs: Pairs, groups: Groups) -> list[tuple[Any, list[int]]]:
    """Give each set of windows, with the numbers of its groups."""
    if groups.starts is None:
        return [(pairs.windows, list(range(len(groups))))]
    found: dict[int, list[int]] = {}
    for number, start in enumerate(groups.starts):
        found.setdefault(start, []).append(number)
    return [(pairs.windows.known[start], numbers) for start, numbers in found.items()]
