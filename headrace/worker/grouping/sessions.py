"""Groups a stream into Beam's sessions, where each fires at its end and again for what is late.

The path of `Sessions` with the default trigger, and the ground of `counted_sessions`; all other
windows that merge, and all other triggers, go to `triggers`, which both are held against. Each key
has a row with its open sessions in the order of time. Two indexes say which keys have a session
that ends, or one that has fired and is forgotten, so an epoch costs the keys that it touches. An
index row may be early: a session's end moves with each element, and a key that is woken in vain is
indexed anew then.
"""

from __future__ import annotations

import sys
from functools import cache

from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from headrace.errors import StateError
from headrace.plan.lateness import is_over, over_from
from headrace.state import layout
from headrace.state.layout import Kind
from headrace.state.store import Store
from headrace.worker.beam_types import Key, WindowedCoder, Windowing
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.bounded import Push
from headrace.worker.grouping.grouper import (
    MAX_MICROS,
    MIN_MICROS,
    Compact,
    StreamGrouper,
    first_time,
    held_at,
)
from headrace.worker.grouping.session_groups import (
    Burst,
    SessionGrouper,
    SessionPanes,
    Spans,
    bursts,
)
from headrace.worker.grouping.session_rows import KeySessions, Session, SessionRows
from headrace.worker.grouping.tables import ON_TIME_PANE

#: What an index row says beside its name: nothing.
_HERE = b"\x00"
#: In the name of an index row: kind, stage and time come before.
_SUFFIX_AT = 11


