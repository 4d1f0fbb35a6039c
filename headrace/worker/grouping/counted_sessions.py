"""Groups a stream into Beam's sessions that fire at their end and after so many elements.

The path of `Sessions` with `AfterWatermark(early=AfterCount(n), late=AfterCount(m))`, each of the
two or none: `sessions` with a number and three flags for each session. Beam's trigger driver says
what is right where a session that has fired grows beyond its end: it goes on to count, as late ones
do, though its end is ahead again; it holds the watermark until it fires behind that end or is
forgotten; and what no count has let out leaves in a last pane. A third index has such holds.
"""

from __future__ import annotations

import sys
from functools import cache

from apache_beam.transforms.trigger import AfterCount, AfterWatermark, GeneralTriggerDriver
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from headrace.plan.lateness import over_from
from headrace.state import layout
from headrace.state.layout import Kind
from headrace.worker.beam_types import Key, StateTag, WindowedCoder, Windowing
from headrace.worker.exchange.grouping_kind import Counts, counts_of
from headrace.worker.grouping.grouper import Compact, first_time, held_at
from headrace.worker.grouping.session_groups import SessionPanes
from headrace.worker.grouping.session_rows import KeySessions, Session
from headrace.worker.grouping.sessions import SessionTables
from headrace.worker.grouping.trigger_rows import Packed


