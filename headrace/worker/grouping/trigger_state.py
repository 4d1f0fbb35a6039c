"""The state of a key's windows between two firings, in the form Beam's trigger driver asks for.

A `Record` is what triggers remember of one key: of all its windows where windows merge, else of one
window. It is one row of the store; the values that wait for a pane lie in rows of their own and are
read only when a pane needs them. Knows rows and Beam's state tags, not what triggers mean by them.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from functools import cache, reduce

from apache_beam.transforms import trigger
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_types import CombineFn, Instant, StateTag, Value, Window
from headrace.worker.grouping.grouper import Compact
from headrace.worker.grouping.trigger_rows import NOWHERE, Cell, Indexed, Known, TriggerRows, packed

#: Beam keeps the kinds of its state tags private; these are the tags' own.
_LIST = type(trigger.GeneralTriggerDriver.ELEMENTS)
_COMBINING = type(trigger.GeneralTriggerDriver.TOMBSTONE)
_SET = type(trigger.AfterProcessingTime.STATE_TAG)
_TOMBSTONE: str = trigger.GeneralTriggerDriver.TOMBSTONE.tag

#: A window whose values were read anyway, from more rows than this, has them put into one.
_MANY_ROWS = 8
_MARSHAL_VERSION = 2
_EVENT = TimeDomain.WATERMARK


class Record(trigger.SimpleState):  # type: ignore[misc]
    """What triggers remember of one key; windows that merged share the ids of their parts.

    Windows are their own ids towards the driver: it is told not to merge, as `triggers` does that.
    """

    def __init__(self, rows: TriggerRows, suffix: bytes, encoded_key: bytes) -> None:
        self._rows = rows
        self.suffix = suffix  # key group, key and perhaps window: how its names end
        self.encoded_key = encoded_key
        self.indexed = NOWHERE
        self.windows: dict[WindowKey, Known] = {}
        self._cells: dict[int, Cell] = {}
        self._next_id = 0
        self.weight = 1  # how many elements a trigger is told of at once
        self.wanted = NOWHERE  # what `times` gave last

    @classmethod
    def load(cls, rows: TriggerRows, suffix: bytes, data: bytes) -> Record:
        """Read a record."""
        encoded_key, indexed, next_id, windows = marshal.loads(data)
        record = cls(rows, suffix, encoded_key)
        record.indexed = Indexed._make(indexed)
        record._next_id = next_id
        decode = rows.window_impl.decode
        for encoded, cells in windows:
            window = decode(encoded)
            record.windows[window_key(window)] = Known(window, [ident for ident, *_ in cells])
            for ident, *known in cells:
                record._cells[ident] = Cell(*known)
        return record

    def save(self) -> bytes:
        """Write the values of this epoch, and give the record's own bytes."""
        encode = self._rows.window_impl.encode
        cells = self._cells
        for ident, cell in cells.items():
            if cell.new:
                self._put_values(ident, cell)
        windows = [
            (encode(known.window), [packed(ident, cells[ident]) for ident in known.ids])
            for known in self.windows.values()
        ]
        whole = (self.encoded_key, tuple(self.indexed), self._next_id, windows)
        return marshal.dumps(whole, _MARSHAL_VERSION)

    # What Beam's driver and triggers ask for.

    def get_window(self, window_id: Window) -> Window:
        """Give the window of a timer."""
        return window_id

    def set_timer(
        self, window: Window, name: str, time_domain: str, timestamp: Instant,
        dynamic_timer_tag: str = "",  # noqa: ARG002 (Beam's form)
    ) -> None:
        """Set a timer of a trigger."""
        moment = timestamp if type(timestamp) is Timestamp else Timestamp.of(timestamp)
        self._first(window).timers[name, time_domain] = moment.micros

    def clear_timer(
        self, window: Window, name: str, time_domain: str, dynamic_timer_tag: str = ""  # noqa: ARG002 (Beam's form)
    ) -> None:
        """Take a timer back."""
        for ident in self._ids(window):
            self._cells[ident].timers.pop((name, time_domain), None)

    def add_state(self, window: Window, tag: StateTag, value: Value) -> None:
        """Add to what is known under a tag."""
        kind = type(tag)
        if kind is _LIST:
            self.add_values(window, [value])
        elif kind is _COMBINING and type(tag.combine_fn) is CountCombineFn:
            facts = self._first(window).facts
            facts[tag.tag] = facts.get(tag.tag, 0) + self.weight
        elif kind is _COMBINING or kind is _SET:
            known = self._first(window).facts.setdefault(tag.tag, [])
            if value not in known:  # what combines these asks for any, or for the largest
                known.append(value)
        else:
            self.add_hold(window, Timestamp.of(value).micros)

    def get_state(self, window: Window, tag: StateTag) -> Value:
        """Give what is known under a tag, over all parts of a window."""
        ids = self._ids(window)
        kind = type(tag)
        if kind is _LIST:
            return self._values_of(ids)
        cells = self._cells
        if kind is _COMBINING:
            if type(tag.combine_fn) is CountCombineFn:
                return sum([cells[ident].facts.get(tag.tag, 0) for ident in ids])
            found = self._added(ids, tag.tag)
            return tag.combine_fn.apply(found) if found else _of_nothing(tag.combine_fn)
        if kind is _SET:
            return self._added(ids, tag.tag)
        holds = [hold for ident in ids if (hold := cells[ident].hold) is not None]
        return Timestamp(micros=reduce(self._rows.join, holds)) if holds else None

    def clear_state(self, window: Window, tag: StateTag) -> None:
        """Forget what is known under a tag."""
        kind = type(tag)
        for ident in self._ids(window):
            cell = self._cells[ident]
            if kind is _LIST:
                self._drop_values(ident, cell)
            elif kind is _COMBINING or kind is _SET:
                cell.facts.pop(tag.tag, None)
            else:
                cell.hold = None

    # What `triggers` asks for.

    def add_values(self, window: Window, values: list[Value]) -> None:
        """Let values wait for a pane."""
        cell = self._first(window)
        cell.new += values
        cell.fresh = True

    def add_hold(self, window: Window, micros: int) -> None:
        """Hold the watermark for a pane."""
        cell = self._first(window)
        cell.hold = micros if cell.hold is None else self._rows.join(cell.hold, micros)

    def merge(self, to_be_merged: list[Window], merge_result: Window) -> None:
        """Let a window take over the ids of others."""
        target = window_key(merge_result)
        for window in to_be_merged:
            key = window_key(window)
            if key != target and key in self.windows:
                moved = self.windows.pop(key).ids
                known = self.windows.get(target)
                if known is None:
                    self.windows[target] = Known(merge_result, moved)
                else:
                    known.ids += moved

    def is_finished(self, window: Window) -> bool:
        """Whether the window's trigger will never fire again."""
        return any([_TOMBSTONE in self._cells[ident].facts for ident in self._ids(window)])

    def is_fresh(self, window: Window) -> bool:
        """Whether the window has values that no pane has carried."""
        return any([self._cells[ident].fresh for ident in self._ids(window)])

    def is_held(self, window: Window) -> bool:
        """Whether the window holds the watermark."""
        return any([self._cells[ident].hold is not None for ident in self._ids(window)])

    def forget(self, window: Window) -> None:
        """Drop all that is known of a window."""
        for ident in self.windows.pop(window_key(window)).ids:
            self._drop_values(ident, self._cells.pop(ident))

    def take_timer(self, window: Window, ident: int, name: str, domain: str, moment: int) -> bool:
        """Take a timer away that is to fire; False if it was cleared or moved meanwhile."""
        if ident not in self._ids(window):
            return False
        timers = self._cells[ident].timers
        if timers.get((name, domain)) != moment:
            return False
        del timers[name, domain]
        return True

    def due(self, domain: str, until: int) -> list[tuple[int, Window, int, str]]:
        """Give the timers of a domain that are due, earliest first, as time, window, id, name."""
        found = [
            (moment, known.window, ident, name)
            for known in self.windows.values()
            for ident in known.ids
            for (name, of), moment in self._cells[ident].timers.items()
            if of == domain and moment <= until
        ]
        found.sort(key=lambda one: one[0])
        return found

    def expired(self, watermark: int) -> list[Value]:
        """Give the windows to be forgotten at this watermark, earliest first."""
        expiry = self._rows.expiry
        every = [known.window for known in self.windows.values()]
        return sorted((window for window in every if expiry(window) <= watermark), key=expiry)

    def times(self) -> Indexed:
        """Give the times under which the record should stand in the indexes."""
        events = [self._rows.expiry(known.window) for known in self.windows.values()]
        clocks: list[int] = []
        holds: list[int] = []
        for known in self.windows.values():
            for ident in known.ids:
                cell = self._cells[ident]
                if cell.hold is not None:
                    holds.append(cell.hold)
                for (_, domain), moment in cell.timers.items():
                    (events if domain == _EVENT else clocks).append(moment)
        return Indexed(
            min(events, default=None), min(clocks, default=None), min(holds, default=None)
        )

    def _first(self, window: Window) -> Cell:
        key = window_key(window)
        known = self.windows.get(key)
        if known is not None:
            return self._cells[known.ids[0]]
        ident = self._next_id
        self._next_id += 1
        self.windows[key] = Known(window, [ident])
        cell = self._cells[ident] = Cell({}, {}, None, False, 0)
        return cell

    def _ids(self, window: Window) -> Sequence[int]:
        known = self.windows.get(window_key(window))
        return known.ids if known is not None else ()

    def _added(self, ids: Sequence[int], tag: str) -> list[Value]:
        return [value for ident in ids for value in self._cells[ident].facts.get(tag, ())]

    def _values_of(self, ids: Sequence[int]) -> list[Value]:
        """Give the values of a pane; from now on they are no longer fresh."""
        found: list[Value] = []
        for ident in ids:
            cell = self._cells[ident]
            if self._rows.compact is not None:
                found += self._compacted(ident, cell, self._rows.compact)
            else:
                values = self._stored(ident, cell) + cell.new
                found += values
                if cell.rows > _MANY_ROWS:
                    self._drop_values(ident, cell)
                    cell.new = values
            cell.fresh = False
        return found

    def _compacted(self, ident: int, cell: Cell, compact: Compact) -> list[Value]:
        """Give the accumulators of a cell as one, and keep its bytes if they are asked for again.

        Who gets an accumulator may change it, so what is kept is never what is given.
        """
        values = self._stored(ident, cell) + cell.new
        is_empty = not values
        values = compact(values)
        self._drop_values(ident, cell)
        if self._rows.keeps_fired and not is_empty:
            self._put_row(ident, cell, values)
        return values

    def _stored(self, ident: int, cell: Cell) -> list[Value]:
        get, decode = self._rows.store.get, self._rows.values.decode
        found: list[Value] = []
        for number in range(cell.rows):
            found += decode(get(self._rows.name_of_values(self.suffix, ident, number)) or b"")
        return found

    def _put_values(self, ident: int, cell: Cell) -> None:
        """Write what came in this epoch: a row more, or one row anew where it can be merged."""
        values, fresh = cell.new, cell.fresh
        if self._rows.compact is not None:
            values = self._rows.compact(self._stored(ident, cell) + values)
            self._drop_values(ident, cell)
        self._put_row(ident, cell, values)
        cell.fresh = fresh

    def _put_row(self, ident: int, cell: Cell, values: list[Value]) -> None:
        row = self._rows.name_of_values(self.suffix, ident, cell.rows)
        self._rows.store.put(row, self._rows.values.encode(values))
        cell.rows += 1
        cell.new = []

    def _drop_values(self, ident: int, cell: Cell) -> None:
        for number in range(cell.rows):
            self._rows.store.delete(self._rows.name_of_values(self.suffix, ident, number))
        cell.rows = 0
        cell.new = []
        cell.fresh = False


@cache
def _of_nothing(combine_fn: CombineFn) -> Value:
    """Give what a combiner makes of no value; asked for each element by some triggers."""
    return combine_fn.apply([])
