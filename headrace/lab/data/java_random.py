"""Java's `java.util.Random`: one generator, and many side by side in an array.

A state has 48 bits; a draw is an affine map of it, so any number of draws ahead is one too. Arrays
keep states in 64 bits and do not clear the upper 16: products and sums do not carry downwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.lab.data.randoms import I64, U64

U32 = npt.NDArray[np.uint32]
I32 = npt.NDArray[np.int32]

FACTOR = 0x5DEECE66D
ADDEND = 0xB
_STATE = 2**48 - 1
_LEAST_LONG_BOUND = 2**31 - 1  # NEXMark draws a long from here on


class JavaRandom:
    """One generator, draw by draw.

    >>> random = JavaRandom(0)
    >>> [random.int32() for _ in range(3)]
    [-1155484576, -723955400, 1033096058]
    """

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ FACTOR) & _STATE

    @classmethod
    def at(cls, state: int) -> JavaRandom:
        """Make a generator that goes on from a state."""
        return cls((state ^ FACTOR) & _STATE)

    def bits(self, count: int) -> int:
        """Draw so many bits, without a sign."""
        self.state = (self.state * FACTOR + ADDEND) & _STATE
        return self.state >> (48 - count)

    def int32(self) -> int:
        """Draw a signed 32-bit number."""
        drawn = self.bits(32)
        return drawn - 2**32 if drawn >> 31 else drawn

    def int64(self) -> int:
        """Draw a signed 64-bit number."""
        drawn = ((self.int32() << 32) + self.int32()) & (2**64 - 1)
        return drawn - 2**64 if drawn >> 63 else drawn

    def below(self, bound: int) -> int:
        """Draw a number from 0 to `bound - 1`; bound < 2**31."""
        if bound & (bound - 1) == 0:
            return bound * self.bits(31) >> 31
        fair = 2**31 // bound * bound
        while True:
            drawn = self.bits(31)
            if drawn < fair:
                return drawn % bound

    def double(self) -> float:
        """Draw a number in [0, 1)."""
        high = self.bits(26)
        return float((high << 27) + self.bits(27)) * 2.0**-53


class JavaRandoms:
    """Many generators, a row each, which draw together or some at a time.

    Args:
        states: of the generators; taken over and changed by drawing.
    """

    def __init__(self, states: U64) -> None:
        self.states = states

    @classmethod
    def seeded(cls, seeds: I64) -> JavaRandoms:
        """Make one generator per seed."""
        return cls(seeds.astype(np.uint64) ^ np.uint64(FACTOR))

    def _step(self, rows: I64 | None) -> U64:
        if rows is None:
            self.states *= np.uint64(FACTOR)
            self.states += np.uint64(ADDEND)
            return self.states
        drawn = self.states[rows] * np.uint64(FACTOR) + np.uint64(ADDEND)
        self.states[rows] = drawn
        return drawn

    def bits31(self, rows: I64 | None = None) -> U32:
        """Draw 31 bits from each row, or from some."""
        return (self._step(rows) >> np.uint64(16)).astype(np.uint32) >> np.uint32(1)

    def int32(self, rows: I64 | None = None) -> I32:
        """Draw a signed 32-bit number from each row, or from some."""
        return (self._step(rows) >> np.uint64(16)).astype(np.uint32).view(np.int32)

    def below(self, bound: int) -> I64:
        """Draw a number from 0 to `bound - 1` from each row; bound < 2**31."""
        drawn = self.bits31()
        if bound & (bound - 1) == 0:
            return (drawn.astype(np.int64) * bound) >> 31
        fair = 2**31 // bound * bound
        unfair = np.flatnonzero(drawn >= np.uint32(fair))
        while len(unfair):
            drawn[unfair] = self.bits31(unfair)
            unfair = unfair[drawn[unfair] >= np.uint32(fair)]
        return np.asarray(remainder(drawn, bound).astype(np.int64))

    def below_each(self, bounds: I64, rows: I64) -> I64:
        """Draw from some rows, each with its own bound; bounds < 2**31."""
        drawn = self.bits31(rows).astype(np.int64)
        result = drawn % bounds
        powers = (bounds & (bounds - 1)) == 0
        result[powers] = (drawn[powers] * bounds[powers]) >> 31
        unfair = np.flatnonzero((drawn - result + (bounds - 1) >= 2**31) & ~powers)
        if len(unfair):
            result[unfair] = self.below_each(bounds[unfair], rows[unfair])
        return np.asarray(result)

    def below_long_each(self, bounds: I64, rows: I64) -> I64:
        """Draw as `below_each` does; where a bound is 2**31 - 1 or more, from a 64-bit number."""
        great = bounds >= _LEAST_LONG_BOUND
        if not great.any():
            return self.below_each(bounds, rows)
        result = np.empty(len(rows), dtype=np.int64)
        result[~great] = self.below_each(bounds[~great], rows[~great])
        high = self.int32(rows[great]).astype(np.int64)
        drawn = (high << 32) + self.int32(rows[great])
        # The magnitude of the least number does not fit into 63 bits, but into 64.
        result[great] = np.abs(drawn).view(np.uint64) % bounds[great].view(np.uint64)
        return result

    def double(self) -> npt.NDArray[np.float64]:
        """Draw a number in [0, 1) from each row."""
        # 26 and 27 of the 48 bits: the upper 16 of the 64 are not part of the state.
        high = (self._step(None) >> np.uint64(22)) & np.uint64(2**26 - 1)
        low = (self._step(None) >> np.uint64(21)) & np.uint64(2**27 - 1)
        return np.asarray(((high << np.uint64(27)) + low).astype(np.float64) * 2.0**-53)


    def skip(self, draws: I64) -> None:
        """Let each row draw so many times, at least once, and forget what."""
        factors, addends = jumps(int(draws.max(initial=0)))
        self.states = np.asarray(self.states * factors[draws - 1] + addends[draws - 1])


_known: tuple[U64, U64] = (np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def jumps(count: int) -> tuple[U64, U64]:
    """Give the affine maps of 1, 2, ... `count` draws: their factors and their addends."""
    global _known
    if len(_known[0]) < count:
        factor, addend, maps = 1, 0, []
        for _ in range(max(count, 256)):
            factor, addend = factor * FACTOR & _STATE, (addend * FACTOR + ADDEND) & _STATE
            maps.append((factor, addend))
        made = np.array(maps, dtype=np.uint64)
        _known = (np.ascontiguousarray(made[:, 0]), np.ascontiguousarray(made[:, 1]))
    return _known[0][:count], _known[1][:count]


def remainder(values: U32, bound: int) -> U32:
    """Give the remainders of a division; dividing by one number is fast, its remainder is not."""
    return np.asarray(values - values // np.uint32(bound) * np.uint32(bound))