class Counted(Session):
    """One open session of a key, and what its trigger has counted."""

    __slots__ = ("count", "fresh", "holds", "later")

    def __init__(
        self, start: int, end: int, waits: bool, panes: int, chunks: list[bytes], rows: list[int],
        count: int = 0, later: int = 0, fresh: bool = False, holds: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(start, end, waits, panes, chunks, rows)
        self.count = count  # elements since the last pane, early or late as it waits or has fired
        self.later = later  # panes that were not early, since it has these bounds
        self.fresh = fresh  # has values that no pane has carried
        self.holds = holds  # holds the watermark though it has fired; who waits does anyway

    def fields(self) -> tuple[object, ...]:
        """Give what it is made from again; all values are packed."""
        return *super().fields(), self.count, self.later, self.fresh, self.holds

    def absorb(self, other: Session) -> None:
        """Become one with a later session; what has fired once has fired."""
        assert isinstance(other, Counted)
        if self.waits == other.waits:
            self.count += other.count
        elif self.waits:  # early counts end here
            self.count = other.count
        self.holds = self.holds or other.holds or self.waits != other.waits
        self.waits = self.waits and other.waits
        self.fresh = self.fresh or other.fresh
        super().absorb(other)

    def move(self, start: int, end: int) -> None:
        """Take other bounds; panes are counted anew then, as in Beam."""
        super().move(start, end)
        self.later = 0

    def recall(self, cells: list[Packed]) -> None:
        """Take what triggers remembered of it."""
        facts = [found for _, _, found, *_ in cells]
        self.waits = not any(_FIRED in found or _FINISHED in found for found in facts)
        self.panes = sum(found.get(_INDEX, 0) for found in facts)
        self.count = sum(found.get(_EARLY if self.waits else _LATE, 0) for found in facts)
        self.later = sum(found.get(_LATER, 0) for found in facts)
        self.fresh = any(fresh for _, _, _, _, fresh, _ in cells)
        self.holds = not self.waits and any(hold is not None for _, _, _, hold, *_ in cells)


class CountedSessions(SessionTables):
    """Sessions that fire at their end and after so many elements, with any lateness."""

    _make = Counted
    _last_end = sys.maxsize  # one that ends beyond all time is closed, as by Beam's driver

    def __init__(
        self,
        stage: int,
        windowed_coder: WindowedCoder,
        windowing: Windowing,
        compact: Compact | None = None,
    ) -> None:
        super().__init__(stage, windowed_coder, windowing, compact)
        self._counts = counts_of(windowing) or Counts(None, None)
        self._hold_head = layout.head(Kind.SESSION_HOLD, stage)

    def hold(self) -> int:
        """Give the last moment of the first session that has a pane to come."""
        first = first_time(self._store, Kind.SESSION_HOLD, self._stage)
        waiting = super().hold()
        return waiting if first is None else min(waiting, held_at(first))

    def _grown(self, known: KeySessions, key: Key, session: Session, out: SessionPanes) -> None:
        """Count what came, as Beam's driver does once for all that comes together."""
        assert isinstance(session, Counted)
        came = len(session.new)
        early, late = self._counts
        ahead = session.end > self._watermark
        if session.waits and ahead:
            session.fresh = True
            session.count += came
            fires = early is not None and session.count >= early
        elif session.waits:  # all of it came behind its end
            session.waits = False
            fires = True
        elif late is None:  # it is finished: nothing of it leaves any more
            self._rows.drop(known, session)
            session.holds = False
            self.dropped += came
            return
        else:
            session.fresh = True
            session.holds = session.holds or ahead
            session.count += came
            fires = session.count >= late
        if fires:
            session.holds = session.holds and ahead
            finished = late is None and not session.waits
            self._give(known, key, session, _pane(session, finished, ahead, at_end=False), out)

    def _ended(self, known: KeySessions, session: Session, out: SessionPanes) -> None:
        assert isinstance(session, Counted)
        session.waits = False
        pane = _pane(session, self._counts.late is None, ahead=False, at_end=True)
        self._give(known, self._key(known), session, pane, out)

    def _close(self, known: KeySessions, session: Session, out: SessionPanes) -> None:
        """Let out what no count has, and let the session go."""
        assert isinstance(session, Counted)
        if session.fresh and (session.waits or self._counts.late is not None):
            # Whose end lies beyond all time is closed ahead of it.
            ahead = over_from(session.end - 1, self._lateness) < session.end
            pane = _pane(session, finished=True, ahead=ahead, at_end=True)
            self._give(known, self._key(known), session, pane, out)
        super()._close(known, session, out)

    def _give(
        self, known: KeySessions, key: Key, session: Counted, pane: PaneInfo, out: SessionPanes
    ) -> None:
        keeps = not pane.is_last and self._keeps(session)
        values = self._rows.fired(known, session, keeps)
        out.take(key, values, session.start, session.end, pane)
        session.count = 0
        session.fresh = False

    def _mark(self, known: KeySessions) -> None:
        super()._mark(known)
        held = (s.end - 1 for s in known.sessions if isinstance(s, Counted) and s.holds)
        hold = min(held, default=None)
        if hold != known.hold:
            self._move(self._hold_head, known.suffix, known.hold, hold)
            known.hold = hold


def _pane(session: Counted, finished: bool, ahead: bool, at_end: bool) -> PaneInfo:
    """Number a pane.

    Args:
        session: that fires.
        finished: whether it is the last one.
        ahead: whether the end is still to come.
        at_end: whether it fires for the time, not for a count.
    """
    index, number = session.panes, session.later
    session.panes += 1
    if ahead and number == 0:
        return _info(index, finished, PaneInfoTiming.EARLY, -1)
    session.later += 1
    if ahead:
        timing = PaneInfoTiming.EARLY
    else:
        timing = PaneInfoTiming.ON_TIME if at_end and number == 0 else PaneInfoTiming.LATE
    return _info(index, finished, timing, number)


@cache
def _info(index: int, finished: bool, timing: int, number: int) -> PaneInfo:
    return PaneInfo(index == 0, finished, timing, index, number)


def _named(tag: StateTag, *prefixes: str) -> str:
    """Give the name of a fact in records of triggers; the innermost trigger is first.

    Beam's tags put each prefix before the name.
    """
    return "".join([*reversed(prefixes), tag.tag])


_INDEX = _named(GeneralTriggerDriver.INDEX)
_LATER = _named(GeneralTriggerDriver.NONSPECULATIVE_INDEX)
_FINISHED = _named(GeneralTriggerDriver.TOMBSTONE)
_FIRED = _named(AfterWatermark.LATE_TAG, "trigger")
_EARLY = _named(AfterCount.COUNT_TAG, "early", "trigger")
_LATE = _named(AfterCount.COUNT_TAG, "late", "trigger")
