"""Groups a stream by any window and trigger: Beam's own trigger driver over rows of the store.

What a key's triggers remember is a `Record`. Three ordered indexes say which records have a timer
or an expiry due in event time, a timer due in processing time, or hold the watermark: so an epoch
touches the keys that got elements and those that are due, and no others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from apache_beam.transforms import trigger
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import StateError
from headrace.plan.lateness import is_over
from headrace.state import layout
from headrace.state.layout import Kind
from headrace.state.store import Store
from headrace.worker.batched.batches import Columns
from headrace.worker.beam_types import Instant, Key, Value, Window, WindowedCoder, Windowing
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.bounded import GROUPS_AT_ONCE, Push
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.grouping.grouper import (
    MAX_MICROS,
    MIN_MICROS,
    Compact,
    StreamGrouper,
    first_time,
    held_at,
)
from headrace.worker.grouping.tables import TableGrouper
from headrace.worker.grouping.trigger_intake import Sorting, TriggerIntake, copying
from headrace.worker.grouping.trigger_merge import Arrived, Found, merge
from headrace.worker.grouping.trigger_rows import NOWHERE, Indexed, TriggerRows
from headrace.worker.grouping.trigger_state import Record
from headrace.worker.grouping.trigger_times import joined, output_time
from headrace.worker.grouping.value_bytes import ValueBytes

#: What an index row says beside its name: nothing.
_HERE = b"\x00"
_INDEXES = (Kind.TRIGGER_EVENT, Kind.TRIGGER_CLOCK, Kind.TRIGGER_HOLD)


class TriggeredGroups(StreamGrouper):
    """Any window, any trigger, any lateness.

    With `compact` (values are accumulators), a window of a key keeps one value between epochs.
    """

    def __init__(
        self,
        stage: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        compact: Compact | None = None,
    ) -> None:
        kv = windowed_coder.wrapped_value_coder
        self._stage = stage
        self._key_impl = kv.key_coder().get_impl()
        self._key_group_of = ShardOf(kv.key_coder(), layout.KEY_GROUPS).any
        self._lateness: int = windowing.allowed_lateness.micros
        self._merging: bool = windowing.windowfn.is_merging()
        self._window_fn = windowing.windowfn
        self._intake = _intake(windowed_coder, windowing)
        single = isinstance(windowing.windowfn, FixedWindows | GlobalWindows)
        self._copy = None if compact is None or single else copying(kv.value_coder().get_impl())
        self._sorting = Sorting(windowing, self._copy)
        self._clock = _Clock()
        self._driver = trigger.create_trigger_driver(windowing, False, clock=self._clock)
        # The driver's own merging wraps the state at every call, at a cost that outweighs the
        # rest; and windows that do not merge are kept apart here, each with a record of its own.
        self._driver.is_merging = False
        self._pane = self._driver._output  # noqa: SLF001 (numbers and times panes; no other does)
        self._holds = output_time(windowing)
        self._rows = TriggerRows(
            stage,
            windowed_coder.window_coder,
            ValueBytes(kv.value_coder()),
            self._lateness,
            joined(windowing),
            compact,
            windowing.accumulation_mode != trigger.AccumulationMode.DISCARDING,
        )
        self._heads = [layout.head(kind, stage) for kind in _INDEXES]
        self._records: dict[bytes, Record] = {}
        self._out = _Panes()
        self._has_input = False
        self._move(MIN_MICROS)

    def attach(self, store: Store, watermark: int, now: int = 0) -> None:
        """Begin an epoch."""
        self._store = self._rows.store = store
        self._move(watermark)
        self._clock.now = now
        self._forget_input()
        self._records = {}
        self._out = _Panes()
        self._has_input = False
        self.dropped = 0

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""
        self._intake.add(kind, count, payload)
        self._has_input = True

    def advance(self, watermark: int, now: int, push: Push) -> None:
        """Give the epoch's elements to the triggers, then fire what is due."""
        self._clock.now = now
        self._out.push = push
        if self._has_input:
            self._has_input = False
            self._take_input()
        moved = watermark > self._watermark
        if moved:
            self._move(watermark)
        self._find_due(moved, now)
        self._fire_all(now)
        self._out.flush()
        self._settle()

    def hold(self) -> int:
        """Give the earliest time at which an output may still come."""
        first = first_time(self._store, Kind.TRIGGER_HOLD, self._stage)
        return MAX_MICROS if first is None else held_at(first)

    def next_wakeup(self) -> int | None:
        """Give the earliest timer of processing time."""
        return first_time(self._store, Kind.TRIGGER_CLOCK, self._stage)

    def flush(self) -> None:
        """End the epoch; `advance` has written everything."""
        if self._has_input:
            msg = "a grouping was closed before the time of its last elements was told"
            raise StateError(msg)
        self._records = {}

    def _move(self, watermark: int) -> None:
        self._watermark = watermark
        self._mark = Timestamp(micros=watermark)  # as triggers are told of it

    # What came in.

    def _forget_input(self) -> None:
        if isinstance(self._intake, TableGrouper):
            self._intake.take()
        else:
            self._intake.forget()
        self._sorting.dropped = 0

    def _take_input(self) -> None:
        """Give the elements to the triggers, key by key in the order in which keys came."""
        if isinstance(self._intake, TableGrouper):
            self._take_tables(self._intake)
            return
        sorting = self._sorting
        for came in self._intake.came():
            found = sorting.by_window(came, self._watermark)
            if found:
                encoded_key = came.encoded_key
                self._take_key(encoded_key, self._key_impl.decode(encoded_key), found)
        self.dropped += sorting.dropped
        sorting.dropped = 0

    def _take_tables(self, intake: TableGrouper) -> None:
        for span, table in intake.take().items():
            if is_over(span[1] - 1, self._watermark, self._lateness):
                self.dropped += sum(map(len, table.values()))
                continue
            (window,) = intake.pane(span).windows
            for found, values in table.items():
                key = intake.real_key(found)
                record = self._record(intake.key_bytes(found), key, window)
                if self._copy is not None:  # other windows hold the same objects
                    values = [self._copy(value) for value in values]
                # Elements come so only where the pane's time is the window's end.
                self._take_window(record, key, Arrived(window, values, [], []))

    def _take_key(self, encoded_key: bytes, key: Key, found: Found) -> None:
        if self._merging:
            record = self._record(encoded_key, key, None)
            for arrived in merge(record, found, self._window_fn, self._driver):
                self._take_window(record, key, arrived)
        else:
            for arrived in found.values():
                record = self._record(encoded_key, key, arrived.window)
                self._take_window(record, key, arrived)

    def _take_window(self, record: Record, key: Key, arrived: Arrived) -> None:
        """Do what Beam's driver does with elements, but once for all that came together."""
        window, count = arrived.window, arrived.elements
        if record.is_finished(window):
            self.dropped += count
            return
        record.add_values(window, arrived.values)
        hold = self._holds(window, arrived.times, self._watermark)
        # Beam's driver holds the end of a window even behind the watermark. That would stop the
        # output's watermark until the window expires, for a time that a pane has without a hold.
        if hold is not None and (hold >= self._watermark or record.is_held(window)):
            record.add_hold(window, hold)
        context = record.at(window, self._clock)
        triggers = self._driver.trigger_fn
        # Triggers look at how many elements come, never at the elements.
        record.weight = count
        triggers.on_element(None, window, context)
        record.weight = 1
        mark = self._mark
        if triggers.should_fire(TimeDomain.WATERMARK, mark, window, context):
            finished = triggers.on_fire(mark, window, context)
            self._out.take(key, (self._pane(window, finished, record, mark, False),))

    # What is due.

    def _find_due(self, moved: bool, now: int) -> None:
        """Load the records that an index says are due."""
        if moved:  # else what was due then has fired, and what came since is in memory
            self._load(layout.until(Kind.TRIGGER_EVENT, self._stage, self._watermark))
        self._load(layout.until(Kind.TRIGGER_CLOCK, self._stage, now))

    def _load(self, rows: tuple[bytes, bytes]) -> None:
        for row, _ in self._store.scan(*rows):
            suffix = row[_SUFFIX_AT:]
            if suffix not in self._records:
                self._stored(suffix)

    def _fire_all(self, now: int) -> None:
        """Fire what is due in the records at hand: the key with the earliest timer first."""
        order: list[tuple[int, int, Record]] = []
        for record in self._records.values():
            event, _, _ = record.wanted = record.times()
            if self._is_due(record, now):
                order.append((MAX_MICROS if event is None else event, len(order), record))
        order.sort()
        for _, _, record in order:
            while self._is_due(record, now):  # again: a firing may set a timer that is due
                self._fire(record, now)
                record.wanted = record.times()

    def _is_due(self, record: Record, now: int) -> bool:
        event, clock, _ = record.wanted
        return (event is not None and event <= self._watermark) or (
            clock is not None and clock <= now
        )

    def _fire(self, record: Record, now: int) -> None:
        """Fire the timers of a record that are due and forget its expired windows."""
        key = self._key_impl.decode(record.encoded_key)
        for moment, window, ident, name in record.due(TimeDomain.WATERMARK, self._watermark):
            if record.take_timer(window, ident, name, TimeDomain.WATERMARK, moment):
                panes = self._driver.process_timer(
                    window, name, TimeDomain.WATERMARK, Timestamp(micros=moment), record, self._mark
                )
                self._out.take(key, panes)
        for window in record.expired(self._watermark):
            self._close(record, key, window)
        for moment, window, ident, name in record.due(TimeDomain.REAL_TIME, now):
            if record.take_timer(window, ident, name, TimeDomain.REAL_TIME, moment):
                # Triggers compare the time they are told with the end of the window, whatever the
                # domain: told the time of day, one that waits for the watermark would finish.
                panes = self._driver.process_timer(
                    window, name, TimeDomain.REAL_TIME, self._mark, record, self._mark
                )
                self._out.take(key, panes)

    def _close(self, record: Record, key: Key, window: Window) -> None:
        """Forget a window; values that no trigger let out leave in a last pane.

        So Beam's model demands; its driver for Python leaves it to the runner.
        """
        if record.is_fresh(window) and not record.is_finished(window):
            end = Timestamp(micros=self._rows.expiry(window))
            self._out.take(key, (self._pane(window, True, record, end, True),))
        record.forget(window)

    # Rows.

    def _record(self, encoded_key: bytes, key: Key, window: Window | None) -> Record:
        """Give the record of a key, or of a key and window where windows do not merge."""
        suffix = self._key_group_of(key).to_bytes(4, "big") + layout.part(encoded_key)
        if not self._merging:
            suffix += layout.part(self._rows.window_impl.encode(window))
        known = self._records.get(suffix) or self._stored(suffix)
        if known is None:
            known = self._records[suffix] = Record(self._rows, suffix, encoded_key)
        return known

    def _stored(self, suffix: bytes) -> Record | None:
        data = self._store.get(self._rows.record_head + suffix)
        if data is None:
            return None
        record = self._records[suffix] = Record.load(self._rows, suffix, data)
        return record

    def _settle(self) -> None:
        """Write the records at hand and their index rows, and forget them."""
        put, delete = self._store.put, self._store.delete
        head = self._rows.record_head
        for suffix, record in self._records.items():
            old = record.indexed
            new = self._lazily(old, record.wanted) if record.windows else NOWHERE
            for first, was, be in zip(self._heads, old, new, strict=True):
                if was != be:
                    if was is not None:
                        delete(first + layout.stamp(was) + suffix)
                    if be is not None:
                        put(first + layout.stamp(be) + suffix, _HERE)
            if record.windows:
                record.indexed = new
                put(head + suffix, record.save())
            else:
                delete(head + suffix)
        self._records = {}

    def _lazily(self, old: Indexed, new: Indexed) -> Indexed:
        """Give the times to stand in the indexes; rows that are a little early are left alone.

        The end of a session moves with each element. A record that is woken too early is indexed
        anew then, which is cheaper than doing so in each epoch. The same goes for its hold, if
        the record is woken before the watermark gets there.
        """
        event, clock, hold = new
        if old.event is None or event is None or not self._watermark < old.event < event:
            return new
        if old.hold is not None and hold is not None and old.event - 1 <= old.hold < hold:
            hold = old.hold
        return Indexed(old.event, clock, hold)


