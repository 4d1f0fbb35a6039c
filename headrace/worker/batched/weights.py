"""Says about how many bytes values hold, as far as that is cheap to find out.

Texts, bytes and arrays by their length, tuples and lists by what is in them; anything else counts
as nothing. Used to bound what waits in memory: a bound in elements alone would let a thousand
elements of 100 MB wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from headrace.worker.beam_types import Value

#: An element of this size travels alone, and is not gathered with others.
HEAVY_BYTES = 1 << 20
#: What may wait in one place, about.
WAITING_BYTES = 16 << 20

#: So many values of a batch stand for all of it where it is only to be judged.
SAMPLE_VALUES = 64

_TEXTS = frozenset({bytes, str, bytearray})
_LIGHT = frozenset({int, float, bool, complex, type(None)})


def weight(values: Sequence[Value]) -> int:
    """Give about how many bytes all values hold together.

    >>> weight([b"four", 5, ("six", 7)])
    7
    """
    kinds = set(map(type, values))
    if kinds <= _LIGHT:
        return 0
    if kinds <= _TEXTS:
        return sum(map(len, values))
    total = 0
    for kind in kinds - _LIGHT:
        if kind in _TEXTS:
            total += sum([len(value) for value in values if type(value) is kind])
        elif issubclass(kind, tuple | list):
            inner = values if len(kinds) == 1 else [v for v in values if type(v) is kind]
            total += weight(list(chain.from_iterable(inner)))
        elif hasattr(kind, "nbytes"):
            total += sum([int(value.nbytes) for value in values if type(value) is kind])
    return total


def room_after(room: int, held: Sequence[Value], most: int) -> int:
    """Decide how many values may be gathered next time, from those gathered last.

    Begins small and grows, so that the first batch of large values is a small one.
    """
    sample = held if len(held) <= SAMPLE_VALUES else held[:: len(held) // SAMPLE_VALUES]
    found = weight(sample)
    grown = min(most, room * 4)
    return grown if not found else max(1, min(grown, len(sample) * WAITING_BYTES // found))


#: How many values are gathered before anything is known of them.
FIRST_ROOM = 16
