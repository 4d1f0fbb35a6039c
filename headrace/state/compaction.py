"""Keeps chains short: merges logs, and decides when a snapshot is due.

The cost follows what was written, not what exists: a row of a log is merged once per tier, and a
snapshot is paid for by logs that are at least as large. Writes new files only; the driver deletes
those that no manifest names any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.state.chain import Chain, Link
from headrace.state.changelog import Draft, Rows, read_link, write_rows
from headrace.state.files import Files
from headrace.state.kept import KEPT

#: Logs of one tier that become one of the next. Fewer: more rewriting; more: longer chains.
MERGED_LOGS = 8
#: A merge holds its rows in memory: what is larger than this stays as it is.
MERGED_BYTES = 32 << 20
MERGED_ROWS = 1_000_000
#: Logs below this are never worth a snapshot.
SNAPSHOT_FROM_BYTES = 4 << 20
#: Bytes of rows, before compression, in one part of a snapshot and in one of its batches. A part
#: is one file and one transaction when it is restored: its size is the memory both take.
PART_BYTES = 128 << 20
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 16384


def snapshot_due(chain: Chain) -> bool:
    """Whether the logs have outgrown the snapshot."""
    return chain.log_bytes() > max(SNAPSHOT_FROM_BYTES, chain.base_bytes())


def write_snapshot(
    files: Files, stem: str, rows: Iterable[tuple[bytes, bytes]], *, until: int
) -> tuple[Link, ...]:
    """Write all rows of a version, given in the order of names, in parts."""
    links: list[Link] = []
    draft = Draft()
    names: list[bytes] = []
    values: list[bytes] = []
    pending = 0

    for name, value in rows:
        names.append(name)
        values.append(value)
        pending += len(value)
        if pending < _BATCH_BYTES and len(names) < _BATCH_ROWS:
            continue
        draft.add((names, values))
        names, values, pending = [], [], 0
        if draft.raw_bytes >= PART_BYTES:
            links.append(draft.write(files, f"{stem}-base{len(links)}.snap", until=until))
            draft = Draft()
    if names:
        draft.add((names, values))
    if draft.rows:
        links.append(draft.write(files, f"{stem}-base{len(links)}.snap", until=until))
    return tuple(links)


def merged(files: Files, stem: str, chain: Chain) -> Chain:
    """Give the chain of the same version with its youngest logs merged, where it is time."""
    logs = chain.logs
    while len(logs) >= MERGED_LOGS:
        last = logs[-MERGED_LOGS:]
        tiers = {link.tier for link in last}
        if (
            len(tiers) > 1
            or sum(link.size for link in last) > MERGED_BYTES
            or sum(link.rows for link in last) > MERGED_ROWS
        ):
            break
        older = logs[:-MERGED_LOGS]
        tier = last[0].tier + 1
        link = write_rows(
            files,
            f"{stem}-tier{tier}.log",
            _merge(files, last),
            until=last[-1].until,
            tier=tier,
        )
        logs = (*older, link)
    return replace(chain, logs=logs)


def _merge(files: Files, links: Iterable[Link]) -> Rows:
    newest: dict[bytes, bytes | None] = {}
    for link in links:
        near = KEPT.get(files, link.name)
        for names, values in read_link(files, link) if near is None else (near,):
            newest.update(zip(names, values, strict=True))
    # Deletions stay even where nothing older holds the row: a local copy from within the span of
    # this log may hold it. They end with the next snapshot.
    names = sorted(newest)
    return names, [newest[name] for name in names]
