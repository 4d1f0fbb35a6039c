"""NEXMark 12 as the thesis has it: sessions of activity by the wall clock.

Takes persons, auctions and bids. Gives (bidder, count): a bidder's bids until none came for more
than `window_size_sec` whole seconds of the wall clock; one that comes just so many seconds later
still belongs to the session.

Which rows there are depends on the run. What they add up to per bidder does not: that is compared.
At the end of the input the rest is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from headrace.lab.workloads.nexmark.common import is_bid, question
from headrace.lab.workloads.nexmark.q12 import COLUMNS, one_for_its_bidder, sums


class WallClockSessions(beam.DoFn):  # type: ignore[misc]
    """Counts a bidder's bids until the bidder is silent for long.

    The cell holds (count, second of the last bid). Silence is noticed by the next bid or by a
    timer, whichever comes first; a second timer, at the end of the window, gives what is left.
    """

    CELL = ReadModifyWriteStateSpec("session", FastPrimitivesCoder())
    SILENT = TimerSpec("silent", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)
    Cell = beam.DoFn.StateParam(CELL)
    Silent = beam.DoFn.TimerParam(SILENT)
    End = beam.DoFn.TimerParam(END)

    def __init__(self, gap_sec: int, clock: Callable[[], float] = time.time) -> None:
        self._gap_sec = gap_sec
        self._clock = clock

    def process(
        self,
        element: tuple[int, int],
        cell: Any = Cell,
        silent: Any = Silent,
        end: Any = End,
    ) -> Iterator[tuple[int, int]]:
        """Take a bid."""
        now = int(self._clock())
        count, last = cell.read() or (0, now)
        if not count:
            end.set(GlobalWindow().max_timestamp())
        elif now - last > self._gap_sec:
            yield element[0], count
            count = 0
        cell.write((count + 1, now))
        if now > last or not count:
            # One second more than the gap: a bid just so late still belongs to the session.
            silent.set(Timestamp(now + self._gap_sec + 1))

    @on_timer(SILENT)  # type: ignore[untyped-decorator]
    def fall_silent(
        self, bidder: int = beam.DoFn.KeyParam, cell: Any = Cell
    ) -> Iterator[tuple[int, int]]:
        """Give the session of a bidder who fell silent."""
        yield from _take(bidder, cell)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def finish(
        self, bidder: int = beam.DoFn.KeyParam, cell: Any = Cell
    ) -> Iterator[tuple[int, int]]:
        """Give what is left when the input ends."""
        yield from _take(bidder, cell)


def _take(bidder: int, cell: Any) -> Iterator[tuple[int, int]]:
    held = cell.read()
    if held is not None:
        cell.clear()
        yield bidder, held[0]


class CountSessions(beam.PTransform):  # type: ignore[misc]
    """Events to (bidder, count)."""

    def __init__(self, gap_sec: int) -> None:
        super().__init__()
        self._gap_sec = gap_sec

    def expand(self, events: Any) -> Any:
        """Count bids per bidder and session."""
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Bidder" >> beam.Map(one_for_its_bidder).with_output_types(tuple[int, int])
            | "Sessions"
            >> beam.ParDo(WallClockSessions(self._gap_sec)).with_output_types(tuple[int, int])
        )


def build(settings: Any) -> CountSessions:
    """Make the pipeline from events to rows."""
    return CountSessions(settings.window_size_sec)


THESIS = question(
    "q12-thesis",
    "Processing-time windows: how many bids does a person make in each session of our time?",
    COLUMNS,
    build,
    rule=sums,
)
