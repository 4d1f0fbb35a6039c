"""Two operators: the greatest and the least element per key and window."""

from __future__ import annotations

from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.facts import Facts
from headrace.transforms.folds import Extreme
from headrace.transforms.keys import into_windows, keyed
from headrace.transforms.per_window import PerWindow

_FACTS = Facts(
    state="one element per key and window, freed when the window is over.",
    order="free; equal values are decided by the elements themselves.",
    late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
    shard="by key; elements compete where they are, then the winners of a key.",
)


class MaximizeBy(PerWindow):
    """Give (key, element with the greatest `value(element)`) per key and window.

    `window` is in seconds; without it those that the input has already are taken.

    >>> from headrace.transforms.replay import at, replay
    >>> dearest = MaximizeBy(key=lambda bid: bid[0], value=lambda bid: bid[1], window=60)
    >>> replay(dearest, at(1, ("cup", 3)), at(2, ("cup", 9)), at(3, ("jug", 4)), at(60, ("cup", 1)))
    [('cup', ('cup', 1)), ('cup', ('cup', 9)), ('jug', ('jug', 4))]

    State: one element per key and window, freed when the window is over.
    Order: free; equal values are decided by the elements themselves.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; elements compete where they are, then the winners of a key.
    """

    facts: ClassVar[Facts] = _FACTS

    def expand(self, elements: Any) -> Any:
        """A combine that keeps the greatest."""
        pairs = into_windows(elements | "Key" >> keyed(self._key), self._window)
        return pairs | "Greatest" >> beam.CombinePerKey(Extreme(self._value, max))


class MinimizeBy(PerWindow):
    """Give (key, element with the least `value(element)`) per key and window.

    `window` is in seconds; without it those that the input has already are taken.

    >>> from headrace.transforms.replay import at, replay
    >>> cheapest = MinimizeBy(key=lambda bid: bid[0], value=lambda bid: bid[1], window=60)
    >>> replay(cheapest, at(1, ("cup", 3)), at(2, ("cup", 9)), at(60, ("cup", 1)))
    [('cup', ('cup', 1)), ('cup', ('cup', 3))]

    State: one element per key and window, freed when the window is over.
    Order: free; equal values are decided by the elements themselves.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; elements compete where they are, then the winners of a key.
    """

    facts: ClassVar[Facts] = _FACTS

    def expand(self, elements: Any) -> Any:
        """A combine that keeps the least."""
        pairs = into_windows(elements | "Key" >> keyed(self._key), self._window)
        return pairs | "Least" >> beam.CombinePerKey(Extreme(self._value, min))
