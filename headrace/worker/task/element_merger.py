"""Puts the elements of super tuples into the order of their numbers, without decoding them.

Takes rows of one or several channels that lead to one place, gives rows again. See `merge` for how.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.worker.exchange.merge import Merged, Merger
from headrace.worker.exchange.order_numbers import Numbers, ends, unpack
from headrace.worker.exchange.super_tuples import SuperTuple


class _Whole(NamedTuple):
    """The elements of a row as they came: cut apart only if they have to be."""

    payload: bytes
    sizes: list[int]


_Content = _Whole | list[bytes]


class ElementMerger:
    """Merges rows.

    Args:
        width: bytes of a number.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._merger: Merger[_Content] = Merger(_concat, _take)
        self._last: SuperTuple | None = None
        self.numbers: Numbers = ()  # of the elements that were given last

    def add(self, row: SuperTuple) -> Iterator[SuperTuple]:
        """Take a row; give rows whose place is known now."""
        packed = unpack(row.numbers, self._width)
        self._last = row
        yield from map(self._row, self._merger.add(packed.numbers, _whole(row, packed.sizes)))

    def flush(self) -> Iterator[SuperTuple]:
        """Nothing more comes: give all that is held."""
        yield from map(self._row, self._merger.flush())

    def _row(self, merged: Merged[_Content]) -> SuperTuple:
        content = merged.content
        self.numbers = merged.numbers
        payload = content.payload if isinstance(content, _Whole) else b"".join(content)
        assert self._last is not None
        return self._last._replace(elements=len(merged.numbers), payload=payload, numbers=b"")


def _whole(row: SuperTuple, sizes: object) -> _Content:
    assert isinstance(sizes, list)
    return _Whole(row.payload, sizes)


def _cut(content: _Content) -> list[bytes]:
    if not isinstance(content, _Whole):
        return content
    bounds = ends(content.sizes)
    return [content.payload[a:b] for a, b in zip([0, *bounds], bounds, strict=False)]


def _concat(contents: list[_Content]) -> _Content:
    return [element for content in contents for element in _cut(content)]


def _take(content: _Content, places: list[int]) -> _Content:
    elements = _cut(content)
    return [elements[i] for i in places]
