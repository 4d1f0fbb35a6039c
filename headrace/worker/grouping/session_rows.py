"""How a key's open sessions lie in the store: one row with all of them, and large values beside it.

Takes and gives `KeySessions`. Values that came in one epoch are one packed chunk. Chunks stand in
the key's own row as long as they are small; more than that go to a row of values, so that a long
session costs what an epoch brings, not what it holds. Decides nothing about time.
"""

from __future__ import annotations

import marshal

from apache_beam.transforms.trigger import GeneralTriggerDriver

from headrace.state.layout import Kind, head, under
from headrace.state.store import Store
from headrace.worker.beam_types import Coder, Interval, Value
from headrace.worker.grouping.grouper import Compact
from headrace.worker.grouping.trigger_rows import Packed
from headrace.worker.grouping.value_bytes import ValueBytes

#: Packed bytes of a session that stand in the key's row: with more, writing the row anew in each
#: epoch costs more than a row of their own.
INLINE_BYTES = 1_024
_MARSHAL_VERSION = 2
#: Under which name records of triggers have the number of panes.
INDEX: str = GeneralTriggerDriver.INDEX.tag
_NUMBER_BYTES = 8


class Session:
    """One open session of a key."""

    __slots__ = ("chunks", "end", "new", "panes", "rows", "start", "waits")

    def __init__(
        self, start: int, end: int, waits: bool, panes: int, chunks: list[bytes], rows: list[int]
    ) -> None:
        self.start = start  # microseconds
        self.end = end
        self.waits = waits  # for the watermark to pass its end; else it has fired, and may again
        self.panes = panes  # fired since it has these bounds
        self.chunks = chunks  # packed values
        self.rows = rows  # numbers of the rows with packed values that came before
        self.new: list[Value] = []  # values that are not packed yet

    def fields(self) -> tuple[object, ...]:
        """Give what it is made from again; all values are packed."""
        return self.start, self.end, self.waits, self.panes, self.chunks, self.rows

    def absorb(self, other: Session) -> None:
        """Become one with a later session."""
        self.chunks += other.chunks
        self.rows += other.rows
        self.new += other.new
        self.move(self.start, other.end)

    def move(self, start: int, end: int) -> None:
        """Take other bounds; panes are counted anew then, as in Beam."""
        self.start, self.end = start, end
        self.panes = 0

    def recall(self, cells: list[Packed]) -> None:
        """Take what triggers remembered of it."""
        self.waits = any(timers for _, timers, *_ in cells)
        self.panes = sum(facts.get(INDEX, 0) for _, _, facts, *_ in cells)


class KeySessions:
    """The open sessions of one key, in the order of time; no two overlap."""

    __slots__ = ("due", "encoded_key", "hold", "next_row", "over", "sessions", "suffix")

    def __init__(self, suffix: bytes, encoded_key: bytes) -> None:
        self.suffix = suffix  # key group and key: how its names end
        self.encoded_key = encoded_key
        self.due: int | None = None  # under which time it stands in the index of what has not fired
        self.over: int | None = None  # the same, of what has fired and is to be forgotten
        self.hold: int | None = None  # the same, of what has fired and holds the watermark again
        self.next_row = 0
        self.sessions: list[Session] = []


