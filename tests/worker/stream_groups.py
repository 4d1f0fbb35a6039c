"""Drives stream groupers in tests: elements through a writer, epochs over one store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from apache_beam import coders
from apache_beam.transforms import core, trigger, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import batch_of, elements
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of, spans_suffice
from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.grouper import StreamGrouper
from headrace.worker.grouping.triggers import TriggeredGroups

MIN: int = MIN_TIMESTAMP.micros
MAX: int = MAX_TIMESTAMP.micros
SECOND = 1_000_000
ANY = coders.FastPrimitivesCoder()
STAGE = 7

#: What one pane is: key, values in any order, window, time, pane info; all as text or numbers.
Pane = tuple[str, tuple[str, ...], str, int, str]


class CountingStore(MemoryStore):
    """A store that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        self.gets = self.writes = self.scanned = 0

    def get(self, name: bytes) -> bytes | None:
        self.gets += 1
        return super().get(name)

    def put(self, name: bytes, value: bytes) -> None:
        self.writes += 1
        super().put(name, value)

    def delete(self, name: bytes) -> None:
        self.writes += 1
        super().delete(name)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, end):
            self.scanned += 1
            yield row


def windowed(windowing: core.Windowing, key: Any, value: Any, micros: int) -> WindowedValue | None:
    """Give an element the windows Beam assigns; None if it has none."""
    moment = Timestamp(micros=micros)
    windows = tuple(windowing.windowfn.assign(window.WindowFn.AssignContext(moment, value)))
    return WindowedValue((key, value), moment, windows) if windows else None


def pane(element: Any) -> Pane:
    key, values = element.value
    (only,) = element.windows
    return (
        repr(key), tuple(sorted(map(repr, values))), repr(only), element.timestamp.micros,
        repr(element.pane_info),
    )  # fmt: skip


class Stream:
    """One shard's grouping, epoch by epoch; the grouper is built anew for each."""

    def __init__(
        self,
        windowing: core.Windowing,
        *,
        general: bool = False,
        memory_bytes: int = 1 << 30,
        compact: Any = None,
        key_coder: Any = ANY,
        value_coder: Any = ANY,
        rebuild: bool = True,
        slices: Any = None,
        combination: Any = None,
        on_push: Any = list,
        combining: Any = None,
    ) -> None:
        self.windowing = windowing
        self.on_push = on_push  # what is kept of the groups that are handed on, when they are
        self.combining = combining  # how the writer merges accumulators, if it does
        self.general = general
        self.memory_bytes = memory_bytes
        self.compact = compact
        self.rebuild = rebuild
        self.slices = slices
        self.combination = combination
        self.coder = coders.WindowedValueCoder(
            coders.TupleCoder([key_coder, value_coder]), windowing.windowfn.get_window_coder()
        )
        self.store = CountingStore()
        self.watermark = MIN
        self.dropped = 0
        self.grouper = self.build()

    def build(self) -> StreamGrouper:
        if self.general:
            return TriggeredGroups(STAGE, self.coder, self.windowing, self.compact)
        return make_stream_grouper(
            STAGE, self.coder, self.windowing, self.memory_bytes, self.compact,
            self.slices, self.combination,
        )

    def tuples(self, found: list[Any], batch: int = 3) -> list[SuperTuple]:
        rows: list[SuperTuple] = []
        path = grouping_of(self.windowing)
        if self.general and path is Grouping.SESSIONS:
            path = Grouping.GENERAL
        writer = GroupWriter(
            0, self.coder, path, rows.append, shards=1,
            super_tuple_bytes=64, combining=self.combining, spans=spans_suffice(self.windowing),
        )
        for start in range(0, len(found), batch):
            writer.write(*batch_of(found[start : start + batch]))
        writer.flush()
        return rows

    def epoch(
        self, found: list[Any], watermark: int, now: int = 0, batch: int = 1
    ) -> list[WindowedValue]:
        """Run one epoch; give what was pushed, in order."""
        if self.rebuild:
            self.grouper = self.build()
        rows = self.tuples(found, batch) if found else []
        pushed: list[Any] = []
        self.store.clear()
        self.grouper.attach(self.store, self.watermark, now)
        for row in rows:
            self.grouper.add(row.kind, row.elements, row.payload)
        self.grouper.advance(
            watermark, now, lambda v, meta: pushed.extend(elements(self.on_push(v), meta))
        )
        self.hold, self.wakeup = self.grouper.hold(), self.grouper.next_wakeup()
        self.grouper.flush()
        self.dropped += self.grouper.dropped
        self.watermark = max(self.watermark, watermark)
        return pushed


