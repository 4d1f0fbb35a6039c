"""Holds Spark's own log of a query against what a manifest counts of it.

Spark numbers its batches, and a number says nothing of what is in a batch: a log that was deleted,
cut back or taken from an older copy gives old numbers to other rows. So the manifest keeps digests
of the files that say what its last batch was, and they are compared before Spark reads them.
Takes a checkpoint's files, gives records and sentences. Knows the layout of the log, not Spark.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from headrace.engine.checkpoint.manifests import LogRecord
from headrace.engine.checkpoint.spark_files import unreadable
from headrace.state.files import Files

_NUMBER = re.compile(r"(\d+)(\.compact)?")
#: What can be done about a log that Spark cannot read, or must not.
REMEDY = (
    "Bring the whole checkpoint folder back from one copy, its folder spark/ and its manifests "
    "together; or begin anew on an empty folder and with an empty sink"
)
#: Spark's words for a source that has no offset yet.
_NONE = "-"


def recorded(files: Files, folder: str, batch: int, before: LogRecord | None) -> LogRecord:
    """Describe a batch that is about to count.

    Args:
        files: the checkpoint.
        folder: the query's log below it.
        batch: the batch's number; Spark has logged its offsets.
        before: the record of the batch before.
    """
    offsets = files.read(f"{folder}/offsets/{batch}")
    known = {} if before is None else dict(before.sums)
    sums = {f"offsets/{batch}": digest(offsets)}
    if "metadata" in known:
        sums["metadata"] = known["metadata"]
    elif (found := _sum(files, f"{folder}/metadata")) is not None:
        sums["metadata"] = found
    for source, position in enumerate(_positions(offsets)):
        sums.update(_source(files, folder, f"sources/{source}", position, known))
    return LogRecord(folder=folder, batch=batch, sums=sums)


def position_of(files: Files, folder: str, batch: int) -> Any:
    """Give where the only source of a query is at the end of a batch, in Spark's JSON.

    Args:
        files: the checkpoint.
        folder: the query's log below it.
        batch: the batch's number; Spark has logged its offsets.

    Returns:
        What Spark wrote; None if it is not known, or the query has several sources.
    """
    found = _positions(files.read(f"{folder}/offsets/{batch}"))
    return found[0] if len(found) == 1 else None


def _source(
    files: Files, folder: str, source: str, position: Any, known: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Give the digests of the files that a source keeps of its own, as far as Spark reads them.

    A file source lists the files of each step; every tenth list is whole, and older ones are not
    read any more. Other sources write down where they began, once.
    """
    mine = {name: found for name, found in known.items() if name.startswith(f"{source}/")}
    reached = max((_id(name) for name in mine), default=-1)
    target = position.get("logOffset") if isinstance(position, dict) else None
    for number in range(reached + 1, target + 1 if isinstance(target, int) else 1):
        for name in (f"{source}/{number}", f"{source}/{number}.compact"):
            found = _sum(files, f"{folder}/{name}")
            if found is None:
                continue
            if name.endswith(".compact"):
                mine = {}
            mine[name] = found
    yield from mine.items()


def problems(files: Files, record: LogRecord) -> list[str]:
    """Say what in Spark's log does not fit a manifest; nothing, if Spark may go on with it."""
    folder, batch = record.folder, record.batch
    found = []
    named = set()
    for name, wanted in record.sums.items():
        path = f"{folder}/{name}"
        there = _sum(files, path)
        if there == wanted or (there is None and _is_dispensable(files, folder, name)):
            continue
        what = "is not there" if there is None else "is not the file that the manifest counts"
        found.append(f"{files.path(path)} {what}")
        named.add(path)
    offered, logged = (_numbers(files, f"{folder}/{kind}") for kind in ("offsets", "commits"))
    for kind, numbers, last in (("offsets", offered, batch + 1), ("commits", logged, batch)):
        if numbers and numbers[-1] > last:
            path = files.path(f"{folder}/{kind}/{numbers[-1]}")
            found.append(f"{path} is of batch {numbers[-1]}, but the manifest counts up to {batch}")
    found += _strangers(files, record)
    found += [f"{files.path(n)} {w}" for n, w in unreadable(files, folder) if n not in named]
    return [f"{sentence}. {REMEDY}" for sentence in found]


def _is_dispensable(files: Files, folder: str, name: str) -> bool:
    """Whether Spark has replaced a file by a newer whole list."""
    if not name.startswith("sources/"):
        return False
    source = name.rpartition("/")[0]
    return any(
        number > _id(name) and whole for number, whole in _entries(files, f"{folder}/{source}")
    )


def _strangers(files: Files, record: LogRecord) -> Iterator[str]:
    """Find lists of files, newer than those that count, which are not what their names say."""
    reached: dict[str, int] = {}
    for name in record.sums:
        if name.startswith("sources/"):
            source = name.rpartition("/")[0]
            reached[source] = max(reached.get(source, -1), _id(name))
    for source, last in reached.items():
        for number, whole in _entries(files, f"{record.folder}/{source}"):
            if number <= last:
                continue
            path = f"{record.folder}/{source}/{number}{'.compact' if whole else ''}"
            batches = _batches_of(files.read(path))
            if not whole and batches - {number} or whole and batches and max(batches) > number:
                yield f"{files.path(path)} does not belong there: it lists another step's files"


def _batches_of(data: bytes) -> set[int]:
    """Give the steps that a list of files speaks of."""
    found = set()
    for line in data.decode(errors="replace").splitlines()[1:]:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # no list of files, or Spark will say that it is torn
        if isinstance(entry, dict) and isinstance(entry.get("batchId"), int):
            found.add(entry["batchId"])
    return found


def _positions(offsets: bytes) -> list[Any]:
    """Give where each source is at the end of a batch, in Spark's JSON; None: not known."""
    found: list[Any] = []
    for line in offsets.decode(errors="replace").splitlines()[2:]:  # a version, then metadata
        try:
            found.append(None if line == _NONE else json.loads(line))
        except ValueError:
            found.append(None)
    return found


def _entries(files: Files, folder: str) -> list[tuple[int, bool]]:
    """Give the numbers of a source's files, and whether each is a whole list."""
    found = (_NUMBER.fullmatch(name.rpartition("/")[2]) for name in files.names(folder))
    return sorted((int(m.group(1)), m.group(2) is not None) for m in found if m)


def _numbers(files: Files, folder: str) -> list[int]:
    return [number for number, _ in _entries(files, folder)]


def _id(name: str) -> int:
    match = _NUMBER.fullmatch(name.rpartition("/")[2])
    return int(match.group(1)) if match else -1


def _sum(files: Files, name: str) -> str | None:
    try:
        return digest(files.read(name))
    except FileNotFoundError:
        return None


def digest(data: bytes) -> str:
    """Give a short digest of a file's bytes."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
