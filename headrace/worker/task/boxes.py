"""What one superstep sends to the shards of the next, where both run in one task.

Takes super tuples, gives each shard its own, sorted as the exchange would sort them. Holds so many
bytes in memory; what goes beyond lies in a temporary file, as sorted runs, until it is asked for.
"""

from __future__ import annotations

import heapq
import os
import pickle
import struct
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Any
from zlib import crc32

from headrace.errors import TransportError
from headrace.state.disk_space import space_for
from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.grouping.spill import RunFile

#: Bytes of rows that are held in memory; an epoch of few elements stays far below.
HELD_BYTES = 32 << 20
#: Of a row beside its payload: its numbers, and its place in lists.
ROW_BYTES = 256

_HEAD = struct.Struct("<QI")  # bytes of a row, their checksum
#: One shard's part of a run: the file, where it begins and where it ends.
_Run = tuple[RunFile, int, int]


class Boxes:
    """A box of rows for each shard.

    Args:
        shards: how many there are.
        by: the columns by which the rows of a shard are sorted; those that are equal stay as they
            came.
        held_bytes: what is held in memory.
    """

    def __init__(self, shards: int, by: tuple[str, ...], held_bytes: int = HELD_BYTES) -> None:
        self._rows: list[list[SuperTuple]] = [[] for _ in range(shards)]
        self._runs: list[list[_Run]] = [[] for _ in range(shards)]
        self._key = _key(by)
        self._most = held_bytes
        self._held = 0

    def put(self, row: SuperTuple) -> None:
        """Take a row for the shard that is written in it."""
        if not 0 <= row.shard < len(self._rows):
            msg = (
                f"channel {row.channel} sent a row to shard {row.shard}; there are "
                f"{len(self._rows)}"
            )
            raise TransportError(msg)
        self._rows[row.shard].append(row)
        self._held += len(row.payload) + len(row.numbers) + ROW_BYTES
        if self._held > self._most:
            self._spill()

    def taken(self, shard: int) -> Iterator[SuperTuple]:
        """Give the rows of a shard, once; they are let go one by one."""
        runs, self._runs[shard] = self._runs[shard], []
        rows, self._rows[shard] = self._sorted(shard), []
        parts = [*(_read(*run) for run in runs), _let_go(rows)]
        return chain(*parts) if self._key is None else heapq.merge(*parts, key=self._key)

    def _sorted(self, shard: int) -> list[SuperTuple]:
        rows = self._rows[shard]
        return rows if self._key is None else sorted(rows, key=self._key)

    def _spill(self) -> None:
        """Bring all that is held to disk, a run for each shard."""
        with space_for(f"{tempfile.gettempdir()}/headrace-spill", self._held):
            file, at = RunFile(), 0
            for shard in range(len(self._rows)):
                begin = at
                for row in self._sorted(shard):
                    data = pickle.dumps(tuple(row), pickle.HIGHEST_PROTOCOL)
                    file.write(_HEAD.pack(len(data), crc32(data)))
                    file.write(data)
                    at += _HEAD.size + len(data)
                self._rows[shard] = []
                if at > begin:
                    self._runs[shard].append((file, begin, at))
            file.flush()
        self._held = 0


def _key(by: tuple[str, ...]) -> Callable[[SuperTuple], Any] | None:
    return itemgetter(*map(SuperTuple._fields.index, by)) if by else None


def _read(file: RunFile, at: int, end: int) -> Iterator[SuperTuple]:
    while at < end:
        size, checksum = _HEAD.unpack(os.pread(file.fileno(), _HEAD.size, at))
        data = os.pread(file.fileno(), size, at + _HEAD.size)
        if len(data) != size or crc32(data) != checksum:
            msg = f"rows on their way to a shard were damaged on disk, at byte {at}"
            raise TransportError(msg)
        yield SuperTuple._make(pickle.loads(data))
        at += _HEAD.size + size


def _let_go(rows: list[SuperTuple]) -> Iterator[SuperTuple]:
    rows.reverse()
    while rows:
        yield rows.pop()