class Naive:
    """Beam's trigger driver with Beam's state in memory, key by key.

    It decides itself what is late, and gets every element. In one point it is made to follow the
    model: it would take an element at the very watermark where a window becomes droppable (see
    docs/decisions/2026-11-16-one-rule-for-late-data.md).
    """

    def __init__(self, windowing: core.Windowing, holds_behind: bool = True) -> None:
        self.windowing = windowing
        self.now = 0
        self.driver = trigger.GeneralTriggerDriver(windowing, self)
        self.driver.allowed_lateness -= Duration(micros=1)
        self.holds_behind = holds_behind
        self.states: dict[bytes, Any] = defaultdict(FreshState)
        self.watermark = MIN_TIMESTAMP

    def time(self) -> Timestamp:
        return Timestamp(micros=self.now)

    def epoch(self, found: list[Any], watermark: int, now: int = 0) -> list[WindowedValue]:
        self.now = now
        by_key: dict[bytes, list[Any]] = defaultdict(list)
        for element in found:
            key, value = element.value
            by_key[ANY.encode(key)].append(element.with_value(value))
        out = []
        last, self.watermark = self.watermark, max(self.watermark, Timestamp(micros=watermark))
        for name, of_key in by_key.items():
            self.states[name].mark = MIN_TIMESTAMP if self.holds_behind else last
            out += self._with_key(
                name, self.driver.process_elements(self.states[name], of_key, last, last)
            )
        for name in list(self.states):
            out += self._with_key(name, self._due(self.states[name]))
        return out

    def hold(self) -> int:
        """Give the earliest time at which an output may come, in whole milliseconds."""
        tag = self.driver.WATERMARK_HOLD
        holds = [
            state.get_state(ident, tag)
            for state in self.states.values()
            for ident in list(state.state)
            if tag.tag in state.state[ident]
        ]
        times = [held.micros // 1_000 * 1_000 for held in holds if held is not None]
        return min(times, default=MAX)

    def _with_key(self, name: bytes, panes: Any) -> list[WindowedValue]:
        key = ANY.decode(name)
        return [found.with_value((key, list(found.value))) for found in panes]

    def _due(self, state: Any) -> Iterator[Any]:
        yield from self._fire(state, TimeDomain.WATERMARK)
        yield from self._expire(state)
        yield from self._fire(state, TimeDomain.REAL_TIME)

    def _fire(self, state: Any, domain: str) -> Iterator[Any]:
        """Fire the earliest timer, again and again; one that was cleared meanwhile is gone."""
        clock = domain == TimeDomain.REAL_TIME
        while True:
            due, _ = state.get_timers(
                watermark=self.watermark, processing_time=Timestamp(micros=self.now)
            )
            due = [one for one in due if one[1][1] == domain]
            if not due:
                return
            ident, (name, _, moment, tag) = min(due, key=lambda one: one[1][2])
            state.clear_timer(ident, name, domain, tag)
            told = self.watermark if clock else moment
            yield from self.driver.process_timer(ident, name, domain, told, state, self.watermark)

    def _expire(self, state: Any) -> Iterator[Any]:
        """Do what Beam's model leaves to the runner: a last pane, then forget the window."""
        adapter = trigger.MergeableStateAdapter(state)
        for only, ids in list(adapter.window_ids.items()):
            if self.watermark <= only.max_timestamp() + self.windowing.allowed_lateness:
                continue
            finished = adapter.get_state(only, self.driver.TOMBSTONE)
            if not finished and state.fresh.intersection(ids):
                yield self.driver._output(only, True, adapter, self.watermark, True)
            for ident in ids:
                state.state.pop(ident, None)
                state.timers.pop(ident, None)
            del adapter.window_ids[only]
            state.set_global_state(adapter.WINDOW_IDS, adapter.window_ids)


class FreshState(trigger.InMemoryUnmergedState):  # type: ignore[misc]
    """Beam's state in memory; knows under which ids values wait that no pane has carried.

    A window that does not hold yet is not made to hold behind the mark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fresh: set[Any] = set()
        self.mark = MIN_TIMESTAMP

    def add_state(self, window: Any, tag: Any, value: Any) -> None:
        if tag.tag == "elements":
            self.fresh.add(window)
        elif tag.tag == "watermark" and value < self.mark:
            windows = self.global_state["window_ids"].values()
            (parts,) = [ids for ids in windows if window in ids]
            if not any(self.state[ident].get(tag.tag) for ident in parts):
                return
        super().add_state(window, tag, value)

    def get_state(self, window: Any, tag: Any) -> Any:
        if tag.tag == "elements":
            self.fresh.discard(window)
        return super().get_state(window, tag)


def events(windowing: core.Windowing, data: list[tuple[Any, Any, int]]) -> list[WindowedValue]:
    """Give (key, value, microseconds) as elements in their windows."""
    made = (windowed(windowing, *one) for one in data)
    return [element for element in made if element is not None]
