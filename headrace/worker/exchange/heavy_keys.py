"""Finds the keys that make up a large share of what goes by, in little memory.

A Misra-Gries summary with a fixed number of counters, fed with the counts of many elements at a
time. A count that it gives is never too high, and too low by at most the elements seen over the
number of counters.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.worker.beam_types import Key

#: No key is called heavy before so many elements have gone by.
LEAST_ELEMENTS = 1_000


class HeavyKeys:
    """Counts keys; names those with at least a share of all elements.

    Args:
        share: what makes a key heavy, more than 0.
        counters: how many keys are counted at a time; by default so many that a count lacks at
            most a quarter of what makes a key heavy.

    >>> heavy = HeavyKeys(share=0.25)
    >>> heavy.see({"a": 1_000, "b": 990, "c": 10})
    >>> heavy.found
    {'a': 1000, 'b': 990}
    """

    def __init__(self, share: float, counters: int | None = None) -> None:
        self._share = share
        self._most = max(16, round(4 / share)) if counters is None else counters
        self.counts: dict[Key, int] = {}  # lower bounds, of the keys that are counted
        self.total = 0

    def see(self, came: Mapping[Key, int]) -> None:
        """Take the counts of some elements, the more at a time the better."""
        self.total += sum(came.values())
        counts = dict(came)
        for key, count in self.counts.items():
            counts[key] = counts.get(key, 0) + count
        if len(counts) > self._most:
            # The largest count without a counter is taken off all that are larger: that strikes
            # out groups of so many different keys, and there are few such groups in all elements.
            cut = sorted(counts.values(), reverse=True)[self._most]
            counts = {key: count - cut for key, count in counts.items() if count > cut}
        self.counts = counts

    @property
    def found(self) -> dict[Key, int]:
        """The heavy keys, with their counts."""
        if self.total < LEAST_ELEMENTS:
            return {}
        least = self._share * self.total
        return {key: count for key, count in self.counts.items() if count >= least}
