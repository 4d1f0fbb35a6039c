"""Gives the right answer of every benchmark, by formula. Runs nothing and knows no Beam.

All cases draw on the numbers 0 to n - 1. Number i belongs to key `i * SCRAMBLE % keys` and, where
there is time, happens at second `i // keys`: one element per key and second.
"""

from __future__ import annotations

#: A prime, so that neighbours get far-apart keys and every key still gets its share.
SCRAMBLE = 2_654_435_761


def sum_below(n: int) -> int:
    """0 + 1 + ... + (n - 1)."""
    return n * (n - 1) // 2


class Keys:
    """The numbers 0 to n - 1 by key."""

    def __init__(self, n: int, keys: int) -> None:
        self.n = n
        self.keys = keys
        # i * SCRAMBLE = key (mod keys) means i = key * inverse (mod keys); fails on a bad choice.
        self._inverse = pow(SCRAMBLE, -1, keys)

    def groups(self) -> int:
        """How many keys have a number."""
        return min(self.n, self.keys)

    def first(self, key: int) -> int:
        """The smallest number of the key; the others follow at distances of `keys`."""
        return key * self._inverse % self.keys

    def count(self, key: int) -> int:
        """How many numbers the key has."""
        return (self.n - self.first(key) + self.keys - 1) // self.keys

    def total(self, key: int) -> int:
        """The sum of the key's numbers."""
        return self.total_between(key, 0, self.n)

    def total_between(self, key: int, start: int, end: int) -> int:
        """The sum of the key's numbers that happen in the seconds from `start` until `end`."""
        low, high = max(start, 0), min(end, self.count(key))
        if high <= low:
            return 0
        seconds = sum_below(high) - sum_below(low)
        return seconds * self.keys + (high - low) * self.first(key)

    def windows(self, size: int, period: int) -> int:
        """How many (key, window) pairs have a number; windows of `size`, a new one per `period`."""
        if self.n == 0:
            return 0
        rounds, rest = divmod(self.n, self.keys)  # `rest` keys have one second more
        return (self.keys - rest) * _windows(rounds, size, period) + rest * _windows(
            rounds + 1, size, period
        )


def _windows(seconds: int, size: int, period: int) -> int:
    """How many windows meet the seconds 0 to seconds - 1; `size` is a multiple of `period`."""
    if seconds == 0:
        return 0
    started_before = size // period - 1
    return started_before + (seconds - 1) // period + 1
