"""Says which shard owns a key: the same answer in every process, for ever."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
from apache_beam import coders
from numpy.typing import NDArray

from headrace.plan.shapes import INT
from headrace.worker.batched.column_groups import group_columns
from headrace.worker.batched.plain_values import FAITHFUL, scalar_types, unwrap
from headrace.worker.beam_types import Coder, Key, Value
from headrace.worker.columns.values import ColumnValues

#: In 64 bits a product has what Python's has in its lowest 64, whatever the sign.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def int_shard(key: int, shards: int) -> int:
    """Give the shard of an integer key: a multiplicative hash, since neighbours are common."""
    return (((key * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) >> 32) % shards


class ShardOf:
    """Says which shard owns a key: the same answer in every process, for ever.

    The answer depends on the key as its coder gives it back, never on how it was shipped.
    """

    def __init__(self, key_coder: Coder, shards: int) -> None:
        self._impl = key_coder.get_impl()
        self._shards = shards
        inner = unwrap(key_coder)
        #: Types that the coder gives back as they came; an int under a float's coder comes back
        #: as another key, so its type alone says nothing.
        self._kept = scalar_types(inner) & FAITHFUL
        self._typed = bool(scalar_types(inner)) or type(inner) is coders.TupleCoder

    def faithful(self, key: Key) -> int:
        """Give the shard of a key of a faithful exact type (or a tuple of such)."""
        if type(key) is int:
            return int_shard(key, self._shards)
        if type(key) is str:
            return crc32(key.encode("utf-8", "surrogatepass")) % self._shards
        if type(key) is bytes:
            return crc32(key) % self._shards
        return int(crc32(self._impl.encode(key)) % self._shards)

    def each(self, keys: Iterable[Value]) -> list[int]:
        """Give the shards of many faithful keys; those of one type in one loop of its own."""
        kinds = set(map(type, keys))
        shards = self._shards
        if kinds == {int}:
            return [
                (((key * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) >> 32) % shards for key in keys
            ]
        if kinds == {str}:
            return [crc32(key.encode("utf-8", "surrogatepass")) % shards for key in keys]
        return list(map(self.faithful, keys))

    def of_columns(self, keys: ColumnValues) -> NDArray[np.int64]:
        """Give the shards of keys that are columns, each as `any` gives it.

        Keys are faithful, or records of faithful fields, whose bytes say where they go.
        """
        if keys.shape == INT:
            hashed = keys.leaves[0].data.astype(np.uint64) * _MULTIPLIER >> np.uint64(32)
            made: NDArray[np.int64] = (hashed % np.uint64(self._shards)).astype(np.int64)
            return made
        found = group_columns(keys, None)
        shards = np.array(self.each(found.keys.objects()), np.int64)
        of_keys: NDArray[np.int64] = shards[found.numbers]
        return of_keys

    def each_of_any(self, keys: list[Key]) -> list[int]:
        """Give the shards of many keys, faithful or not."""
        if self._kept.issuperset(map(type, keys)):
            return self.each(keys)
        return list(map(self.any, keys))

    def any(self, key: Key) -> int:
        """Give the shard of any key."""
        kind = type(key)
        if kind in self._kept:
            return self.faithful(key)
        encoded = self._impl.encode(key)
        if self._typed and kind is not tuple:
            # The coder may turn True into 1 or a str subclass into str: ask for what comes back.
            back = self._impl.decode(encoded)
            if type(back) in self._kept:
                return self.faithful(back)
        return int(crc32(encoded) % self._shards)


def deal(
    shard_of: ShardOf, shards: int, fixed: int | None, table: dict[Key, Value]
) -> list[tuple[list[Key], list[Value]]]:
    """Give the faithful keys of a table, and what stands beside them, for each shard."""
    parts: list[tuple[list[Key], list[Value]]] = [([], []) for _ in range(shards)]
    if fixed is not None or shards == 1:
        parts[fixed or 0] = (list(table), list(table.values()))
        return parts
    for shard, (key, values) in zip(shard_of.each(table), table.items(), strict=True):
        keys, found = parts[shard]
        keys.append(key)
        found.append(values)
    return parts
