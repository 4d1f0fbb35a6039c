"""Random numbers by arithmetic: a function of seed, stream and event number.

Nothing is carried from one event to the next, so any range can be made anywhere. The mixing
function is the finaliser of SplitMix64, on whole arrays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SALT = 0xD1B54A32D192ED03
_SECOND = np.uint64(0x94D049BB133111EB)

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]


def mix(values: U64) -> U64:
    """Give 64 well mixed bits for each value; equal values give equal bits."""
    z = (values + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def bits(seed: int, stream: int, numbers: I64) -> U64:
    """Give 64 random bits for each event number.

    Args:
        seed: of the run; any whole number.
        stream: one for each thing that is drawn, so that draws do not repeat each other.
        numbers: the event numbers.
    """
    salts = np.array([seed % 2**64, (seed + 1) * (stream + 1) * _SALT % 2**64], dtype=np.uint64)
    first, second = mix(salts)
    return mix(numbers.astype(np.uint64) + (first ^ second))


def below(seed: int, stream: int, numbers: I64, bound: int) -> I64:
    """Give a random whole number from 0 to `bound - 1` for each event number; bound < 2**32."""
    high = bits(seed, stream, numbers) >> np.uint64(32)
    return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def unit(seed: int, stream: int, numbers: I64) -> npt.NDArray[np.float64]:
    """Give a random number in [0, 1) for each event number."""
    return (bits(seed, stream, numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53
