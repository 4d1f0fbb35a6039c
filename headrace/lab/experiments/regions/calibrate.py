"""Measures what the pieces of a region cost in this Python: processor time, the best of some runs.

The pieces are those that an exchange is made of here: shard numbers for batches of keys, batches
packed and unpacked, numbers for batches, a pulse as a row, a merge by heaps.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Callable

from apache_beam.coders import VarIntCoder

from headrace.lab.experiments.regions.costs import Costs
from headrace.lab.experiments.regions.mergers import Item, NextHeap
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple

BATCH = 2_048
REPEATS = 50
TRIES = 5
SHARDS = 4
#: Multiplications of one unit of work.
MULTIPLICATIONS = 100


def measured() -> Costs:
    """Measure all pieces."""
    keys = [n * 2654435761 % 10_007 for n in range(BATCH)]
    pairs = list(zip(keys, range(BATCH), strict=True))
    merge, wide = _merge(1), _merge(32)
    return Costs(
        split=_best(lambda: _split(ShardOf(VarIntCoder(), SHARDS), keys, pairs)) / BATCH,
        # There and back is sent and received.
        transfer=_best(lambda: marshal.loads(marshal.dumps(pairs, 2))) / BATCH / 2,
        seqno=_best(lambda: list(zip(range(7, 7 + BATCH), pairs, strict=True))) / BATCH,
        pulse=_best(_pulses) / BATCH,
        merge=merge,
        heap=max(0.0, wide - merge) / 5,
        work=_best(_work),
    )


def _split(shard_of: ShardOf, keys: list[int], pairs: list[tuple[int, int]]) -> None:
    parts: list[list[tuple[int, int]]] = [[] for _ in range(SHARDS)]
    for shard, pair in zip(shard_of.each(keys), pairs, strict=True):
        parts[shard].append(pair)


def _pulses() -> None:
    for number in range(BATCH):
        payload = marshal.dumps([(3, number)], 2)
        row = SuperTuple(0, Rank.PULSE, 3, PayloadKind.PULSE, 0, 1, payload)
        marshal.loads(row.payload)


def _merge(channels: int) -> float:
    items = [Item(number) for number in range(BATCH)]

    def run() -> None:
        merger = NextHeap(channels)
        for item in items:
            merger.take(item.number % channels, item)

    return _best(run) / BATCH


def _work() -> None:
    value = 3
    for _ in range(MULTIPLICATIONS):
        value = value * 7 % 1_000_003


def _best(piece: Callable[[], object]) -> float:
    """Give the seconds of the fastest run: what else the machine does only adds to it."""
    best = float("inf")
    for _ in range(TRIES):
        start = time.process_time()
        for _ in range(REPEATS):
            piece()
        best = min(best, (time.process_time() - start) / REPEATS)
    return best
