"""Puts the elements of super tuples into the order of their numbers, without decoding them.

Takes rows of one or several channels that lead to one place, gives rows again. See `merge` for how.
Plain pairs for a grouping come in runs, and leave as lists of values for each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, cast

from headrace.worker.exchange.merge import Merged, Merger
from headrace.worker.exchange.order_numbers import Numbers, ends, unpack
from headrace.worker.exchange.pair_runs import (
    Pair,
    PairRun,
    grouped_payload,
    run_of,
    unpack_run,
)
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple


class _Whole(NamedTuple):
    """The elements of a row as they came: cut apart only if they have to be."""

    payload: bytes
    sizes: Sequence[int]


#: An element by itself: as it was encoded, or a pair.
_Single = bytes | Pair
_Content = _Whole | PairRun | list[_Single]


class ElementMerger:
    """Merges rows.

    Args:
        width: bytes of a number.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._merger: Merger[_Content] = Merger(_concat, _take)
        self._last: SuperTuple | None = None
        self._kind = PayloadKind.ROWS  # of encoded elements
        self.numbers: Numbers = ()  # of the elements that were given last

    def add(self, row: SuperTuple) -> Iterator[SuperTuple]:
        """Take a row; give rows whose place is known now."""
        packed = unpack(row.numbers, self._width)
        self._last = row
        content: _Content
        if row.kind == PayloadKind.NUMBERED_PAIRS:
            content = unpack_run(row.payload)
        else:
            assert packed.sizes is not None
            self._kind = PayloadKind(row.kind)
            content = _Whole(row.payload, packed.sizes)
        for merged in self._merger.add(packed.numbers, content):
            yield from self._rows(merged)

    def flush(self) -> Iterator[SuperTuple]:
        """Nothing more comes: give all that is held."""
        for merged in self._merger.flush():
            yield from self._rows(merged)

    def _rows(self, merged: Merged[_Content]) -> Iterator[SuperTuple]:
        self.numbers = merged.numbers
        content = merged.content
        if isinstance(content, _Whole):
            yield self._row(len(merged.numbers), self._kind, content.payload)
        elif isinstance(content, PairRun):
            yield self._row(len(merged.numbers), *grouped_payload(content))
        else:  # a key may have elements of both kinds, which must stay in order
            for kind, found in groupby(content, key=type):
                singles = list(found)
                yield self._row(
                    len(singles),
                    *(
                        (self._kind, b"".join(cast("list[bytes]", singles)))
                        if kind is bytes
                        else grouped_payload(run_of(cast("list[Pair]", singles)))
                    ),
                )

    def _row(self, count: int, kind: PayloadKind, payload: bytes) -> SuperTuple:
        assert self._last is not None
        return self._last._replace(elements=count, kind=kind, payload=payload, numbers=b"")


def as_grouped(row: SuperTuple) -> SuperTuple:
    """Give a row of pairs that are in order as what a grouping takes; others as they are."""
    if row.kind != PayloadKind.NUMBERED_PAIRS:
        return row
    kind, payload = grouped_payload(unpack_run(row.payload))
    return row._replace(kind=kind, payload=payload)


def _cut(content: _Content) -> list[_Single]:
    if isinstance(content, list):
        return content
    if isinstance(content, PairRun):
        return cast("list[_Single]", content.pairs())
    bounds = ends(content.sizes)
    return [content.payload[a:b] for a, b in zip([0, *bounds], bounds, strict=False)]


def _concat(contents: list[_Content]) -> _Content:
    return [element for content in contents for element in _cut(content)]


def _take(content: _Content, places: list[int]) -> _Content:
    elements = _cut(content)
    return [elements[i] for i in places]
