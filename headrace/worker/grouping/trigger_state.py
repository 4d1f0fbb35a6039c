"""The state of a key's windows between two firings, in the form Beam's trigger driver asks for.

A `Record` is what triggers remember of one key: of all its windows where windows merge, else of one
window. It is one row of the store; the values that wait for a pane lie in rows of their own and are
read only when a pane needs them. Knows rows and Beam's state tags, not what triggers mean by them.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

from apache_beam.transforms import trigger
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp

from headrace.plan.lateness import over_from
from headrace.state.layout import Kind, head
from headrace.state.store import Store
from headrace.worker.grouping.grouper import Compact
from headrace.worker.grouping.value_bytes import ValueBytes

#: Beam keeps the kinds of its state tags private; these are the tags' own.
_LIST = type(trigger.GeneralTriggerDriver.ELEMENTS)
_COMBINING = type(trigger.GeneralTriggerDriver.TOMBSTONE)
_SET = type(trigger.AfterProcessingTime.STATE_TAG)
_TOMBSTONE: str = trigger.GeneralTriggerDriver.TOMBSTONE.tag

#: A window whose values were read anyway, from more rows than this, has them put into one.
_MANY_ROWS = 8
_MARSHAL_VERSION = 2
_EVENT = TimeDomain.WATERMARK


class Indexed(NamedTuple):
    """Under which times a record stands in the indexes; None where it does not."""

    event: int | None
    clock: int | None
    hold: int | None


#: See `spot`.
Spot = Hashable

NOWHERE = Indexed(None, None, None)


class Cell:
    """What is known under one window id."""

    __slots__ = ("facts", "fresh", "hold", "new", "rows", "timers")

    def __init__(
        self,
        timers: dict[tuple[str, str], int],
        facts: dict[str, Any],
        hold: int | None,
        fresh: bool,
        rows: int,
    ) -> None:
        self.timers = timers  # by name and time domain
        self.facts = facts  # by tag: a count, or the values added
        self.hold = hold
        self.fresh = fresh  # whether there are values that no pane has carried yet
        self.rows = rows  # rows of values in the store
        self.new: list[Any] = []  # values that are not there yet


class Known:
    """A window that has state, and the ids its parts have it under."""

    __slots__ = ("ids", "window")

    def __init__(self, window: Any, ids: list[int]) -> None:
        self.window = window
        self.ids = ids


class Shelf:
    """Where a stage's records and their values lie in the store of this epoch."""

    def __init__(
        self,
        stage: int,
        window_coder: Any,
        values: ValueBytes,
        lateness: int,
        join: Callable[[int, int], int],
        compact: Compact | None = None,
        keeps_fired: bool = True,
    ) -> None:
        self.window_impl = window_coder.get_impl()
        self.compact = compact  # given where values are accumulators: makes one of several
        self.keeps_fired = keeps_fired  # what a pane has carried is asked for again
        self.join = join  # of two holds of one window
        self.values = values
        self.record_head = head(Kind.TRIGGER, stage)
        self._values_head = head(Kind.TRIGGER_VALUES, stage)
        self._lateness = lateness
        self.store: Store

    def expiry(self, window: Any) -> int:
        """Give the watermark at which a window is forgotten: what comes from then on is late."""
        return over_from(last_moment(window), self._lateness)

    def name_of_values(self, suffix: bytes, ident: int, number: int) -> bytes:
        """Give the name of a row of values."""
        return self._values_head + suffix + ident.to_bytes(4, "big") + number.to_bytes(4, "big")


