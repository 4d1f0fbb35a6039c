"""Decides what one block of pages does in one round of PageRank.

Takes what arrived for a block, gives what it sends: itself and a letter to every block. Plain
tuples of numbers and bytes, no Beam: the pipeline moves them. The formulas stand in `pagerank`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.lab.data.randoms import I64
from headrace.lab.workloads.kernels.model import Edge

#: The rank of all pages together. Below 2**53, so that sums of ranks are exact as floats too.
ONE = 10**15

#: (_HOME, sources, targets, ranks, settled): a block itself; arrays as bytes, links as few of them
#: as the number of pages allows. A block whose ranks have settled has no more use for links.
_HOME = 0
#: (_LETTER, sender, shares, lost, change): what a block tells another one.
_LETTER = 1

Parcel = tuple[int, tuple[Any, ...]]  # to which block, and what


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """How pages are divided: page v is in block v % blocks, at place v // blocks."""

    vertices: int
    blocks: int
    damping_percent: int

    def code(self, edge: Edge) -> tuple[int, int]:
        """Give an edge's block, and the edge as one number: it travels as such."""
        source = edge.source
        return source % self.blocks, source * self.vertices + edge.target

    def size(self, block: int) -> int:
        """How many pages a block has."""
        return max(0, -(-(self.vertices - block) // self.blocks))

    @property
    def link_type(self) -> type[Any]:
        """The smallest numbers that every page's is one of."""
        for small in (np.uint8, np.uint16, np.uint32):
            if self.vertices <= np.iinfo(small).max + 1:
                return small
        return np.uint64

    def links(self, packed: bytes) -> I64:
        """Unpack the sources or targets of links."""
        return np.frombuffer(packed, self.link_type).astype(np.int64)

    def open(self, group: tuple[int, Iterable[int]]) -> Iterator[Parcel]:
        """Make a block of its edges, and its first letters."""
        block, codes = group
        sources, targets = np.divmod(np.fromiter(codes, np.int64), self.vertices)
        yield from self.send(block, sources, targets, self.first_ranks(block), change=0)

    def first_ranks(self, block: int) -> I64:
        """Give the ranks before the first round."""
        return np.full(self.size(block), ONE // self.vertices, np.int64)

    def send(
        self, block: int, sources: I64, targets: I64, ranks: I64, change: int
    ) -> Iterator[Parcel]:
        """Send the block on, and a letter to every block with pages."""
        places = sources // self.blocks
        leaving = np.bincount(places, minlength=len(ranks))
        shares = ranks // np.maximum(leaving, 1)
        # Weights are floats; whole numbers below 2**53 are exact in them, and so are their sums.
        arriving = np.bincount(targets, weights=shares[places], minlength=self.vertices)
        values = arriving.astype(np.int64)
        lost = int(ranks[leaving == 0].sum())
        small = self.link_type
        yield block, home(sources.astype(small), targets.astype(small), ranks, settled=0)
        for other in range(min(self.blocks, self.vertices)):
            theirs = np.ascontiguousarray(values[other :: self.blocks])
            yield other, (_LETTER, block, theirs.tobytes(), lost, change)

    def next_ranks(self, block: int, letters: list[tuple[Any, ...]]) -> I64:
        """Make the ranks after a round of what all blocks sent."""
        arrived = np.zeros(self.size(block), np.int64)
        lost = 0
        silent = set(range(self.blocks))
        for _, sender, shares, their_loss, _ in letters:
            arrived += numbers(shares)
            lost += their_loss
            silent.discard(sender)
        # A block without links is not there before the first letters make it: nobody heard of it
        # in round 1, and all its pages were dead ends.
        lost += sum(map(self.size, silent)) * (ONE // self.vertices)
        jump = (100 - self.damping_percent) * (ONE // self.vertices)
        follow = self.damping_percent * (arrived + lost // self.vertices)
        return np.asarray((jump + follow) // 100)

    def ranks(self, parcel: Parcel) -> Iterator[tuple[int, float, int]]:
        """Give (page, rank, settled) of a block's pages."""
        block, (kind, *own) = parcel
        if kind == _HOME:
            _, _, packed, settled = own
            for place, rank in enumerate(numbers(packed).tolist()):
                yield block + place * self.blocks, rank / ONE, settled


def home(sources: Any, targets: Any, ranks: I64, settled: int) -> tuple[Any, ...]:
    """Pack a block."""
    return _HOME, sources.tobytes(), targets.tobytes(), ranks.tobytes(), settled


def numbers(packed: bytes) -> I64:
    """Unpack an array."""
    return np.frombuffer(packed, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round.

    Args:
        blocks: how pages are divided.
        number: of the round, from 1; `rounds` + 1 is the one that only looks.
        rounds: how many there may be.
        tolerance: the change of all ranks together at which they have settled.
    """

    blocks: Blocks
    number: int
    rounds: int
    tolerance: float

    def run(self, group: tuple[int, Iterable[tuple[Any, ...]]]) -> Iterator[Parcel]:
        """Do what a block does in this round."""
        block, arrived = group
        own, letters = self._unpack(block, arrived)
        _, sources, targets, ranks, settled = own
        if settled or self.number > 1 and self._is_settled(letters):
            yield block, (_HOME, b"", b"", ranks, settled or self.number - 1)
        elif self.number > self.rounds:
            yield block, own
        else:
            old = numbers(ranks)
            new = self.blocks.next_ranks(block, letters)
            change = int(np.abs(new - old).sum())
            links = self.blocks.links(sources), self.blocks.links(targets)
            yield from self.blocks.send(block, *links, new, change)

    def _unpack(
        self, block: int, arrived: Iterable[tuple[Any, ...]]
    ) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
        letters = []
        none = np.empty(0, np.int64)
        own = home(none, none, self.blocks.first_ranks(block), settled=0)  # it may have no links
        for item in arrived:
            if item[0] == _HOME:
                own = item
            else:
                letters.append(item)
        return own, letters

    def _is_settled(self, letters: list[tuple[Any, ...]]) -> bool:
        change: int = sum(letter[4] for letter in letters)
        return change <= int(self.tolerance * ONE)
