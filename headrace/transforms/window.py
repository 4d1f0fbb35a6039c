"""One operator: the last intervals again and again, as a sliding window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.transforms.window import SlidingWindows

from headrace.plan.traits import traits
from headrace.transforms.arguments import function_or_none, seconds, whole
from headrace.transforms.facts import Facts
from headrace.transforms.keys import PAIRS, stamped

#: Over how many keys the elements of a window are dealt. More keys keep more shards busy, fewer
#: make larger groups; an answer never depends on it.
_HANDS = 32


class Window(beam.PTransform):  # type: ignore[misc]
    """Every `slide` intervals, give a copy of all elements of the last `size` intervals.

    An interval lasts `interval` seconds of event time, counted from time 0. `time(element)` gives
    an element's event time in seconds if its timestamp does not. A copy leaves in its window, so
    that an operator without windows of its own works on that window. Windows at the edges of the
    stream, which have intervals without elements, are given too.

    >>> from headrace.transforms.replay import at, replay
    >>> replay(Window(size=2, slide=1, interval=10), at(5, "a"), at(12, "b"))
    ['a', 'a', 'b', 'b']
    >>> from headrace.transforms import ReduceTo
    >>> joined = ReduceTo(initial="", reducer=lambda word, text: "".join(sorted(text + word)))
    >>> replay(Window(size=2, slide=1, interval=10) | joined, at(5, "a"), at(12, "b"))
    ['a', 'ab', 'b']

    State: each element once for each window it is in, freed when that window is over.
    Order: free; the elements of a window leave in no particular order.
    Late: is in windows that are not over; in others as the runner has it, most drop it.
    Shard: anywhere; elements are dealt out in turn.
    """

    facts: ClassVar[Facts] = Facts(
        state="each element once for each window it is in, freed when that window is over.",
        order="free; the elements of a window leave in no particular order.",
        late="is in windows that are not over; in others as the runner has it, most drop it.",
        shard="anywhere; elements are dealt out in turn.",
    )

    def __init__(
        self,
        *,
        size: int,
        slide: int,
        interval: float,
        time: Callable[[Any], float] | None = None,
    ) -> None:
        super().__init__()
        self._size = whole("size", size)
        self._slide = whole("slide", slide, most=size)
        self._interval = seconds("interval", interval)
        self._time = function_or_none("time", time)

    def expand(self, elements: Any) -> Any:
        """Beam's sliding windows, gathered until they are over."""
        windows = SlidingWindows(self._size * self._interval, self._slide * self._interval)
        return gathered(stamped(elements, self._time), windows)


def gathered(elements: Any, windows: Any) -> Any:
    """Hold elements back until their window is over."""
    return (
        elements
        | "Deal" >> beam.ParDo(Deal()).with_output_types(PAIRS)
        | "Windows" >> beam.WindowInto(windows)
        | "Gather" >> beam.GroupByKey()
        | "Give" >> beam.FlatMap(_elements)
    )


def _elements(group: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return group[1]


# The number that it remembers only spreads the elements, so any shard may take any element.
@traits(state="none", selectivity="exactly_one", forwards_key=False)
class Deal(beam.DoFn):  # type: ignore[misc]
    """Gives elements numbers in turn."""

    def start_bundle(self) -> None:
        """Begin with the first hand."""
        self._hand = 0

    def process(self, element: Any) -> tuple[tuple[int, Any]]:
        """Give the element to the next hand."""
        self._hand = hand = (self._hand + 1) % _HANDS
        return ((hand, element),)
