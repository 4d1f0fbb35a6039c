"""Reads the rows of whole chains: to show them, to check them, to deal them out anew.

Takes chains and files, gives rows in the order of names. Opens no store and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain as joined

from headrace.errors import StateError
from headrace.state.chain import Chain, Link
from headrace.state.changelog import problems, read_link
from headrace.state.files import Files
from headrace.state.layout import EVERYWHERE, MIXED, OWN, TIMED, Kind
from headrace.state.mixed import own_part

#: Where a name has its key group, by the name's first byte.
_KEY_GROUP_AT = {ord(kind.value): 11 if kind in TIMED else 3 for kind in Kind}
_EVERYWHERE = frozenset(ord(kind.value) for kind in EVERYWHERE)
_MIXED = frozenset(ord(kind.value) for kind in MIXED)
_OWN = frozenset(ord(kind.value) for kind in OWN)


def read_chain(
    files: Files, chain: Chain, keep: Callable[[bytes], bool]
) -> Iterator[tuple[bytes, bytes]]:
    """Give the rows of a chain's version whose names are wanted, in the order of names.

    All logs are held in memory as they are on disk, of the snapshot one part at a time.
    """
    newest_first = [_rows(files, (link,), keep, age) for age, link in enumerate(chain.logs[::-1])]
    oldest = _rows(files, chain.base, keep, len(chain.logs))
    done = b""  # no row has an empty name
    for name, _, value in merge(*newest_first, oldest):
        if name != done:
            done = name
            if value is not None:
                yield name, value


def redistribute(
    files: Files, chains: Sequence[Chain], shard: int, shards: int
) -> Iterator[tuple[bytes, bytes]]:
    """Give the rows of one new shard, in the order of names.

    Args:
        files: the checkpoint folder.
        chains: of all old shards of the same superstep, by shard number.
        shard: the number of the new shard.
        shards: how many there are from now on.
    """
    parts = [
        read_chain(files, chain, _belongs(shard, shards, first=old == 0))
        for old, chain in enumerate(chains)
    ]
    # New names come in no order; what is taken apart is small beside the rows of single keys.
    taken_apart = sorted(
        row
        for old, chain in enumerate(chains)
        for name, value in read_chain(files, chain, lambda name: name[0] in _MIXED)
        for row in own_part(name, value, old, shard, shards)
    )
    return merge(*parts, taken_apart)


def verify_chain(files: Files, chain: Chain) -> list[str]:
    """Say what is wrong with the files of a chain; nothing, if the state can be restored."""
    return [problem for link in chain.links for problem in problems(files, link)]


def _rows(
    files: Files, links: Iterable[Link], keep: Callable[[bytes], bool], age: int
) -> Iterator[tuple[bytes, int, bytes | None]]:
    # Age before value: of two rows of one name the younger comes first, values are not compared.
    batches = joined.from_iterable(read_link(files, link) for link in links)
    for names, values in batches:
        for name, value in zip(names, values, strict=True):
            if keep(name):
                yield name, age, value


def _belongs(shard: int, shards: int, *, first: bool) -> Callable[[bytes], bool]:
    def keep(name: bytes) -> bool:
        letter = name[0]
        at = _KEY_GROUP_AT.get(letter)
        if at is None:
            msg = (
                f"a row named {name.hex()} is of no kind this release knows; run the pipeline "
                f"with the release of headrace that wrote its checkpoint"
            )
            raise StateError(msg)
        if letter in _OWN:
            return False
        if letter in _EVERYWHERE:
            return first
        if letter in _MIXED:
            return False  # taken apart, not taken over: see `redistribute`
        return int.from_bytes(name[at : at + 4], "big") % shards == shard

    return keep
