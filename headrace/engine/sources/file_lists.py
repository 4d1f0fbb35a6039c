"""The log of a stream of files, as Spark's own source of files keeps it: which came in which step.

Below the log of a DataFrame lies `sources/0/STEP`, a list of files; every tenth list is whole
(`STEP.compact`) and has all files before it too. Takes and gives entries; lists no folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from headrace.errors import CheckpointError
from headrace.state.files import Files

#: Steps from one whole list to the next, as in Spark.
COMPACT_STEPS = 10
_NAME = re.compile(r"(\d+)(\.compact)?")
#: What may not stand in a URI as it is; other letters than ASCII may, as Java has it.
_ILLEGAL = re.compile(r"[\x00-\x20\x7f\"#%<>?\[\\\]^`{|}]")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A file that was found."""

    timestamp: int  # of its last change, in milliseconds
    path: str  # with a scheme, as Spark is told of it
    step: int = -1  # -1: not in a list yet
    size: int = 0  # in bytes; not kept


class FileLists:
    """The lists of one stream of files.

    Args:
        files: the checkpoint.
        folder: of the lists, below it.
        max_age_millis: files that are older than the newest by more than this are forgotten, and
            passed over when they come.
    """

    def __init__(self, files: Files, folder: str, max_age_millis: int) -> None:
        self._files, self._folder, self._max_age = files, folder, max_age_millis
        self._seen: dict[str, Entry] = {}
        self._newest = 0
        self.step = -1  # the last one
        there = sorted(self._there())
        whole = max((step for step, is_whole in there if is_whole), default=-1)
        for step, is_whole in there:
            if step > whole or (step == whole and is_whole):
                self._remember(self._read(step, is_whole))
                self.step = step

    def is_new(self, entry: Entry) -> bool:
        """Whether a file was in no list yet, and is not too old."""
        return entry.path not in self._seen and entry.timestamp >= self._newest - self._max_age

    def add(self, entries: Iterable[Entry]) -> int:
        """Write the next step's list; give its number."""
        step = self.step + 1
        mine = [Entry(e.timestamp, e.path, step) for e in entries]
        self._remember(mine)
        whole = (step + 1) % COMPACT_STEPS == 0
        name = f"{self._folder}/{step}{'.compact' if whole else ''}"
        # Of the step's own files none is too old to be read, however old the newest makes it.
        known = {**self._seen, **{e.path: e for e in mine}}
        listed = sorted(known.values(), key=lambda e: (e.step, e)) if whole else mine
        lines = [
            json.dumps({"path": encoded(e.path), "timestamp": e.timestamp, "batchId": e.step})
            for e in listed
        ]
        if not self._files.create(name, "\n".join(["v1", *lines]).encode()):
            msg = f"{self._files.path(name)} was written by another query; two drivers use this log"
            raise CheckpointError(msg)
        self.step = step
        if whole:  # the whole list before this one stays, for who goes on from an older manifest
            old = [n for n in self._names() if _step(n)[0] < step - COMPACT_STEPS]
            self._files.delete(old)
        return step

    def between(self, start: int, end: int) -> list[Entry]:
        """Give the files of the steps after one and up to another."""
        found: list[Entry] = []
        for step, is_whole in sorted(self._there()):
            if start < step <= end:
                found += [e for e in self._read(step, is_whole) if e.step == step]
        return found

    def _remember(self, entries: Iterable[Entry]) -> None:
        self._seen |= {e.path: e for e in entries}
        self._newest = max((self._newest, *(e.timestamp for e in self._seen.values())))
        oldest = self._newest - self._max_age
        self._seen = {path: e for path, e in self._seen.items() if e.timestamp >= oldest}

    def _read(self, step: int, is_whole: bool) -> list[Entry]:
        name = f"{self._folder}/{step}{'.compact' if is_whole else ''}"
        try:
            lines = self._files.read(name).decode().splitlines()[1:]
            entries = [json.loads(line) for line in lines if line]
            return [
                Entry(int(e["timestamp"]), decoded(str(e["path"])), int(e["batchId"]))
                for e in entries
            ]
        except (ValueError, KeyError, TypeError) as error:
            msg = (
                f"{self._files.path(name)} is no list of files ({error}). Bring the whole "
                "checkpoint folder back from one copy"
            )
            raise CheckpointError(msg) from error

    def _names(self) -> list[str]:
        return [n for n in self._files.names(self._folder) if _step(n)[0] >= 0]

    def _there(self) -> Iterator[tuple[int, bool]]:
        return (_step(name) for name in self._names())


def _step(name: str) -> tuple[int, bool]:
    match = _NAME.fullmatch(name.rpartition("/")[2])
    return (int(match.group(1)), match.group(2) is not None) if match else (-1, False)


def encoded(path: str) -> str:
    """Give a path as a URI, in Java's way.

    >>> encoded("file:/data/a b%.csv"), encoded("s3a://bucket/ü")
    ('file:///data/a%20b%25.csv', 's3a://bucket/ü')
    """
    made = _ILLEGAL.sub(lambda found: f"%{ord(found.group()):02X}", path)
    return re.sub("^file:/+", "file:///", made)


def decoded(uri: str) -> str:
    """Read what `encoded` gave, or Spark wrote."""
    return re.sub("^file:/+", "file:///", unquote(uri))