class Record(trigger.SimpleState):  # type: ignore[misc]
    """What triggers remember of one key; windows that merged share the ids of their parts.

    Windows are their own ids towards the driver: it is told not to merge, as `triggers` does that.
    """

    def __init__(self, shelf: Shelf, suffix: bytes, encoded_key: bytes) -> None:
        self._shelf = shelf
        self.suffix = suffix  # place, key and perhaps window: how its names end
        self.encoded_key = encoded_key
        self.indexed = NOWHERE
        self.windows: dict[Spot, Known] = {}
        self._cells: dict[int, Cell] = {}
        self._next_id = 0
        self.weight = 1  # how many elements a trigger is told of at once
        self.wanted = NOWHERE  # what `times` gave last

    @classmethod
    def load(cls, shelf: Shelf, suffix: bytes, data: bytes) -> Record:
        """Read a record."""
        encoded_key, indexed, next_id, windows = marshal.loads(data)
        record = cls(shelf, suffix, encoded_key)
        record.indexed = Indexed._make(indexed)
        record._next_id = next_id
        decode = shelf.window_impl.decode
        for encoded, cells in windows:
            window = decode(encoded)
            record.windows[spot(window)] = Known(window, [ident for ident, *_ in cells])
            for ident, *known in cells:
                record._cells[ident] = Cell(*known)
        return record

    def save(self) -> bytes:
        """Write the values of this epoch, and give the record's own bytes."""
        encode = self._shelf.window_impl.encode
        cells = self._cells
        for ident, cell in cells.items():
            if cell.new:
                self._put_values(ident, cell)
        windows = [
            (encode(known.window), [_packed(ident, cells[ident]) for ident in known.ids])
            for known in self.windows.values()
        ]
        whole = (self.encoded_key, tuple(self.indexed), self._next_id, windows)
        return marshal.dumps(whole, _MARSHAL_VERSION)

    # What Beam's driver and triggers ask for.

    def get_window(self, window_id: Any) -> Any:
        """Give the window of a timer."""
        return window_id

    def set_timer(
        self, window: Any, name: str, time_domain: str, timestamp: Any, dynamic_timer_tag: str = ""  # noqa: ARG002 (Beam's form)
    ) -> None:
        """Set a timer of a trigger."""
        moment = timestamp if type(timestamp) is Timestamp else Timestamp.of(timestamp)
        self._first(window).timers[name, time_domain] = moment.micros

    def clear_timer(
        self, window: Any, name: str, time_domain: str, dynamic_timer_tag: str = ""  # noqa: ARG002 (Beam's form)
    ) -> None:
        """Take a timer back."""
        for ident in self._ids(window):
            self._cells[ident].timers.pop((name, time_domain), None)

    def add_state(self, window: Any, tag: Any, value: Any) -> None:
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

    def get_state(self, window: Any, tag: Any) -> Any:
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
        return Timestamp(micros=reduce(self._shelf.join, holds)) if holds else None

    def clear_state(self, window: Any, tag: Any) -> None:
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

    def add_values(self, window: Any, values: list[Any]) -> None:
        """Let values wait for a pane."""
        cell = self._first(window)
        cell.new += values
        cell.fresh = True

    def add_hold(self, window: Any, micros: int) -> None:
        """Hold the watermark for a pane."""
        cell = self._first(window)
        cell.hold = micros if cell.hold is None else self._shelf.join(cell.hold, micros)

    def merge(self, to_be_merged: list[Any], merge_result: Any) -> None:
        """Let a window take over the ids of others."""
        target = spot(merge_result)
        for window in to_be_merged:
            place = spot(window)
            if place != target and place in self.windows:
                moved = self.windows.pop(place).ids
                known = self.windows.get(target)
                if known is None:
                    self.windows[target] = Known(merge_result, moved)
                else:
                    known.ids += moved

    def is_finished(self, window: Any) -> bool:
        """Whether the window's trigger will never fire again."""
        return any([_TOMBSTONE in self._cells[ident].facts for ident in self._ids(window)])

    def is_fresh(self, window: Any) -> bool:
        """Whether the window has values that no pane has carried."""
        return any([self._cells[ident].fresh for ident in self._ids(window)])

    def is_held(self, window: Any) -> bool:
        """Whether the window holds the watermark."""
        return any([self._cells[ident].hold is not None for ident in self._ids(window)])

    def forget(self, window: Any) -> None:
        """Drop all that is known of a window."""
        for ident in self.windows.pop(spot(window)).ids:
            self._drop_values(ident, self._cells.pop(ident))

    def take_timer(self, window: Any, ident: int, name: str, domain: str, moment: int) -> bool:
        """Take a timer away that is to fire; False if it was cleared or moved meanwhile."""
        if ident not in self._ids(window):
            return False
        timers = self._cells[ident].timers
        if timers.get((name, domain)) != moment:
            return False
        del timers[name, domain]
        return True

    def due(self, domain: str, until: int) -> list[tuple[int, Any, int, str]]:
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

    def expired(self, watermark: int) -> list[Any]:
        """Give the windows to be forgotten at this watermark, earliest first."""
        expiry = self._shelf.expiry
        every = [known.window for known in self.windows.values()]
        return sorted((window for window in every if expiry(window) <= watermark), key=expiry)

    def times(self) -> Indexed:
        """Give the times under which the record should stand in the indexes."""
        events = [self._shelf.expiry(known.window) for known in self.windows.values()]
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

    def _first(self, window: Any) -> Cell:
        place = spot(window)
        known = self.windows.get(place)
        if known is not None:
            return self._cells[known.ids[0]]
        ident = self._next_id
        self._next_id += 1
        self.windows[place] = Known(window, [ident])
        cell = self._cells[ident] = Cell({}, {}, None, False, 0)
        return cell

    def _ids(self, window: Any) -> Sequence[int]:
        known = self.windows.get(spot(window))
        return known.ids if known is not None else ()

    def _added(self, ids: Sequence[int], tag: str) -> list[Any]:
        return [value for ident in ids for value in self._cells[ident].facts.get(tag, ())]

    def _values_of(self, ids: Sequence[int]) -> list[Any]:
        """Give the values of a pane; from now on they are no longer fresh."""
        found: list[Any] = []
        for ident in ids:
            cell = self._cells[ident]
            if self._shelf.compact is not None:
                found += self._compacted(ident, cell, self._shelf.compact)
            else:
                values = self._stored(ident, cell) + cell.new
                found += values
                if cell.rows > _MANY_ROWS:
                    self._drop_values(ident, cell)
                    cell.new = values
            cell.fresh = False
        return found

    def _compacted(self, ident: int, cell: Cell, compact: Compact) -> list[Any]:
        """Give the accumulators of a cell as one, and keep its bytes if they are asked for again.

        Who gets an accumulator may change it, so what is kept is never what is given.
        """
        values = self._stored(ident, cell) + cell.new
        is_empty = not values
        values = compact(values)
        self._drop_values(ident, cell)
        if self._shelf.keeps_fired and not is_empty:
            self._put_row(ident, cell, values)
        return values

    def _stored(self, ident: int, cell: Cell) -> list[Any]:
        get, decode = self._shelf.store.get, self._shelf.values.decode
        found: list[Any] = []
        for number in range(cell.rows):
            found += decode(get(self._shelf.name_of_values(self.suffix, ident, number)) or b"")
        return found

    def _put_values(self, ident: int, cell: Cell) -> None:
        """Write what came in this epoch: a row more, or one row anew where it can be merged."""
        values, fresh = cell.new, cell.fresh
        if self._shelf.compact is not None:
            values = self._shelf.compact(self._stored(ident, cell) + values)
            self._drop_values(ident, cell)
        self._put_row(ident, cell, values)
        cell.fresh = fresh

    def _put_row(self, ident: int, cell: Cell, values: list[Any]) -> None:
        row = self._shelf.name_of_values(self.suffix, ident, cell.rows)
        self._shelf.store.put(row, self._shelf.values.encode(values))
        cell.rows += 1
        cell.new = []

    def _drop_values(self, ident: int, cell: Cell) -> None:
        for number in range(cell.rows):
            self._shelf.store.delete(self._shelf.name_of_values(self.suffix, ident, number))
        cell.rows = 0
        cell.new = []
        cell.fresh = False


def spot(window: Any) -> Spot:
    """Give what stands for a window in a table: Beam's intervals are slow to compare."""
    if type(window) is IntervalWindow:
        return window._start_micros, window._end_micros  # noqa: SLF001 (builds no object)
    return window  # type: ignore[no-any-return]


def last_moment(window: Any) -> int:
    """Give a window's last moment in microseconds."""
    if type(window) is IntervalWindow:
        end: int = window._end_micros  # noqa: SLF001 (builds no object)
        return end - 1
    return window.max_timestamp().micros  # type: ignore[no-any-return]


def _packed(ident: int, cell: Cell) -> tuple[Any, ...]:
    return ident, cell.timers, cell.facts, cell.hold, cell.fresh, cell.rows


@cache
def _of_nothing(combine_fn: Any) -> Any:
    """Give what a combiner makes of no value; asked for each element by some triggers."""
    return combine_fn.apply([])
