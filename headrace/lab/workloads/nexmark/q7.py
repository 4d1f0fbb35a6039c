"""NEXMark 7, highest bid: which bids are the highest of the last ten seconds?

Takes persons, auctions and bids. Gives (window_start, auction, bidder, price, date_time, extra):
per fixed window of `window_size_sec`, every bid that has its highest price; equal bids as often as
they come.

Beam's pipeline sends the highest price of the window to every bid as a side input; that is the
variant q7-side-input. Here the bids with the highest price are carried along with it, so that no
bid has to wait: the same answer, but for bids that come late, which are dropped and not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.lab.workloads.nexmark.common import BID_COLUMNS, is_bid, question, to_ms
from headrace.lab.workloads.nexmark.model import Bid

Row = tuple[int, int, int, int, int, str]
Plain = tuple[int, int, int, int, str]  # a bid
Highest = tuple[int, tuple[Plain, ...]]  # the highest price, and the bids that have it

_PRICE = itemgetter(2)


class KeepHighest(beam.CombineFn):  # type: ignore[misc]
    """Keeps all bids that have the highest price."""

    def create_accumulator(self) -> Highest:
        """Begin with nothing."""
        return -1, ()

    def add_input(self, accumulator: Highest, bid: Bid) -> Highest:
        """Take a bid."""
        return self.add_inputs(accumulator, (bid,)) if bid[2] >= accumulator[0] else accumulator

    def add_inputs(self, accumulator: Highest, bids: Iterable[Bid]) -> Highest:
        """Take many bids at once, most of which are never looked at twice."""
        known = bids if isinstance(bids, (list, tuple)) else list(bids)
        top = max(map(_PRICE, known), default=-1)
        highest, kept = accumulator
        if top < highest:
            return accumulator
        found = tuple(tuple(bid) for bid in known if bid[2] == top)
        return top, (*kept, *found) if top == highest else found

    def merge_accumulators(self, accumulators: Iterable[Highest]) -> Highest:
        """Keep the highest of all."""
        known = list(accumulators)
        top = max(price for price, _ in known)
        return top, tuple(bid for price, bids in known if price == top for bid in bids)

    def extract_output(self, accumulator: Highest) -> tuple[Plain, ...]:
        """Give the bids."""
        return accumulator[1]


def rows(bids: tuple[Plain, ...], window: Any = beam.DoFn.WindowParam) -> Iterator[Row]:
    """Put the start of the window in front of each bid."""
    start = to_ms(window.start)
    for bid in bids:
        yield start, *bid


class HighestBids(beam.PTransform):  # type: ignore[misc]
    """Events to the highest bids of each window."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, events: Any) -> Any:
        """Combine the bids of each window."""
        return (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Window" >> beam.WindowInto(FixedWindows(self._size_sec))
            | "Highest" >> beam.CombineGlobally(KeepHighest()).without_defaults()
            | "Rows" >> beam.FlatMap(rows).with_output_types(Row)
        )


def equals_highest(bid: Plain, highest: int) -> bool:
    """Whether a bid has the highest price of its window."""
    return bid[2] == highest


def row(bid: Plain, window: Any = beam.DoFn.WindowParam) -> Row:
    """Put the start of the window in front of a bid."""
    return to_ms(window.start), *bid


class HighestBidsBySideInput(beam.PTransform):  # type: ignore[misc]
    """Events to the highest bids of each window, the way Beam's own pipeline goes."""

    def __init__(self, size_sec: int) -> None:
        super().__init__()
        self._size_sec = size_sec

    def expand(self, events: Any) -> Any:
        """Find the highest price of each window, compare every bid with it."""
        bids = (
            events
            | "Bids" >> beam.Filter(is_bid)
            | "Plain" >> beam.Map(tuple).with_output_types(Plain)
            | "Window" >> beam.WindowInto(FixedWindows(self._size_sec))
        )
        highest = (
            bids
            | "Price" >> beam.Map(_PRICE).with_output_types(int)
            | "Highest" >> beam.CombineGlobally(max).without_defaults()
        )
        return (
            bids
            | "Compare" >> beam.Filter(equals_highest, beam.pvalue.AsSingleton(highest))
            | "Row" >> beam.Map(row).with_output_types(Row)
        )


def build(settings: Any) -> HighestBids:
    """Make the pipeline from events to rows."""
    return HighestBids(settings.window_size_sec)


def build_side_input(settings: Any) -> HighestBidsBySideInput:
    """Make the pipeline in which every bid waits for the highest price."""
    return HighestBidsBySideInput(settings.window_size_sec)


_COLUMNS = ("window_start", *BID_COLUMNS)
WORKLOAD = question(
    "q7", "Highest bid: which bids are the highest, lately?", _COLUMNS, build, only_bids=True
)
SIDE_INPUT = question(
    "q7-side-input",
    "Highest bid, with the highest price of a window sent to all its bids.",
    _COLUMNS,
    build_side_input,
    answer="q7",
)
