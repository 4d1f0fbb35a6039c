"""One operator: the mean per key and window."""

from __future__ import annotations

from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.facts import Facts
from headrace.transforms.folds import Mean
from headrace.transforms.keys import PAIRS, into_windows
from headrace.transforms.per_window import PerWindow


class AverageBy(PerWindow):
    """Give (key, mean of `value(element)`) per key and window.

    `window` is in seconds; without it those that the input has already are taken.

    >>> from headrace.transforms.replay import at, replay
    >>> mean = AverageBy(key=lambda sale: sale[0], value=lambda sale: sale[1], window=60)
    >>> replay(mean, at(1, ("tea", 3)), at(2, ("tea", 4)), at(3, ("jam", 7)), at(60, ("tea", 1)))
    [('jam', 7.0), ('tea', 1.0), ('tea', 3.5)]

    State: a sum and a count per key and window, freed when the window is over.
    Order: free, but for the last digits where fractions are added in another order.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; elements are added up where they are, then the sums of a key.
    """

    facts: ClassVar[Facts] = Facts(
        state="a sum and a count per key and window, freed when the window is over.",
        order="free, but for the last digits where fractions are added in another order.",
        late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
        shard="by key; elements are added up where they are, then the sums of a key.",
    )

    def expand(self, elements: Any) -> Any:
        """A combine of the numbers alone: elements themselves are not sent."""
        key, value = self._key, self._value

        def pair(element: Any) -> tuple[Any, Any]:
            return key(element), value(element)

        pairs = elements | "Key" >> beam.Map(pair).with_output_types(PAIRS)
        return into_windows(pairs, self._window) | "Mean" >> beam.CombinePerKey(Mean())
