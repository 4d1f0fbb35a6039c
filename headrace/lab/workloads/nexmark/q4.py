"""NEXMark 4, average price for a category: what do auctions of each category end at?

Takes persons, auctions and bids. Gives (window_start, category, price): per sliding window of
`window_size_sec` every `window_period_sec`, the mean winning price, rounded half up, of the
auctions whose last moment is in the window; a row per category that has one. An auction that
expires on a boundary belongs to the windows that end there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, SlidingWindows, WindowFn

from headrace.lab.workloads.nexmark.common import half_up, question, to_ms
from headrace.lab.workloads.nexmark.winning_bids import LAST_MOMENT_MS, WinningBids

#: Windows moved so that the expiry stands in them where the auction's last moment would.
_SHIFT = LAST_MOMENT_MS / 1_000


class RoundedMean(beam.CombineFn):  # type: ignore[misc]
    """The mean of whole numbers, rounded half up; its accumulator is (sum, count)."""

    def create_accumulator(self) -> tuple[int, int]:
        """Begin with nothing."""
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], price: int) -> tuple[int, int]:
        """Add a number."""
        return accumulator[0] + price, accumulator[1] + 1

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Add sums and counts."""
        totals, counts = zip(*accumulators, strict=True)
        return sum(totals), sum(counts)

    def extract_output(self, accumulator: tuple[int, int]) -> int:
        """Give the mean."""
        return half_up(*accumulator)


def category_and_price(winner: tuple[int, ...]) -> tuple[int, int]:
    """Cut a winner, see `Winner`."""
    return winner[1], winner[5]


def with_window(
    mean: tuple[int, int], window: Any = beam.DoFn.WindowParam
) -> tuple[int, int, int]:
    """Put the start of the window in front."""
    return to_ms(window.start) - LAST_MOMENT_MS, *mean


class AveragePrices(beam.PTransform):  # type: ignore[misc]
    """Events to (window_start, category, price)."""

    def __init__(self, settings: Any, windows: WindowFn) -> None:
        super().__init__()
        self._settings = settings
        self._windows = windows

    def expand(self, events: Any) -> Any:
        """Find winners, place them in windows, average by category."""
        return (
            events
            | WinningBids(self._settings)
            | "Cut" >> beam.Map(category_and_price).with_output_types(tuple[int, int])
            | "Window" >> beam.WindowInto(self._windows)
            | "Mean" >> beam.CombinePerKey(RoundedMean())
            | "Row" >> beam.Map(with_window).with_output_types(tuple[int, int, int])
        )


def build(settings: Any) -> AveragePrices:
    """Make the pipeline from events to rows."""
    size, period = settings.window_size_sec, settings.window_period_sec
    return AveragePrices(settings, SlidingWindows(size, period, offset=_SHIFT))


def build_thesis(settings: Any) -> AveragePrices:
    """Make the pipeline of the thesis: the same, per window of one second, without sliding."""
    return AveragePrices(settings, FixedWindows(1, offset=_SHIFT))


_COLUMNS = ("window_start", "category", "price")
WORKLOAD = question(
    "q4",
    "Average price for a category: what do the auctions of each category end at, lately?",
    _COLUMNS,
    build,
)
THESIS = question(
    "q4-thesis",
    "Average price for a category, of the auctions that end in one second.",
    _COLUMNS,
    build_thesis,
)