class SessionTables(StreamGrouper):
    """Sessions with the default trigger and any lateness.

    With `compact` (values are accumulators), a session keeps one value between epochs.
    """

    #: What it remembers of a session.
    _make: type[Session] = Session
    #: A session that ends later fires at this watermark all the same.
    _last_end: int = MAX_MICROS

    def __init__(
        self,
        stage: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        compact: Compact | None = None,
    ) -> None:
        kv = windowed_coder.wrapped_value_coder
        self._stage = stage
        self._intake = SessionGrouper(windowed_coder, windowing, sys.maxsize)
        self._window_coder = windowed_coder.window_coder
        self._key_impl = kv.key_coder().get_impl()
        self._key_group_of = ShardOf(kv.key_coder(), layout.KEY_GROUPS).any
        self._lateness: int = windowing.allowed_lateness.micros
        self._accumulates = windowing.accumulation_mode != AccumulationMode.DISCARDING
        self._rows = SessionRows(stage, kv.value_coder(), compact, self._make)
        self._due_head = layout.head(Kind.SESSION_DUE, stage)
        self._over_head = layout.head(Kind.SESSION_OVER, stage)
        self._keys: dict[bytes, KeySessions] = {}
        self._real: dict[bytes, Key] = {}
        self._watermark = MIN_MICROS
        self._has_input = False

    def attach(self, store: Store, watermark: int, now: int = 0) -> None:  # noqa: ARG002 (processing time matters to no session)
        """Begin an epoch."""
        self._store = self._rows.store = store
        self._watermark = watermark
        self._intake.take()
        self._keys, self._real = {}, {}
        self._has_input = False
        self.dropped = 0
        for key in self._rows.take_over(self._window_coder):
            self._keys[key.suffix] = key

    def add(self, kind: int, count: int, payload: bytes) -> None:
        """Take one super tuple."""
        self._intake.add(kind, count, payload)
        self._has_input = True

    def advance(self, watermark: int, now: int, push: Push) -> None:  # noqa: ARG002 (the same)
        """Put the epoch's elements into sessions, then fire those that the watermark has passed."""
        out = SessionPanes(push)
        if self._has_input:
            self._has_input = False
            for key, spans in self._intake.take().items():
                self._take_key(key, spans, out)
        if watermark > self._watermark:
            self._watermark = watermark
            for kind in (Kind.SESSION_DUE, Kind.SESSION_OVER):
                for row, _ in self._store.scan(*layout.until(kind, self._stage, watermark)):
                    self._stored(row[_SUFFIX_AT:])
            self._fire(out)
        out.flush()
        self._settle()

    def hold(self) -> int:
        """Give the last moment of the first session that has not fired.

        An index row that is early is still ahead of the watermark, and so holds nothing back.
        """
        first = first_time(self._store, Kind.SESSION_DUE, self._stage)
        return MAX_MICROS if first is None else held_at(first - 1)

    def next_wakeup(self) -> int | None:
        """Say that processing time matters to no session."""
        return None

    def flush(self) -> None:
        """End the epoch; `advance` has written everything."""
        if self._has_input:
            msg = "a grouping was closed before the time of its last elements was told"
            raise StateError(msg)
        self._keys, self._real = {}, {}

    # What came in.

    def _take_key(self, table_key: Key, spans: Spans, out: SessionPanes) -> None:
        watermark, allowed = self._watermark, self._lateness
        if is_over(min(spans.ends) - 1, watermark, allowed):
            in_time = [
                i for i, end in enumerate(spans.ends) if not is_over(end - 1, watermark, allowed)
            ]
            self.dropped += len(spans.ends) - len(in_time)
            if not in_time:
                return
            spans = Spans(*([column[i] for i in in_time] for column in spans))
        key = self._intake.real_key(table_key)
        encoded_key = self._intake.key_bytes(table_key)
        suffix = self._key_group_of(key).to_bytes(4, "big") + layout.part(encoded_key)
        known = self._stored(suffix)
        if known is None:
            known = self._keys[suffix] = KeySessions(suffix, encoded_key)
        self._real[suffix] = key
        make = self._make
        touched = [placed(known.sessions, burst, make) for burst in bursts(spans)]
        # One burst may have joined the session of another to a third.
        for session in touched if len(touched) == 1 else _left(known.sessions, touched):
            self._grown(known, key, session, out)

    def _grown(self, known: KeySessions, key: Key, session: Session, out: SessionPanes) -> None:
        """See whether a session that has got values fires; they are in `new`."""
        session.waits = session.end > self._watermark
        if not session.waits:  # its end has passed: what is late leaves at once
            values = self._rows.fired(known, session, self._accumulates)
            out.take(key, values, session.start, session.end, _late_pane(session.panes))
            session.panes += 1

    # What is due.

    def _fire(self, out: SessionPanes) -> None:
        """Fire what has ended, the earliest end first, and forget what is over."""
        watermark, allowed, last = self._watermark, self._lateness, self._last_end
        due: list[tuple[int, int, KeySessions, Session]] = []
        for known in self._keys.values():
            for session in known.sessions:
                if session.waits and min(session.end, last) <= watermark:
                    due.append((session.end, len(due), known, session))
        due.sort()
        for _, _, known, session in due:
            self._ended(known, session, out)
        for known in self._keys.values():
            over = [s for s in known.sessions if is_over(s.end - 1, watermark, allowed)]
            if over:
                for session in over:
                    self._close(known, session, out)
                known.sessions = [s for s in known.sessions if s not in over]

    def _ended(self, known: KeySessions, session: Session, out: SessionPanes) -> None:
        """Fire a session of which the watermark has passed the end."""
        values = self._rows.fired(known, session, self._keeps(session))
        out.take(self._key(known), values, session.start, session.end, ON_TIME_PANE)
        session.waits = False
        session.panes = 1

    def _keeps(self, session: Session) -> bool:
        """Whether values that a pane has carried are asked for again."""
        return self._accumulates and not is_over(session.end - 1, self._watermark, self._lateness)

    def _close(self, known: KeySessions, session: Session, out: SessionPanes) -> None:  # noqa: ARG002 (others have a last pane)
        """Let a session go that may not fire again."""
        self._rows.drop(known, session)

    def _key(self, known: KeySessions) -> Key:
        if known.suffix in self._real:
            return self._real[known.suffix]
        return self._key_impl.decode(known.encoded_key)

    # Rows.

    def _stored(self, suffix: bytes) -> KeySessions | None:
        known = self._keys.get(suffix)
        if known is None:
            known = self._rows.load(suffix)
            if known is not None:
                self._keys[suffix] = known
        return known

    def _settle(self) -> None:
        """Write the keys at hand and their index rows, and forget them."""
        for known in self._keys.values():
            self._mark(known)
            self._rows.save(known)
        self._keys = {}

    def _mark(self, known: KeySessions) -> None:
        """Write the index rows of a key."""
        due = min([s.end for s in known.sessions if s.waits], default=None)
        over = min(
            [over_from(s.end - 1, self._lateness) for s in known.sessions if not s.waits],
            default=None,
        )
        known.due = self._index(self._due_head, known.suffix, known.due, due)
        known.over = self._index(self._over_head, known.suffix, known.over, over)

    def _index(self, head: bytes, suffix: bytes, old: int | None, new: int | None) -> int | None:
        """See that a key is woken in time; gives the time under which it stands in the index."""
        new = None if new is None else min(new, MAX_MICROS)
        if old == new:
            return old
        if old is not None and new is not None and self._watermark < old < new:
            return old  # a little early: it is indexed anew when it is woken
        self._move(head, suffix, old, new)
        return new

    def _move(self, head: bytes, suffix: bytes, old: int | None, new: int | None) -> None:
        """Let a key stand elsewhere in an index."""
        if old is not None:
            self._store.delete(head + layout.stamp(old) + suffix)
        if new is not None:
            self._store.put(head + layout.stamp(new) + suffix, _HERE)


def placed(sessions: list[Session], burst: Burst, make: type[Session] = Session) -> Session:
    """Put values where they belong among the sessions of a key; gives the session they are in.

    Sessions that the values' span touches become one with it. Panes are counted anew where the
    bounds have changed, as in Beam.
    """
    start, end = burst.start, burst.end
    first = len(sessions)
    while first and sessions[first - 1].end > start:
        first -= 1
    last = first
    while last < len(sessions) and sessions[last].start < end:
        last += 1
    if first == last:
        made = make(start, end, True, 0, [], [])
        made.new = burst.values
        sessions.insert(first, made)
        return made
    kept = sessions[first]
    for other in sessions[first + 1 : last]:
        kept.absorb(other)
    del sessions[first + 1 : last]
    if start < kept.start or end > kept.end:
        kept.move(min(start, kept.start), max(end, kept.end))
    kept.new += burst.values
    return kept


def _left(sessions: list[Session], touched: list[Session]) -> list[Session]:
    """Give those of the sessions that were touched and have not become part of another."""
    return [session for session in sessions if session in touched]


@cache
def _late_pane(number: int) -> PaneInfo:
    """Give the pane of what came after the end, with how many there were before it."""
    return PaneInfo(number == 0, False, PaneInfoTiming.LATE, number, number)
