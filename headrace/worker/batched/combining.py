"""Combining on whole batches before the exchange; what follows it is in `combine_steps`.

Takes (key, value) batches, gives (key, accumulator) batches. The pre-combiner holds values per key
for a while and adds them in one call.
"""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from typing import final

from apache_beam.transforms import combiners, core
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from headrace.plan.combines import Combined, SkippingCombine
from headrace.plan.shapes import ScalarKind
from headrace.worker.batched.batches import Columns, Meta
from headrace.worker.batched.chains import Edge, augment
from headrace.worker.batched.column_accumulators import ColumnAccumulators
from headrace.worker.batched.column_batches import as_rows
from headrace.worker.batched.column_combining import (
    Pairs,
    grouped,
    joined,
    lists,
    owned,
    pairs_of,
    text_bytes,
    windows_of,
)
from headrace.worker.batched.column_groups import GroupColumns, Groups, Numbers
from headrace.worker.batched.known_combines import (
    SEVERAL,
    Feeds,
    KnownCombine,
    builtin_of,
    known_combine,
)
from headrace.worker.batched.skipping import LEAST_ROWS, Skipping
from headrace.worker.batched.weights import WAITING_BYTES
from headrace.worker.beam_types import CombineFn, Key, OfOne, Operation, Value, Window, Windows
from headrace.worker.checks.verified_columns import verify_accumulator
from headrace.worker.columns.column import Column
from headrace.worker.columns.values import ColumnValues

#: Values held before they are added to their accumulators.
HELD_VALUES = 50_000
#: Accumulators held before they are sent on; as Beam's own pre-combiner does.
MAX_KEYS = 100_000
MAX_KEYS_TINY = 1_000_000

_GLOBALLY = GlobalWindows.windowed_value(None)


