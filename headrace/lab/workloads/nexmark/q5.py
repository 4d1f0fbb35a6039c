"""NEXMark 5, hot items: which auctions get the most bids, lately?

Takes persons, auctions and bids. Gives (window_start, auction, num): per sliding window of
`window_size_sec` every `window_period_sec`, all auctions that have the greatest number of bids in
it. Windows that begin before the first event are answered like any other; the thesis' variant
leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows

from headrace.lab.workloads.nexmark.common import is_bid, question, to_ms
from headrace.lab.workloads.nexmark.model import Bid
from headrace.lab.workloads.nexmark.times import Schedule

EPOCH_MS = 1_000
Row = tuple[int, int, int]
Hottest = tuple[int, tuple[int, ...]]  # the greatest count, and the auctions that have it


class KeepHottest(beam.CombineFn):  # type: ignore[misc]
    """Keeps all of the (auction, count) pairs that have the greatest count."""

    def create_accumulator(self) -> Hottest:
        """Begin with nothing; a count is never 0."""
        return 0, ()

    def add_input(self, accumulator: Hottest, counted: tuple[int, int]) -> Hottest:
        """Take one pair."""
        auction, count = counted
        most, auctions = accumulator
        if count < most:
            return accumulator
        return (count, (*auctions, auction)) if count == most else (count, (auction,))

    def merge_accumulators(self, accumulators: Iterable[Hottest]) -> Hottest:
        """Keep what is hottest of all."""
        known = list(accumulators)
        most = max(count for count, _ in known)
        return most, tuple(a for count, auctions in known if count == most for a in auctions)

    def extract_output(self, accumulator: Hottest) -> Hottest:
        """Give what was kept."""
        return accumulator


def one_for_its_auction(bid: Bid) -> tuple[int, int]:
    """Count a bid."""
    return bid.auction, 1


def rows_from(first_ms: int) -> Callable[..., Iterator[Row]]:
    """Give the function that makes rows, of windows that begin at `first_ms` or later."""

    def rows(hottest: Hottest, window: Any = beam.DoFn.WindowParam) -> Iterator[Row]:
        count, auctions = hottest
        start = to_ms(window.start)
        if start >= first_ms:
            for auction in auctions:
                yield start, auction, count

    return rows


class HotItems(beam.PTransform):  # type: ignore[misc]
    """Events to (window_start, auction, num)."""

    def __init__(self, settings: Any, first_ms: int) -> None:
        super().__init__()
        self._windows = SlidingWindows(settings.window_size_sec, settings.window_period_sec)
        self._first_ms = first_ms

    def expand(self, events: Any) -> Any:
        """Count per auction and window, keep the greatest counts of each window."""
        counts = (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Auction" >> beam.Map(one_for_its_auction).with_output_types(tuple[int, int])
            | "Window" >> beam.WindowInto(self._windows)
            | "Count" >> beam.CombinePerKey(sum)
        )
        return (
            counts
            | "Hottest" >> beam.CombineGlobally(KeepHottest()).without_defaults()
            | "Rows" >> beam.FlatMap(rows_from(self._first_ms)).with_output_types(Row)
        )


def build(settings: Any) -> HotItems:
    """Make the pipeline from events to rows."""
    return HotItems(settings, first_ms=-(2**63))


def build_thesis(settings: Any) -> HotItems:
    """Make the pipeline of the thesis: no window begins before the first event's second."""
    group = settings.out_of_order_group_size
    first = settings.first_event_number // group * group
    first_ms = Schedule.of(settings).nanos_at(first) // 1_000_000
    return HotItems(settings, first_ms=first_ms - first_ms % EPOCH_MS)


_COLUMNS = ("window_start", "auction", "num")
WORKLOAD = question(
    "q5", "Hot items: which auctions get the most bids, lately?", _COLUMNS, build, only_bids=True
)
THESIS = question(
    "q5-thesis",
    "Hot items, in windows that begin with the first event or later.",
    _COLUMNS,
    build_thesis,
)
