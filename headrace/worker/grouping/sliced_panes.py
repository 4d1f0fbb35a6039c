"""Sliding windows in streaming, default trigger: one partial per key and slice, not per window.

What came for a slice lies in the store as rows of many keys, one for each epoch that touched the
slice. When the watermark passes the end of a window, its slices are read and put together, window
after window; a slice goes when the last of its windows has gone. What comes for single windows of
the same grouping takes the way of `panes` and leaves with the rest.
"""

from __future__ import annotations

from itertools import chain

from headrace.plan.lateness import is_over
from headrace.plan.slices import Slices
from headrace.state import layout, mixed
from headrace.state.layout import Kind
from headrace.state.store import Store
from headrace.worker.beam_types import Value, WindowedCoder, Windowing
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.grouping.bounded import Opaque, Push, in_batches
from headrace.worker.grouping.column_slices import pairs_of_slices, windows_of_slices
from headrace.worker.grouping.column_tables import ColumnTables, Merging
from headrace.worker.grouping.grouper import MAX_MICROS, Compact, first_time, held_at
from headrace.worker.grouping.panes import WindowTables
from headrace.worker.grouping.slices import Combination, Composer, Table
from headrace.worker.grouping.tables import push_groups, with_more
from headrace.worker.grouping.window_batches import push_columns

#: Rows of one slice before they are made one: each is read at every firing of its windows.
MAX_ROWS_OF_SLICE = 8