def _intake(windowed_coder: WindowedCoder, windowing: Windowing) -> TriggerIntake | TableGrouper:
    """Give what holds the elements of an epoch."""
    path = grouping_of(windowing)
    if path not in (Grouping.GENERAL, Grouping.SESSIONS):  # those have their own, held against this
        found = make_grouper(windowed_coder, windowing, path, sys.maxsize)
        assert isinstance(found, TableGrouper)
        return found
    return TriggerIntake(windowed_coder, windowing)


class _Panes:
    """Hands panes on, some at a time."""

    def __init__(self) -> None:
        self.push: Push
        self._groups: list[Value] = []
        self._panes: list[Value] = []

    def take(self, key: Key, panes: Iterable[Value]) -> None:
        """Take the panes of a key."""
        for pane in panes:
            self._groups.append((key, pane.value))
            self._panes.append(pane)
        if len(self._groups) >= GROUPS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Hand on what is held."""
        groups, panes = self._groups, self._panes
        if not groups:
            return
        self._groups, self._panes = [], []
        if len(panes) == 1:
            self.push(groups, panes[0])
            return
        times = [pane.timestamp_micros for pane in panes]
        infos = [pane.pane_info for pane in panes]
        self.push(groups, Columns(times, [pane.windows for pane in panes], infos))


class _Clock:
    """Processing time, as it was told last."""

    now = 0

    def time(self) -> Instant:
        """Give the time."""
        return Timestamp(micros=self.now)  # type: ignore[no-any-return]


#: In the name of an index row: kind, stage and time come before.
_SUFFIX_AT = 11
