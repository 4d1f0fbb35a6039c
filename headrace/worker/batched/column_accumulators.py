"""What a pre-combiner holds while everything that comes is columns: accumulators as columns.

Takes the leaves of accumulators with their keys and windows, gives them on as a batch of columns,
or, where objects have come in between, as the objects that the CombineFn would have made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.plan.shapes import Shape
from headrace.worker.batched.accumulators import Accumulators, Held, Partials, keyed
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.chains import Edge
from headrace.worker.batched.column_batches import COLUMN_ROWS, Started, TimeColumns, part_of
from headrace.worker.batched.column_groups import GroupColumns, Numbers
from headrace.worker.beam_types import Value, Windows

_GLOBALLY = GlobalWindows.windowed_value(None)


class ColumnAccumulators:
    """Accumulators of one combine, by key and windows.

    Args:
        accumulators: what they are made of.
        default: there is one window, and nobody asks for it.
        shares_windows: one accumulator may stand for several windows.
    """

    def __init__(
        self, accumulators: Accumulators, *, default: bool, shares_windows: bool
    ) -> None:
        self._shape = accumulators.shape
        self._partials = Partials(accumulators)
        self._default = default
        self._shares = shares_windows
        self._key: Shape | None = None  # of the keys
        self._numbers: dict[Windows, int] = {}
        self._windows: list[Windows] = []  # by their numbers

    def __bool__(self) -> bool:
        return bool(self._partials)

    def __len__(self) -> int:
        """How many accumulators are held."""
        return self._partials.rows

    def merged(self) -> int:
        """Make one of all that belong together; give how many are left."""
        self._partials.merge()
        return self._partials.rows

    def add(
        self, windows: Started | Windows, groups: GroupColumns, leaves: list[Numbers]
    ) -> bool:
        """Take one accumulator for each group; False: these have to be objects."""
        if self._key not in (None, groups.keys.shape):
            return False  # keys of two types are no column
        numbers = None if self._default else self._numbered(windows, groups)
        if numbers is None and not self._default:
            return False
        self._key = groups.keys.shape
        self._partials.add(keyed(groups.keys, self._shape, leaves), numbers)
        return True

    def _numbered(self, windows: Started | Windows, groups: GroupColumns) -> Numbers | None:
        """Give for each group the number of its windows; None: it would have to be copied."""
        size = len(groups)
        if type(windows) is not Started:
            number = self._number(windows)
            return None if number is None else np.full(size, number)
        assert groups.starts is not None
        starts, places = np.unique(groups.starts, return_inverse=True)
        found = [self._number(windows.known[start]) for start in starts.tolist()]
        known = [number for number in found if number is not None]
        return np.array(known)[places] if len(known) == len(found) else None

    def _number(self, windows: Windows) -> int | None:
        if len(windows) != 1 and not self._shares:
            return None
        windows = tuple(windows)
        number = self._numbers.get(windows)
        if number is None:
            number = self._numbers[windows] = len(self._windows)
            self._windows.append(windows)
        return number

    def _take(self) -> tuple[Held, list[Windows]]:
        self._partials.merge()
        windows, self._numbers, self._windows = self._windows, {}, []
        self._key = None
        return self._partials.take(), windows

    def emit(self, edge: Edge) -> None:
        """Hand on what is held, and forget it."""
        if not self._partials:
            return
        (pairs, numbers), windows = self._take()
        if numbers is None:
            meta: Meta = _GLOBALLY
        else:
            ends = np.array([each[0].max_timestamp().micros for each in windows])
            known = dict(enumerate(windows))
            meta = TimeColumns(ends[numbers], Started(numbers, known), PANE_INFO_UNKNOWN)
        for start in range(0, len(pairs), COLUMN_ROWS):
            end = min(start + COLUMN_ROWS, len(pairs))
            edge.columns(pairs.slice(start, end), part_of(meta, start, end))

    def objects(self) -> Iterator[tuple[Any, list[tuple[Value, Value]]]]:
        """Give what is held as objects, by windows, and forget it."""
        if not self._partials:
            return
        (pairs, numbers), windows = self._take()
        if numbers is None:
            yield None, pairs.objects()
            return
        for number, those in enumerate(windows):
            yield those, pairs.filter(numbers == number).objects()