class SlicedTables(WindowTables):
    """Windows that overlap, put together from slices.

    Args:
        slices: how the windows overlap.
        combination: how the values of slices become those of windows.
        stage, windowed_coder, windowing, memory_bytes, compact, merging: as of `WindowTables`.
    """

    def __init__(
        self,
        slices: Slices,
        combination: Combination,
        stage: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        memory_bytes: int,
        compact: Compact | None = None,
        *,
        merging: Merging | None = None,
    ) -> None:
        super().__init__(
            stage, windowed_coder, windowing, memory_bytes, compact, slices, merging=merging
        )
        self._slices = slices
        self._combination = combination
        self._fresh: dict[int, Table] = {}  # of this epoch, by the beginnings of slices

    def attach(self, store: Store, watermark: int, now: int = 0) -> None:
        """Begin an epoch."""
        super().attach(store, watermark, now)
        self._fresh = {}

    def advance(self, watermark: int, now: int, push: Push) -> None:  # noqa: ARG002 (processing time matters to no window here)
        """Hand on every window whose end the watermark has passed, in the order of their ends."""
        before = self._watermark
        if self._slices.next_end(before) <= watermark and self._emit_slices(watermark, push):
            return
        self._collect()
        if watermark <= before:
            return
        if self._slices.next_end(before) > watermark:
            self._watermark = watermark
            return  # no window ends in between
        composer = Composer(self._due_slices(watermark), self._slices, self._combination)
        ends = composer.ends(before, watermark)
        singles = self._due_singles(watermark)
        for end in sorted({*ends, *singles}):
            span = (end - self._slices.size, end)
            pairs = with_more(composer.window(end), singles.pop(end, {}), self._intake.real_key)
            in_batches(pairs, self._intake.pane(span), push)
        self._watermark = watermark
        self._forget()

    def _emit_slices(self, watermark: int, push: Push) -> bool:
        """Put the windows that are due together as columns; False: objects have to do it."""
        slices = self._slices
        columns = self._intake.columns_for(push)
        if columns is None or self._fresh or self._tables or self._waits(watermark):
            return False  # some of it came for single windows, or is objects already
        due = columns.only(lambda span: self._begins(span) < watermark)
        if due.merging is None:
            if self._stored_slices(watermark):
                return False
            found = pairs_of_slices(due.by_span(), slices, self._watermark, watermark)
            push_groups(found, self._intake.pane, push)
            self._have_left(columns, watermark)
            return True
        stored = self._stored_slices(watermark)
        if not due.absorb({(s, s + slices.period): table for s, table in stored.items()}):
            return False
        merged = due.merged() if due else {}
        windows = None
        if merged is not None:
            windows = windows_of_slices(merged, slices, due, self._watermark, watermark)
        if windows is None:
            return False
        push_columns(windows, self._intake.pane, push)
        self._have_left(columns, watermark)
        return True

    def _have_left(self, columns: ColumnTables, watermark: int) -> None:
        """Windows until the watermark have left as columns: keep what later ones need."""
        gone = [span for span in columns.rows() if self._ends(span)[-1] <= watermark]
        self.dropped += sum(self._lost(span) * columns.rows()[span] for span in gone)
        columns.keep(lambda span: span not in gone)
        self._collect()  # by the watermark that was: what is left waits for later windows
        self._watermark = watermark
        self._forget()

    def _is_slice(self, span: Span) -> bool:
        return span[1] - span[0] == self._slices.period

    def _begins(self, span: Span) -> int:
        """Give the watermark beyond which what came for a slice or window is asked for."""
        return span[0] if self._is_slice(span) else span[1] - 1

    def _ends(self, span: Span) -> range:
        """Give the ends of the windows that a slice is in, or that of a single window."""
        if not self._is_slice(span):
            return range(span[1], span[1] + 1)
        return range(span[1], span[0] + self._slices.size + 1, self._slices.period)

    def _lost(self, span: Span) -> int:
        """Give how many of the windows were over when what came for them came."""
        return sum(is_over(end - 1, self._watermark) for end in self._ends(span))

    def _stored_slices(self, watermark: int) -> dict[int, Table]:
        """Give the slices of older epochs that begin before the watermark."""
        last = min(watermark, MAX_MICROS - self._slices.period) + self._slices.period - 1
        return self._read(layout.until(Kind.SLICE, self._stage, last))

    def _due_slices(self, watermark: int) -> dict[int, Table]:
        """Give the slices that begin before the watermark: those of this and of older epochs."""
        found = self._stored_slices(watermark)
        for start, table in self._fresh.items():
            if start >= watermark:
                continue
            known = found.setdefault(start, {})
            for key, values in table.items():
                held = known.get(key)
                known[key] = values if held is None else held + values
        return found

    def _due_singles(self, watermark: int) -> dict[int, Table]:
        """Give what came for single windows that are due, by their ends; all of it is taken."""
        found: dict[int, Table] = {}
        for span, key, values in self._stored(*layout.until(Kind.GROUP, self._stage, watermark)):
            found.setdefault(span[1], {})[key] = values
        for span in [span for span in self._tables if span[1] <= watermark]:
            known = found.setdefault(span[1], {})
            for key, values in self._tables.pop(span).items():
                known.setdefault(key, []).extend(values)
        return found

    def _forget(self) -> None:
        """Drop the slices that are in no window any more."""
        live = self._watermark - self._slices.size  # where such slices begin, at most
        for row, _ in list(
            self._store.scan(*layout.until(Kind.SLICE, self._stage, live + self._slices.period))
        ):
            self._store.delete(row)
        for start in [start for start in self._fresh if start <= live]:
            del self._fresh[start]

    def hold(self) -> int:
        """Give the last moment of the first window that waits."""
        starts = list(self._fresh)
        stored = first_time(self._store, Kind.SLICE, self._stage)
        if stored is not None:
            starts.append(stored - self._slices.period)
        held = super().hold()
        if starts:
            period = self._slices.period
            end = max(min(starts) + period, self._slices.next_end(self._watermark))
            held = min(held, held_at(end - 1))
        return held

    def flush(self) -> None:
        """Write what waits."""
        super().flush()  # collects first
        for start, table in self._fresh.items():
            self._append_slice(start, table)
        self._fresh = {}

    def _collect(self) -> None:
        """Take over what came in, without what came too late."""
        size, period = self._slices.size, self._slices.period
        singles = {}
        for span, table in self._intake.take().items():
            if span[1] - span[0] != period:
                singles[span] = table
                continue
            start = span[0]
            if is_over(start + period - 1, self._watermark):  # the first of the slice's windows
                ends = range(start + period, start + size + 1, period)
                gone = sum(is_over(end - 1, self._watermark) for end in ends)
                self.dropped += gone * sum(map(len, table.values()))
                if gone == len(ends):
                    continue
            known = self._fresh.setdefault(start, table)
            if known is not table:
                for key, values in table.items():
                    known.setdefault(key, []).extend(values)
        self._take_over(singles)

    # -- rows of many keys

    def _read(self, names: tuple[bytes, bytes]) -> dict[int, Table]:
        """Give the stored slices, by their beginnings."""
        found: dict[int, Table] = {}
        period = self._slices.period
        for row, value in self._store.scan(*names):
            start = layout.time_of(row) - period
            table = self._entries(value)
            known = found.setdefault(start, table)
            if known is not table:
                for key, values in table.items():
                    held = known.get(key)
                    known[key] = values if held is None else held + values
        return found

    def _entries(self, value: bytes) -> Table:
        forms, keys, lists = mixed.unpack(value)
        if forms.count(_PLAIN) == len(forms):
            return dict(zip(keys, lists, strict=True))
        decode, table_key = self._values.decode, self._intake.table_key
        return {
            key if form & _PLAIN_KEY else table_key(key): (
                values if form & _PLAIN_VALUES else decode(values)
            )
            for form, key, values in zip(forms, keys, lists, strict=True)
        }

    def _append_slice(self, start: int, table: Table) -> None:
        end = start + self._slices.period
        compact = self._compact
        if compact is not None:
            self._take_rows_of(start, end, table)
            table = {key: compact(values) for key, values in table.items()}
        keys = list(table)
        lists: list[Value] = list(table.values())
        key_groups = list(map(self._key_group_of, map(self._intake.real_key, keys)))
        form = 0
        if Opaque not in set(map(type, keys)):
            form |= _PLAIN_KEY
        else:
            keys = list(map(self._intake.key_bytes, keys))
        if self._values.are_plain(list(chain.from_iterable(lists))):
            form |= _PLAIN_VALUES
        else:
            lists = list(map(self._values.encode, lists))
        self._store.put(
            mixed.fresh_name(Kind.SLICE, self._stage, end),
            mixed.pack(key_groups, [form] * len(keys), keys, lists),
        )

    def _take_rows_of(self, start: int, end: int, table: Table) -> None:
        """Make one row of a slice's many: add them to the table and delete them."""
        prefix = layout.head(Kind.SLICE, self._stage) + layout.stamp(end)
        rows = [row for row, _ in self._store.scan(*layout.under(prefix))]
        if len(rows) < MAX_ROWS_OF_SLICE:
            return
        for key, values in self._read(layout.under(prefix))[start].items():
            table[key] = values + table.get(key, [])
        for row in rows:
            self._store.delete(row)


#: What stands in an entry: a key or its bytes, values or their bytes.
_PLAIN_KEY = 1
_PLAIN_VALUES = 2
_PLAIN = _PLAIN_KEY | _PLAIN_VALUES
