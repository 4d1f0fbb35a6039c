"""Folders of files as a stream on our own loop: new files come, each once, the oldest first.

A position is the number of a list (`file_lists`). Folders are listed here if this process sees what
Spark sees, else by Spark. The options are those of Spark's own source of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from headrace.engine.sources.file_lists import Entry, FileLists
from headrace.engine.sources.stream_plans import StreamOf
from headrace.engine.spark.session import SparkTarget
from headrace.errors import OptionError, UnsupportedTransformError
from headrace.state.files import Files

#: Options of a stream of files, which mean nothing where its files are read.
_OF_STREAMS = frozenset({
    "maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly",
    "cleansource", "sourcearchivedir", "maxcachedfiles", "discardcachedinputratio", "path",
    "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter",
})  # fmt: skip
#: Options by which only Spark can choose among files.
_OF_CHOICE = ("pathGlobFilter", "modifiedBefore", "modifiedAfter")
#: Between two looks that found nothing new, in seconds.
_LOOK_HERE, _LOOK_BY_SPARK = 0.02, 0.1
_GLOB = re.compile(r"[*?\[{]")
_PATTERN = re.compile(r"([\\*?\[\]{}])")
_SPARK_SINK = "_spark_metadata"
_AGES = {
    "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
    "day": 86_400_000, "days": 86_400_000, "hours": 3_600_000, "hour": 3_600_000,
}  # fmt: skip


class FileSource:
    """Files of one or several folders.

    Args:
        name: the read's.
        plan: of the streaming DataFrame.
        target: whose child session reads the rows.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """

    def __init__(
        self, name: str, plan: StreamOf, target: SparkTarget, files: Files, log: str
    ) -> None:
        read = plan.read
        self._name, self._plan, self._session = name, plan, target.session
        self._options = {n: v for n, v in read.options.items() if n not in _OF_STREAMS}
        clean = read.option("cleanSource", "off").lower()
        if clean != "off":
            msg = (
                f"{name}: cleanSource={clean} asks the source to move or delete files, which "
                "headrace's own loop does not do; leave it out, and clean up what is older than "
                "the pipeline needs"
            )
            raise UnsupportedTransformError(msg)
        self._most_files = read.most(name, "maxFilesPerTrigger")
        self._most_bytes = _size(name, read.option("maxBytesPerTrigger"))
        self._latest_first = read.option("latestFirst", "false").lower() == "true"
        age = _millis(name, read.option("maxFileAge", "7d"))
        self._lists = FileLists(files, f"{log}/sources/0", 1 << 62 if self._latest_first else age)
        self._schema = plan.leaf_schema()
        self._recursive = read.option("recursiveFileLookup", "false").lower() == "true"
        bare = all(path.startswith(("/", "file:")) for path in read.paths)
        simple = bare and not any(read.option(option) for option in _OF_CHOICE)
        self._here = simple and not self._globs and target.door.shares_disk
        self.look_seconds = _LOOK_HERE if self._here else _LOOK_BY_SPARK
        self._fixed: list[Entry] | None = None

    @property
    def _globs(self) -> bool:
        return any(_GLOB.search(path) for path in self._plan.read.paths)

    def first(self) -> dict[str, int]:
        """A new run has no list."""
        return {"logOffset": -1}

    def advanced(self, start: dict[str, int]) -> dict[str, int]:
        """List what is new, and give the number of the list."""
        at = start["logOffset"]
        if self._lists.step > at:  # a list that was written, and no batch was begun
            return {"logOffset": self._lists.step}
        found = self._found() if self._fixed is None else self._fixed
        new = sorted(filter(self._lists.is_new, found), reverse=self._latest_first)
        chosen = self._limited(new)
        return {"logOffset": self._lists.add(chosen)} if chosen else start

    def fix(self) -> None:
        """Take note of the files that are there now."""
        self._fixed = self._found()

    def rows(self, start: dict[str, int], end: dict[str, int]) -> Any:
        """Give the rows of the files of some lists."""
        entries = self._lists.between(start["logOffset"], end["logOffset"])
        paths = self._plan.read.paths
        options = dict(self._options)
        if len(paths) == 1 and not self._globs:
            options.setdefault("basepath", paths[0])
        reader = self._session.read.format(self._plan.read.format).schema(self._schema)
        # Names are names: a bracket in one is no pattern.
        made = reader.options(**options).load([_PATTERN.sub(r"\\\1", e.path) for e in entries])
        return self._plan.over(made)

    def promised(self, start: dict[str, int], end: dict[str, int]) -> int | None:
        """Nobody knows the rows of a file that was not read."""
        del start, end
        return None

    def counted(self, end: dict[str, int]) -> None:
        """Lists stay, to know which files are new."""

    def close(self) -> None:
        """Nothing is held."""

    def _limited(self, new: list[Entry]) -> list[Entry]:
        if self._most_files:
            return new[: self._most_files]
        if not self._most_bytes:
            return new
        taken, total = 0, 0
        for entry in new:
            total += entry.size
            if taken and total > self._most_bytes:
                break
            taken += 1
        return new[:taken]

    def _found(self) -> list[Entry]:
        if not self._here:
            return self._listed_by_spark()
        found: list[Entry] = []
        for path in self._plan.read.paths:
            # As Spark spells it: one file by two names would come twice where loops change.
            folder = os.path.normpath("/" + re.sub("^file:", "", path).strip("/"))
            try:
                if os.path.isfile(folder):
                    found.append(_entry(folder, os.stat(folder)))
                elif os.path.exists(f"{folder}/{_SPARK_SINK}"):
                    return self._listed_by_spark()  # which knows what of it counts
                else:
                    found += _walk(folder, recursive=self._recursive)
            except FileNotFoundError as missing:
                if os.path.isdir(folder):
                    continue  # a file that was moved away while it was looked at
                msg = f"{self._name}: there is no folder {folder} to read files from; make it first"
                raise OptionError(msg) from missing
        return found

    def _listed_by_spark(self) -> list[Entry]:
        read = self._plan.read
        choice = {o: read.option(o) for o in (*_OF_CHOICE, "recursiveFileLookup") if read.option(o)}
        listing = self._session.read.format("binaryFile").options(**choice).load(list(read.paths))
        rows = listing.selectExpr("path", "unix_millis(modificationTime) AS at", "length").collect()
        return [
            Entry(row.at, re.sub("^file:/+", "file:///", row.path), size=row.length) for row in rows
        ]


def _walk(folder: str, *, recursive: bool) -> Iterator[Entry]:
    """Give the files of a folder, and of those below it that are named as partitions are."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith("._COPYING_"):
                continue
            if entry.name.startswith("_") and "=" not in entry.name:
                continue
            # One that was moved away while it was looked at must not hide those after it.
            with suppress(FileNotFoundError):
                if not entry.is_dir():
                    yield _entry(entry.path, entry.stat())
                elif recursive or "=" in entry.name:
                    yield from _walk(entry.path, recursive=recursive)


def _entry(path: str, found: os.stat_result) -> Entry:
    return Entry(found.st_mtime_ns // 1_000_000, f"file://{path}", size=found.st_size)


def _millis(name: str, text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or (match.group(2) or "ms") not in _AGES:
        msg = f"{name}: maxFileAge={text!r} is no time such as 7d, 12h or 30m"
        raise OptionError(msg)
    return int(match.group(1)) * _AGES[match.group(2) or "ms"]


def _size(name: str, text: str) -> int:
    """Give a number of bytes; 0 for no text."""
    if not text:
        return 0
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    size = 0
    if match is not None:
        size = int(match.group(1)) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[match.group(2)]
    if not size:
        msg = f"{name}: maxBytesPerTrigger={text!r} is no size above 0 such as 64m or 1g"
        raise OptionError(msg)
    return size
