"""Keeps a stage's timers in a store and gives back those that are due, in firing order.

Takes Beam's timer objects as user code sets and clears them; watermark and processing time are
handed in. A timer is known by (step, key, window, family, tag): setting it again moves it. What an
epoch sets stays in memory until `flush`; a timer that is set and fires in one epoch leaves no row.

A timer has a row under its own name, which says where its index rows are, and up to two index
rows: by firing time (with the timer itself, so that one scan brings everything) and, if it holds
the watermark at another moment than that of its firing, by output time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from headrace.errors import HeadraceError
from headrace.state.layout import Kind, head, moment, part, stamp, time_of, under, until
from headrace.state.store import Store, odd_rows
from headrace.worker.beam_types import Timer, TimerCoder, Value
from headrace.worker.userstate.cell_rows import Owners
from headrace.worker.userstate.timers import DueTimer, TimerSink

_EVENT_TIME = beam_runner_api_pb2.TimeDomain.EVENT_TIME
_FIRST, _LAST = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
_STAMP_BYTES = 8
_TIME_END = 11  # kind, stage, time; see layout.name
_KEY_START = 12  # key group and step; see Owners
_DIGESTED, _DIGEST_BYTES = 0xFF, 24  # see layout.part


class _Family:
    """One timer family of one step."""

    def __init__(
        self, transform_id: str, family: str, line: _Line, timer_coder: TimerCoder
    ) -> None:
        self.transform_id = transform_id
        self.family = family
        self.line = line
        self.by_event_time = line.by_event_time
        key_coder, window_coder = timer_coder._get_component_coders()  # noqa: SLF001 (no other way)
        self.owners = Owners(transform_id, key_coder)
        self.part = part(family.encode())
        self.encode_key: Callable[[Value], bytes] = key_coder.get_impl().encode_nested
        self.encode_window: Callable[[Value], bytes] = window_coder.get_impl().encode
        impl = timer_coder.get_impl()
        self.encode: Callable[[Value], bytes] = impl.encode
        self.decode: Callable[[bytes], Value] = impl.decode

    def due(self, timer: Timer) -> DueTimer:
        return DueTimer(self.transform_id, self.family, timer, self.by_event_time)


class _Set(NamedTuple):
    """A timer that is set in memory."""

    fire: int
    hold: int
    family: _Family
    timer: Timer


class _Line:
    """The timers of one time domain, in the order of firing: those in memory and those stored."""

    def __init__(self, stage: int, index: Kind, live: dict[bytes, _Set | None]) -> None:
        self.index = head(index, stage)
        self.letter = self.index[:1]
        self._kind = index
        self.by_event_time = index is Kind.TIMER_EVENT
        self._stage = stage
        self._live = live
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._bound: int | None = None
        self._heap: list[tuple[int, bytes]] = []
        self._rows: Iterator[tuple[bytes, bytes]] = iter(())
        self._row: tuple[bytes, bytes] | None = None

    def note(self, fire: int, name: bytes) -> None:
        """A timer was set; it counts at once if it is already due."""
        if self._bound is not None and fire <= self._bound:
            heapq.heappush(self._heap, (fire, name))

    def find(self, bound: int, store: Store) -> tuple[int, bytes, bytes | None] | None:
        """Give (time, timer's name, row's value or None if in memory) of the first one due."""
        if bound != self._bound:
            self._begin(bound, store)
        heap, live = self._heap, self._live
        while heap:
            held = live.get(heap[0][1])
            if held is not None and held.fire == heap[0][0]:
                break
            heapq.heappop(heap)  # fired, cleared or moved since
        while self._row is not None and self._row[0][_TIME_END:] in live:
            self._row = next(self._rows, None)
        if self._row is None:
            return (*heap[0], None) if heap else None
        row, value = self._row
        stored = (time_of(row), row[_TIME_END:])
        return (*heap[0], None) if heap and heap[0] < stored else (*stored, value)

    def _begin(self, bound: int, store: Store) -> None:
        self._bound = bound
        self._heap = [
            (held.fire, name)
            for name, held in self._live.items()
            if held is not None and held.family.line is self and held.fire <= bound
        ]
        heapq.heapify(self._heap)
        self._rows = store.scan(*until(self._kind, self._stage, bound))
        self._row = next(self._rows, None)

    def first(self, store: Store) -> int | None:
        """Give the firing time of the first one, due or not."""
        times = [
            held.fire
            for held in self._live.values()
            if held is not None and held.family.line is self
        ]
        row = next(store.scan(*until(self._kind, self._stage, _LAST)), None)
        if row is not None:
            times.append(time_of(row[0]))
        return min(times, default=None)


class StoredTimers:
    """All timers of one stage on one shard, epoch after epoch."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._timers = head(Kind.TIMER, stage)
        self._holds = head(Kind.TIMER_HOLD, stage)
        #: Every timer that the epoch touched; None: not set now. These have no rows in the store.
        self._live: dict[bytes, _Set | None] = {}
        self._event = _Line(stage, Kind.TIMER_EVENT, self._live)
        self._clock = _Line(stage, Kind.TIMER_CLOCK, self._live)
        self._lines = {line.letter: line for line in (self._event, self._clock)}
        self._families: dict[bytes, _Family] = {}
        self._store: Store | None = None

    @property
    def families(self) -> int:
        """How many timer families the stage's steps have."""
        return len(self._families)

    def sink(
        self, transform_id: str, family: str, domain: int, timer_coder: TimerCoder
    ) -> TimerSink:
        """Give the object through which user code sets timers of one family."""
        line = self._event if domain == _EVENT_TIME else self._clock
        made = _Family(transform_id, family, line, timer_coder)
        self._families[made.owners.step + made.part] = made
        untagged = made.part + part(b"")
        owner_of, encode_key, encode_window = made.owners.name, made.encode_key, made.encode_window
        live, is_event = self._live, line is self._event

        def put(timer: Timer) -> None:
            tag = timer.dynamic_timer_tag
            name = owner_of(encode_key(timer.user_key), encode_window(timer.windows[0])) + (
                made.part + part(tag.encode()) if tag else untagged
            )
            if name not in live:
                self._take_over(name)
            if timer.clear_bit:
                live[name] = None
                return
            fire = hold = timer.fire_timestamp.micros
            if timer.hold_timestamp is not timer.fire_timestamp:
                hold = timer.hold_timestamp.micros
            if not (_FIRST <= fire <= _LAST and _FIRST <= hold <= _LAST):
                fire, hold = max(_FIRST, min(fire, _LAST)), max(_FIRST, min(hold, _LAST))
                timer = _at(timer, fire, hold)
            live[name] = _Set(fire, min(fire, hold) if is_event else hold, made, timer)
            line.note(fire, name)

        return TimerSink(put)

    def attach(self, store: Store) -> None:
        """Begin an epoch; what an epoch that failed left behind is forgotten."""
        self._forget()
        self._store = store

    def _forget(self) -> None:
        self._live.clear()
        self._event.forget()
        self._clock.forget()
        for family in self._families.values():
            family.owners.forget()

    def _open(self) -> Store:
        if self._store is None:
            msg = "timers were asked for outside an epoch: attach a store first"
            raise HeadraceError(msg)
        return self._store

    def _take_over(self, name: bytes) -> None:
        """Take a timer's rows out of the store: from now on it is in memory, or not set."""
        store = self._open()
        found = store.get(self._timers + name)
        if found is not None:
            self._delete(store, name, found)

    def _delete(self, store: Store, name: bytes, value: bytes) -> None:
        fire, hold = value[1 : 1 + _STAMP_BYTES], value[1 + _STAMP_BYTES :]
        line = self._lines[value[:1]]
        store.delete(self._timers + name)
        store.delete(line.index + fire + name)
        if line is self._clock or hold != fire:
            store.delete(self._holds + hold + name)

    def pop(self, watermark: int, now: int) -> DueTimer | None:
        """Give the next timer to fire: event time first, by time, then by the timer's name.

        Timers that are set between two calls count. The stored ones are looked for once per value
        of `watermark` and of `now`, so hand in the same values while an epoch fires its timers.
        """
        store = self._open()
        for line, bound in ((self._event, watermark), (self._clock, now)):
            found = line.find(bound, store)
            if found is None:
                continue
            fire, name, value = found
            held = self._live.get(name)
            self._live[name] = None
            if held is not None:
                return held.family.due(held.timer)
            assert value is not None  # it is not in memory, so the store had it
            self._delete(store, name, line.letter + stamp(fire) + value[:_STAMP_BYTES])
            family = self._family_of(name)
            timer = family.decode(value[_STAMP_BYTES:])
            return family.due(_at(timer, fire, moment(value[:_STAMP_BYTES])))
        return None

    def next_due(self, watermark: int) -> int | None:
        """Give the firing time of the first event-time timer that is due; None: none is."""
        found = self._event.find(watermark, self._open())
        return None if found is None else found[0]

    def _family_of(self, name: bytes) -> _Family:
        start = _owner_end(name)
        family = self._families.get(name[4:_KEY_START] + name[start : _part_end(name, start)])
        if family is None:
            msg = f"stage {self._stage} has a timer of a step or family that it does not know"
            raise odd_rows(msg)
        return family

    def pending(self) -> bool:
        """Whether any timer is set."""
        if any(held is not None for held in self._live.values()):
            return True
        return next(self._open().scan(*under(self._timers)), None) is not None

    def hold(self) -> int:
        """Give the moment at which set timers hold the output watermark; the end of time if none.

        An event-time timer holds no later than its firing time.
        """
        holds = [held.hold for held in self._live.values() if held is not None]
        for kind in (Kind.TIMER_EVENT, Kind.TIMER_HOLD):
            row = next(self._open().scan(*until(kind, self._stage, _LAST)), None)
            if row is not None:
                holds.append(time_of(row[0]))
        return min(holds, default=_LAST)

    def next_wakeup(self) -> int | None:
        """Give the time of the first processing-time timer; None if none is set."""
        return self._clock.first(self._open())

    def drop(self, owners: Collection[bytes]) -> int:
        """Forget the timers of owners whose state expired; give how many there were."""
        store = self._open()
        wanted = owners if isinstance(owners, set | frozenset) else set(owners)
        names = [
            name
            for name, held in self._live.items()
            if held is not None and name[: _owner_end(name)] in wanted
        ]
        if next(store.scan(*under(self._timers)), None) is not None:
            for owner in wanted:
                for row, value in list(store.scan(*under(self._timers + owner))):
                    name = row[len(self._timers) :]
                    self._delete(store, name, value)
                    names.append(name)
        self._live.update(dict.fromkeys(names))  # a scan that is under way may still show them
        return len(names)

    def flush(self) -> None:
        """End the epoch: write every timer that is set, keep nothing."""
        store = self._open()
        for name, held in self._live.items():
            if held is None:
                continue
            line = held.family.line
            fire, hold = stamp(held.fire), stamp(held.hold)
            store.put(self._timers + name, line.letter + fire + hold)
            store.put(line.index + fire + name, hold + held.family.encode(held.timer))
            if line is self._clock or hold != fire:
                store.put(self._holds + hold + name, b"")
        self._forget()
        self._store = None


def _at(timer: Timer, fire: int, hold: int) -> Timer:
    """Give the timer with exact times: Beam's coder keeps milliseconds only."""
    return timer._replace(
        fire_timestamp=Timestamp(micros=fire), hold_timestamp=Timestamp(micros=hold)
    )


def _part_end(name: bytes, start: int) -> int:
    size = name[start]
    return start + 1 + (_DIGEST_BYTES if size == _DIGESTED else size)


def _owner_end(name: bytes) -> int:
    return _part_end(name, _part_end(name, _KEY_START))
