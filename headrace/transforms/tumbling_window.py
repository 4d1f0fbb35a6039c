"""One operator: windows that follow each other without overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.transforms.arguments import function_or_none, seconds, whole
from headrace.transforms.facts import Facts
from headrace.transforms.keys import stamped
from headrace.transforms.window import gathered


class TumblingWindow(beam.PTransform):  # type: ignore[misc]
    """Every `size` intervals, give all elements of these intervals: a `Window` that copies nothing.

    An interval lasts `interval` seconds of event time, counted from time 0. `time(element)` gives
    an element's event time in seconds if its timestamp does not. Elements leave in their window, so
    that an operator without windows of its own works on that window.

    >>> from headrace.transforms import ReduceTo
    >>> from headrace.transforms.replay import at, replay
    >>> count = ReduceTo(initial=0, reducer=lambda _, n: n + 1)
    >>> replay(TumblingWindow(size=60, interval=1) | count, at(5, "a"), at(59, "b"), at(60, "c"))
    [1, 2]

    State: each element once, freed when its window is over.
    Order: free; the elements of a window leave in no particular order.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: anywhere; elements are dealt out in turn.
    """

    facts: ClassVar[Facts] = Facts(
        state="each element once, freed when its window is over.",
        order="free; the elements of a window leave in no particular order.",
        late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
        shard="anywhere; elements are dealt out in turn.",
    )

    def __init__(
        self, *, size: int, interval: float, time: Callable[[Any], float] | None = None
    ) -> None:
        super().__init__()
        self._size = whole("size", size)
        self._interval = seconds("interval", interval)
        self._time = function_or_none("time", time)

    def expand(self, elements: Any) -> Any:
        """Beam's fixed windows, gathered until they are over."""
        return gathered(stamped(elements, self._time), FixedWindows(self._size * self._interval))
