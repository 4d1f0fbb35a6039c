"""A memory of things by name, up to some bytes: what was not used for the longest time makes room.

Knows nothing of what the things are; whoever puts one says what it weighs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Keeps the things that were used last.

    >>> cache = ByteCache[str, int](10)
    >>> cache.put("a", 1, size=6), cache.put("b", 2, size=4), cache.get("a"), cache.put("c", 3, 4)
    (None, None, 1, None)
    >>> cache.get("a"), cache.get("b"), cache.get("c")
    (1, None, 3)

    Args:
        limit_bytes: what all of them may weigh.
        keep_latest: the one that was put last is kept, whatever its size; else one that is larger
            than the limit is not kept at all.
    """

    def __init__(self, limit_bytes: int, *, keep_latest: bool = False) -> None:
        self._limit = limit_bytes
        self._keep_latest = keep_latest
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    def get(self, name: K) -> V | None:
        """Give a thing; None if it is not here."""
        found = self._held.get(name)
        if found is None:
            return None
        self._held.move_to_end(name)
        return found[0]

    def put(self, name: K, thing: V, size: int) -> None:
        """Keep a thing that weighs `size` bytes."""
        self.drop(name)
        if size > self._limit and not self._keep_latest:
            return
        self._held[name] = thing, size
        self._bytes += size
        while self._bytes > self._limit and len(self._held) > 1:
            _, (_, freed) = self._held.popitem(last=False)
            self._bytes -= freed

    def drop(self, name: K) -> None:
        """Forget a thing, if it is here."""
        found = self._held.pop(name, None)
        if found is not None:
            self._bytes -= found[1]

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._bytes = 0
