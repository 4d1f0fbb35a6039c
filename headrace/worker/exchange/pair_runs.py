"""Plain pairs of key and value in bulk, in their order: how they travel, and how they are read.

A payload has the distinct keys, each with the windows it stands in, and for every element the place
of its key and its value, in the order of their numbers. So runs of numbers stay runs, and a reader
deals values out to keys without decoding an element. Knows bytes and objects, no coder.
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.worker.beam_types import Key, Value
from headrace.worker.exchange.super_tuples import PayloadKind

#: A set of windows by their first microseconds and their ends; none: the global window alone.
Spans = tuple[tuple[int, int], ...]
#: What a key is found by: itself and its windows.
Name = tuple[Spans | None, Key]
#: One element: its windows, its key, its value.
Pair = tuple[Spans | None, Key, Value]

#: A row of pairs is so many times as long as others: each has the names of its keys.
LONGER = 4
#: Pairs of a run, at most.
MOST_PAIRS = 100_000

_UNSIGNED = (np.uint8, np.uint16, np.uint32)


class PairRun(NamedTuple):
    """Pairs in order."""

    names: Sequence[Name]
    places: Sequence[int]  # for each pair, which name is its
    values: Sequence[Value]

    def pairs(self) -> list[Pair]:
        """Give them one by one."""
        spans, keys = zip(*self.names, strict=True)
        return list(
            zip(
                map(spans.__getitem__, self.places), map(keys.__getitem__, self.places),
                self.values, strict=True,
            )
        )


def run_of(pairs: Iterable[Pair]) -> PairRun:
    """Make a run of single pairs."""
    index = Index()
    places, values = [], []
    for spans, key, value in pairs:
        places.append(index[spans, key])
        values.append(value)
    return PairRun(list(index), places, values)


class Index(defaultdict[Key, int]):
    """Gives each name its place: the first that is asked for gets 0, the next 1."""

    def __init__(self) -> None:
        super().__init__()
        self.default_factory = self.__len__


def pack_run(
    names: Sequence[Name], places: NDArray[np.uint32], values: Sequence[Value]
) -> bytes:
    """Give the bytes by which a run travels."""
    kind = next(k for k in _UNSIGNED if len(names) - 1 <= np.iinfo(k).max)
    packed = np.dtype(kind).char, places.astype(kind).tobytes()
    return marshal.dumps((_by_windows(names), packed, list(values)), 2)


def unpack_run(payload: bytes) -> PairRun:
    """Give the run that `pack_run` took."""
    by_windows, (kind, places), values = marshal.loads(payload)
    names = [(spans, key) for spans, keys in by_windows for key in keys]
    return PairRun(names, np.frombuffer(places, kind).tolist(), values)


def _by_windows(names: Sequence[Name]) -> list[tuple[Spans | None, list[Key]]]:
    """Write windows once for keys that follow one another in the same."""
    return [
        (spans, [key for _, key in found]) for spans, found in groupby(names, key=lambda n: n[0])
    ]


def dealt(
    names: Sequence[Name], places: NDArray[np.uint32], shards: Sequence[int]
) -> Iterator[tuple[int, list[Name], NDArray[np.uint32], bytes]]:
    """Deal a run out to shards.

    Gives, for each shard that gets some: its number, the names that go there, the places of its
    pairs among these, and for all pairs of the run whether they are its.
    """
    owners = np.array(shards)
    of_pairs = owners[places]
    renamed = np.empty(len(names), np.uint32)
    for shard in sorted(set(shards)):
        mine = owners == shard
        renamed[mine] = np.arange(int(mine.sum()), dtype=np.uint32)
        taken = of_pairs == shard
        yield (
            shard, list(compress(names, mine.tobytes())), renamed[places[taken]], taken.tobytes()
        )


def grouped_payload(run: PairRun) -> tuple[PayloadKind, bytes]:
    """Give what a grouping takes in bulk: keys with the lists of their values, in order."""
    if _overlap({spans for spans, _ in run.names}):
        run = _window_by_window(run)
    lists: list[list[Value]] = [[] for _ in run.names]
    appends = [values.append for values in lists]
    for place, value in zip(run.places, run.values, strict=True):
        appends[place](value)
    tables: dict[Spans | None, tuple[list[Key], list[list[Value]]]] = {}
    for (spans, key), values in zip(run.names, lists, strict=True):
        keys, found = tables.setdefault(spans, ([], []))
        keys.append(key)
        found.append(values)
    if None in tables:
        return PayloadKind.GROUPED, marshal.dumps(tables[None], 2)
    groups = [(list(spans or ()), *table) for spans, table in tables.items()]
    return PayloadKind.GROUPED_WINDOWED, marshal.dumps(groups, 2)


def _overlap(sets: set[Spans | None]) -> bool:
    """Whether a window is in two sets: then its values would come set by set, not in order."""
    every = [span for spans in sets for span in spans or ()]
    return len(set(every)) < len(every)


def _window_by_window(run: PairRun) -> PairRun:
    return run_of(
        ((span,), key, value) for spans, key, value in run.pairs() for span in spans or ()
    )