class PreCombine:
    """Combines what it can before the exchange."""

    takes_columns = True

    def __init__(
        self,
        op: Operation,
        step_name: str,
        edge: Edge,
        shares_windows: bool = False,
        *,
        lowered: Combined | None = None,
        verified: bool = False,
    ) -> None:
        self._fn = op.combine_fn
        self._shares_windows = shares_windows  # who follows takes one result for several windows
        self._compact = op.combine_fn_compact
        self._default = bool(op.is_default_windowing)
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._edge = edge
        self._builtin = builtin_of(self._fn)
        tiny = self._builtin is not None or isinstance(
            self._fn, (combiners.CountCombineFn, combiners.MeanCombineFn)
        )
        self._max_keys = MAX_KEYS_TINY if tiny else MAX_KEYS
        self._held: dict[Name, dict[Key, list[Value]]] = {}
        self._accumulators: dict[Name, dict[Key, Value]] = {}
        self._count = 0
        self._known = known_combine(self._fn, lowered)
        self._verified = verified  # what columns add up to is computed in both ways
        self._pairs: list[Pairs] = []  # columns that wait to be grouped
        self._pair_count = self._pair_bytes = 0
        self._columns: ColumnAccumulators | None = None  # as long as all that comes is columns
        if self._known is not None and edge.takes_columns:
            self._columns = ColumnAccumulators(
                self._known.accumulators, default=self._default, shares_windows=shares_windows
            )

        self._skipping: Skipping | None = None  # most values may be such that nobody needs
        if isinstance(lowered, SkippingCombine):
            self._skipping = Skipping(
                lowered, self._fn, self._add_general,
                verify_for=step_name if verified else None,
            )

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        self._group_pairs()  # they came before
        self._make_objects()
        if self._default:
            table = self._table(None)
            for key, value in values:
                table[key].append(value)
        elif type(meta) is Columns:
            last: Windows | None = None
            tables: list[Value] = []
            for (key, value), windows in zip(values, meta.windows, strict=True):
                if windows is not last:
                    last = windows
                    tables = self._tables(windows)
                for table in tables:
                    table[key].append(value)
        else:
            for table in self._tables(meta.windows):
                for key, value in values:
                    table[key].append(value)
        self._count += len(values)
        if self._count >= HELD_VALUES:
            self._add()
            self._emit_many()

    def _emit_many(self) -> None:
        """Send accumulators on, if there are too many to be held."""
        if sum(map(len, self._accumulators.values())) > self._max_keys:
            self._emit()

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns: they are gathered, and grouped many at a time."""
        pairs = pairs_of(values, meta)
        if pairs is None:
            for part, its in as_rows(values, meta):
                self(part, its)
            return
        if self._skipping is not None and self._skip(self._skipping, pairs):
            return
        if self._pairs and not pairs.goes_with(self._pairs[0]):
            self._group_pairs()
        self._pair_count += len(values)
        self._pair_bytes += sum(map(text_bytes, (*pairs.keys.leaves, *pairs.values.leaves)))
        full = self._pair_count >= HELD_VALUES or self._pair_bytes >= WAITING_BYTES
        self._pairs.append(pairs if full else owned(pairs))
        if full:
            self._group_pairs()

    def _skip(self, skipping: Skipping, pairs: Pairs) -> bool:
        """Add those of the values that may change something; False: that is not worth a look."""
        values = skipping.fitted(pairs.values)
        if values is None:
            return False
        groups = grouped(pairs, by_window=not self._default)
        if len(groups) * LEAST_ROWS > len(values):
            skipping.rest()
            return False
        self._group_pairs()  # they came before
        self._add()
        listed = groups.listed()
        tables: list[list[dict[Key, Value]]] = [[] for _ in listed.keys]
        for windows, places in windows_of(pairs, listed):
            found = [self._accumulators.setdefault(name, {}) for name in self._names(windows)]
            for place in places:
                tables[place] = found
        with self._state:
            try:
                skipping.add(values, listed, tables)
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, self._step_name)
        self._emit_many()
        return True

    def _group_pairs(self) -> None:
        """Add the columns that wait to the accumulators, or to the values held for them."""
        if not self._pairs:
            return
        pairs, self._pairs = joined(self._pairs), []
        self._pair_count = self._pair_bytes = 0
        groups = grouped(pairs, by_window=not self._default)
        known = self._known
        feeds = None if known is None else known.feed(pairs.values)
        if known is None or feeds is None:
            self._make_objects()
            self._hold_lists(pairs, groups.listed())
        else:
            self._combine(known, feeds, pairs, groups)
        self._emit_many()

    def _combine(
        self, known: KnownCombine, feeds: Feeds, pairs: Pairs, groups: GroupColumns
    ) -> None:
        """Make the accumulators of these pairs, and hold them, as columns if that can be."""
        with self._state:
            leaves = known.columns(feeds, groups.numbers, len(groups))
            made = None if leaves is None else ColumnValues(
                known.accumulators.shape, [Column(ScalarKind.INT, leaf) for leaf in leaves]
            )
            if made is not None and self._verified:
                self._verify(groups.keys.objects(), lists(pairs, groups), made.objects())
        if leaves is not None and self._hold_columns(pairs, groups, leaves):
            return
        self._make_objects()
        if made is not None:
            self._hold(known, pairs, groups.listed(), made.objects())
        elif known.make is None:
            self._hold_lists(pairs, groups.listed())
        else:
            with self._state:
                found = known.make(feeds, groups.numbers, len(groups))
                if self._verified:
                    self._verify(groups.keys.objects(), lists(pairs, groups), found)
            self._hold(known, pairs, groups.listed(), found)

    def _hold_columns(self, pairs: Pairs, groups: GroupColumns, leaves: list[Numbers]) -> bool:
        """Hold accumulators as columns, if nothing is held as objects."""
        columns = self._columns
        if columns is None or self._accumulators or self._held:
            return False
        if not columns.add(pairs.windows, groups, leaves):
            return False
        if len(columns) > self._max_keys and columns.merged() > self._max_keys // 2:
            columns.emit(self._edge)
        return True

    def _hold(
        self, known: KnownCombine, pairs: Pairs, groups: Groups, made: list[Value]
    ) -> None:
        """Hold accumulators as objects, one for each group."""
        for windows, places in windows_of(pairs, groups):
            for turn, window in enumerate(self._names(windows)):
                table = self._accumulators.setdefault(window, {})
                for i in places:
                    key = groups.keys[i]
                    held = table.get(key)
                    # A CombineFn may change what it is given: no two windows have the same.
                    own = deepcopy(made[i]) if turn else made[i]
                    table[key] = own if held is None else known.merge(held, own)

    def _hold_lists(self, pairs: Pairs, groups: Groups) -> None:
        """Hold the values themselves, for the CombineFn."""
        values = lists(pairs, groups)
        for windows, places in windows_of(pairs, groups):
            for window in self._names(windows):
                of_window = self._table(window)
                for i in places:
                    of_window[groups.keys[i]] += values[i]
        self._count += len(pairs.values)
        if self._count >= HELD_VALUES:
            self._add()

    def _make_objects(self) -> None:
        """Turn what is held as columns into the accumulators that objects are added to."""
        known = self._known
        if known is None or not self._columns:
            return
        for windows, pairs in self._columns.objects():
            for window in self._names(windows):
                table = self._accumulators.setdefault(window, {})
                for key, made in pairs:
                    held = table.get(key)
                    table[key] = made if held is None else known.merge(held, made)

    def _verify(self, keys: list[Key], values: list[list[Value]], made: list[Value]) -> None:
        for key, held, found in zip(keys, values, made, strict=True):
            wanted: dict[Key, Value] = {}
            self._reduce(wanted, {key: held})
            whole = wanted[key]
            if self._compact is not None and self._builtin is None:
                whole = self._compact(whole)  # columns have no values that are not added yet
            verify_accumulator(self._step_name, key, whole, found)

    def _names(self, windows: Windows) -> list[Name]:
        """Give what stands for these windows in the tables."""
        if self._default:
            return [None]
        if self._shares_windows and len(windows) > 1:
            return [_Several(windows)]
        return list(windows)

    def _tables(self, windows: Windows) -> list[dict[Key, list[Value]]]:
        return [self._table(name) for name in self._names(windows)]

    def _table(self, window: Name) -> dict[Key, list[Value]]:
        found = self._held.get(window)
        if found is None:
            found = self._held[window] = defaultdict(list)
        return found

    def _add(self) -> None:
        with self._state:
            try:
                for window, table in self._held.items():
                    self._reduce(self._accumulators.setdefault(window, {}), table)
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, self._step_name)
        self._held.clear()
        self._count = 0

    def _reduce(self, known: dict[Key, Value], table: dict[Key, list[Value]]) -> None:
        if self._builtin is not None:
            _add_builtin(self._builtin, known, table)
        else:
            self._add_general(known, table)

    def _add_general(self, known: dict[Key, Value], table: dict[Key, list[Value]]) -> None:
        create, add_inputs, add_input = (
            self._fn.create_accumulator, self._fn.add_inputs, self._fn.add_input
        )
        for key, values in table.items():
            accumulator = known[key] if key in known else create()
            if len(values) == 1:
                known[key] = add_input(accumulator, values[0])
            else:
                known[key] = add_inputs(accumulator, values)

    def _emit(self) -> None:
        for window, known in self._accumulators.items():
            compact = self._compact
            if compact is None or self._builtin is not None:
                out = list(known.items())
            else:
                with self._state:
                    out = [(key, compact(a)) for key, a in known.items()]
            if window is None:
                meta = _GLOBALLY
            elif type(window) is _Several:
                meta = WindowedValue(None, window.windows[0].max_timestamp(), window.windows)
            else:
                meta = WindowedValue(None, window.max_timestamp(), (window,))
            self._edge(out, meta)
        self._accumulators.clear()

    def finish(self) -> None:
        """End of the bundle: send everything on."""
        self._group_pairs()
        if self._columns:
            self._columns.emit(self._edge)
        self._add()
        self._emit()


@final
class _Several:
    """Windows that elements share, known by their tuple: those of one slice are one object."""

    __slots__ = ("windows",)

    def __init__(self, windows: Windows) -> None:
        self.windows = windows

    def __eq__(self, other: object) -> bool:
        return type(other) is _Several and other.windows is self.windows

    def __hash__(self) -> int:
        return id(self.windows)


#: What a table stands for: a window, several that are shared, or None if there is only one.
Name = Window | _Several | None


def _add_builtin(
    function: OfOne, known: dict[Key, Value], table: dict[Key, list[Value]]
) -> None:
    """Accumulators of a wrapped callable are lists of values it has yet to reduce."""
    if known:
        for key, values in table.items():
            held = known.get(key)
            if held is not None:
                values += held
            known[key] = values if len(values) == 1 else [function(values)]
    else:
        for key, values in table.items():
            known[key] = values if len(values) == 1 else [function(values)]


def owns_resources(combine_fn: CombineFn) -> bool:
    """Whether the CombineFn opens something in `setup`, and so must be the instance Beam set up."""
    if type(combine_fn) in SEVERAL:
        return any(map(owns_resources, combine_fn._combiners))  # noqa: SLF001 (no public door)
    # Of the instance, not of its class: Beam's wrappers for hot keys borrow the methods of the one
    # they wrap as attributes.
    methods = (
        (combine_fn.setup, core.CombineFn.setup), (combine_fn.teardown, core.CombineFn.teardown)
    )
    return any(getattr(method, "__func__", method) is not base for method, base in methods)