class SessionRows:
    """Where the sessions of one stage lie in the store of this epoch."""

    def __init__(
        self,
        stage: int,
        value_coder: Coder,
        compact: Compact | None,
        make: type[Session] = Session,
    ) -> None:
        self.values = ValueBytes(value_coder)
        self._make = make
        self._compact = compact  # given where values are accumulators: makes one of several
        self._head = head(Kind.SESSION, stage)
        self._values_head = head(Kind.SESSION_VALUES, stage)
        self._stage = stage
        self.store: Store

    def load(self, suffix: bytes) -> KeySessions | None:
        """Read the sessions of a key; None: it has none."""
        data = self.store.get(self._head + suffix)
        if data is None:
            return None
        encoded_key, due, over, next_row, sessions, *hold = marshal.loads(data)
        found = KeySessions(suffix, encoded_key)
        found.due, found.over, found.next_row = due, over, next_row
        found.hold = hold[0] if hold else None
        make = self._make
        found.sessions = [make(*one) for one in sessions]
        return found

    def save(self, key: KeySessions) -> None:
        """Write the sessions of a key; nothing is left of a key that has none."""
        if not key.sessions:
            self.store.delete(self._head + key.suffix)
            return
        for one in key.sessions:
            if one.new:
                self._pack(key, one)
        sessions = [one.fields() for one in key.sessions]
        whole: tuple[Value, ...] = (key.encoded_key, key.due, key.over, key.next_row, sessions)
        if key.hold is not None:
            whole += (key.hold,)
        self.store.put(self._head + key.suffix, marshal.dumps(whole, _MARSHAL_VERSION))

    def read(self, key: KeySessions, session: Session) -> list[Value]:
        """Give the values of a session: those that came first are first."""
        decode = self.values.decode
        found: list[Value] = []
        for number in session.rows:
            data = self.store.get(self._name(key, number))
            for chunk in marshal.loads(data or b""):
                found += decode(chunk)
        for chunk in session.chunks:
            found += decode(chunk)
        return found + session.new if found else session.new

    def fired(self, key: KeySessions, session: Session, keep: bool) -> list[Value]:
        """Give the values of a pane; they stay only if later panes are to have them too.

        Who gets an accumulator may change it, so what is kept of one is never what is given.
        """
        values = self.read(key, session)
        if self._compact is not None:
            values = self._compact(values)
            self.drop(key, session)
            if keep:
                session.chunks = [self.values.encode(values)]
        elif not keep:
            self.drop(key, session)
        elif session.new:
            self._pack(key, session)
        return values

    def drop(self, key: KeySessions, session: Session) -> None:
        """Forget the values of a session."""
        for number in session.rows:
            self.store.delete(self._name(key, number))
        session.chunks, session.rows, session.new = [], [], []

    def _pack(self, key: KeySessions, session: Session) -> None:
        if self._compact is not None:
            values = self._compact(self.read(key, session))
            self.drop(key, session)
            session.chunks = [self.values.encode(values)]
            return
        session.chunks.append(self.values.encode(session.new))
        session.new = []
        if sum(map(len, session.chunks)) > INLINE_BYTES:
            data = marshal.dumps(session.chunks, _MARSHAL_VERSION)
            self.store.put(self._name(key, key.next_row), data)
            session.rows.append(key.next_row)
            session.chunks = []
            key.next_row += 1

    def _name(self, key: KeySessions, number: int) -> bytes:
        return self._values_head + key.suffix + number.to_bytes(_NUMBER_BYTES, "big")

    def take_over(self, window_coder: Coder) -> list[KeySessions]:
        """Take the sessions out of records of triggers: so older formats keep them."""
        store, stage = self.store, self._stage
        if not any(True for _ in store.scan(*under(head(Kind.TRIGGER_EVENT, stage)))):
            return []
        decode = window_coder.get_impl().decode
        found = []
        first = head(Kind.TRIGGER, stage)
        for row, data in list(store.scan(*under(first))):
            encoded_key, _, _, windows = marshal.loads(data)
            key = KeySessions(row[len(first) :], encoded_key)
            for encoded, cells in windows:
                key.sessions.append(self._taken(key.suffix, decode(encoded), cells))
            key.sessions.sort(key=_start)
            found.append(key)
        for kind in _OLD:
            for row, _ in list(store.scan(*under(head(kind, stage)))):
                store.delete(row)
        return found

    def _taken(self, suffix: bytes, window: Interval, cells: list[Packed]) -> Session:
        before = head(Kind.TRIGGER_VALUES, self._stage) + suffix
        chunks = [
            self.store.get(before + ident.to_bytes(4, "big") + number.to_bytes(4, "big")) or b""
            for ident, _, _, _, _, rows in cells
            for number in range(rows)
        ]
        start, end = window._start_micros, window._end_micros  # noqa: SLF001 (builds no object)
        made = self._make(start, end, True, 0, chunks, [])
        made.recall(cells)
        return made


#: What records of triggers consist of.
_OLD = (
    Kind.TRIGGER, Kind.TRIGGER_VALUES, Kind.TRIGGER_EVENT, Kind.TRIGGER_CLOCK, Kind.TRIGGER_HOLD,
)


def _start(session: Session) -> int:
    return session.start
