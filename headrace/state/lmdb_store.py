"""Opens state partitions: brings the local copy to the version a chain names.

Reads no more files than the copy lacks; usually none, since the process remembers the log it wrote
last. Decides when a copy is of no use and a new one is built. Knows nothing of an epoch's writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import lmdb

from headrace.errors import StateError
from headrace.state import memory_copies
from headrace.state.chain import BETWEEN, AppliedVersion, Chain, Link, mark_of
from headrace.state.changelog import Rows, fetch, unpack
from headrace.state.environments import (
    BROKEN,
    MAP_BYTES,
    Environment,
    current,
    forget,
    forget_all,
    renewed,
    tell,
)
from headrace.state.files import Files
from headrace.state.kept import KEPT
from headrace.state.partition import StatePartition
from headrace.state.snapshot import redistribute

__all__ = ["StatePartition", "forget_local", "open_partition"]

#: How often to begin again when other processes move the same local copy meanwhile.
_TRIES = 8
#: Rows dealt out to a new shard in one transaction.
_DEALT_ROWS = 65536
#: Where the rows of a state partition lie between two epochs.
Copy = Environment | memory_copies.MemoryCopy
_BUILDING = AppliedVersion(link="", version=BETWEEN, mark=0)


def open_partition(
    local: Path,
    files: Files,
    partition: str,
    chain: Chain | None,
    *,
    from_chains: Sequence[Chain] = (),
    shard: int = 0,
    shards: int = 1,
    map_bytes: int = MAP_BYTES,
    run: str = "",
) -> StatePartition:
    """Open a state partition at the version a chain names.

    Args:
        local: a folder on a disk of this machine, for copies that can be thrown away. It must be
            another one after the machine was started anew.
        files: the checkpoint folder.
        partition: the state partition's name, part of paths.
        chain: the state, as the manifest of the last epoch names it; None: there is none yet.
        from_chains: instead of `chain`, those of all old shards, when the number of shards has
            changed. The first seal then writes a snapshot, so that the new chain stands alone.
        shard: with `from_chains`, the new shard's number.
        shards: with `from_chains`, how many shards there are now.
        map_bytes: what a new local copy may hold before it grows.
        run: names the driver's run. A copy that another run made is not trusted but built again.
    """
    folder = local / partition
    odd: Exception | None = None
    begin, anew = (
        (memory_copies.current, memory_copies.renewed) if memory_copies.is_memory(local)
        else (current, renewed)
    )
    try:
        environment: Copy = begin(folder, map_bytes, run)
        for _ in range(_TRIES):
            try:
                environment.forget_dead_readers()
                if from_chains:
                    found = _dealt(environment, files, partition, from_chains, shard, shards)
                else:
                    found = _brought(environment, files, partition, chain or Chain())
            except BROKEN as error:
                tell(folder, error)
                found, odd = None, error
            if found is not None:
                return found
            environment = anew(folder, map_bytes, run)
    except (lmdb.Error, OSError) as error:
        odd = error
    forget(folder)
    if odd is not None:
        msg = (
            f"the local copy of state in {folder} cannot be used: {odd}. Nothing is lost: make "
            f"room or mend the folder, and start the pipeline again."
        )
        raise StateError(msg) from odd
    msg = f"other processes keep changing the local copy of state in {folder}; end them first"
    raise StateError(msg)


def forget_local() -> None:
    """Forget what this process keeps of state partitions: open environments and recent logs."""
    forget_all()
    KEPT.clear()


def _brought(
    environment: Copy, files: Files, partition: str, chain: Chain
) -> StatePartition | None:
    """Apply what the local copy lacks; None if the copy is of another past."""
    fetched, restored = 0, False
    for _ in range(_TRIES):
        txn = environment.read()
        at = environment.applied(txn)
        owed = chain.owed(at)
        if owed is None:
            return None
        if not owed:
            folder = f"state/{partition}"
            found = StatePartition(environment, txn, files, folder, chain, founded=True)
            found.fetched, found.restored = fetched, restored
            return found
        restored = restored or at is None
        for link in owed:
            near = KEPT.get(files, link.name)
            if near is None:
                fetched += 1
            after = chain.applied(link)
            batches = _batches(files, link, near)
            if not environment.apply(batches, at, after, ascending=link in chain.base):
                break  # another process was there meanwhile: look again
            at = after
    return None


def _batches(files: Files, link: Link, near: Rows | None) -> Callable[[], Iterable[Rows]]:
    if near is not None:
        return lambda: (near,)
    data = fetch(files, link)
    return lambda: unpack(data)


def _dealt(
    environment: Copy,
    files: Files,
    partition: str,
    chains: Sequence[Chain],
    shard: int,
    shards: int,
) -> StatePartition | None:
    """Fill an empty local copy with a new shard's rows; None if the copy is not empty."""
    source = json.dumps([[chain.to_json() for chain in chains], shard, shards])
    name = f"dealt-{blake2b(source.encode(), digest_size=8).hexdigest()}"
    whole = AppliedVersion(link=name, version=1, mark=mark_of(name))
    txn = environment.read()
    at = environment.applied(txn)
    fetched = 0
    if at != whole:
        if at is not None:
            return None
        rows = redistribute(files, chains, shard, shards)
        while batch := list(islice(rows, _DEALT_ROWS)):
            names, values = zip(*batch, strict=True)
            if not environment.apply(_once((names, values)), at, _BUILDING, ascending=True):
                return None
            at = _BUILDING
        if not environment.apply(tuple, at, whole):
            return None
        fetched = sum(len(chain.links) for chain in chains)
        txn = environment.read()
        if environment.applied(txn) != whole:
            return None
    found = StatePartition(
        environment,
        txn,
        files,
        f"state/{partition}",
        Chain(version=1, past=(whole.mark,)),
        founded=False,
    )
    found.fetched, found.restored = fetched, fetched > 0
    return found


def _once(rows: Rows) -> Callable[[], Iterable[Rows]]:
    return lambda: (rows,)
