"""Decides where the rows of an epoch are written, and what becomes of what is there already.

Every epoch has a folder of its own, `path/epoch=00000042`, which it replaces whole: an epoch that
is done twice is written once. A small note beside the folders says which of them belong to whom.
Uses Spark's readers and writers, so a path means here what it means to them; only files that
workers wrote on this machine's disk are moved by hand, and only where a path means that disk.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from headrace.errors import OptionError

#: The column in which a reader of the path finds the number of the epoch.
EPOCH = "epoch"
#: Formats that are files in folders; others, such as Delta's, do not bear folders of ours.
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})

#: Digits of an epoch's number at least, so that names sort as numbers do.
_DIGITS = 8
#: Readers pass over names that begin with an underscore.
_NOTES = "_headrace"
_FOLDER = re.compile(rf"/{EPOCH}=(\d+)(?=/)")


class Mode(Enum):
    """What happens when there is already something at the place of writing."""

    ERROR = "error"  # the pipeline fails and what is there stays
    OVERWRITE = "overwrite"  # what is there is replaced
    APPEND = "append"  # the rows are added to what is there


class EpochFolders:
    """The folders of the epochs at one path."""

    def __init__(
        self, path: str, file_format: str, options: Mapping[str, str], partition_by: Sequence[str]
    ) -> None:
        self.path = path.rstrip("/") or "/"
        self._format = file_format
        self._options = dict(options)
        self._partition_by = tuple(partition_by)
        self._first: dict[str, int] = {}  # writer -> number of the folder of its epoch 0

    @property
    def is_local(self) -> bool:
        """Whether the path is one of this machine, if Spark's default file system is its disk."""
        return self.path.startswith("/") or self.path.startswith("file:///")

    def staging(self, writer: str, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch."""
        place = self.path.removeprefix("file://")
        return f"{place}/{_NOTES}/{_name_of(writer)}-files/{attempt}"

    def has_begun(self, writer: str) -> bool:
        """Whether the place is ready for a writer."""
        return writer in self._first

    def take(self, epoch: int, writer: str, staging: str, names: Sequence[str]) -> None:
        """Make files the folder of an epoch, in place of what an earlier attempt left there.

        Until the folder has its name, readers see nothing; a crash in between leaves an epoch that
        no manifest names, and it is run again.
        """
        folder = Path(self.folder(self._first[writer] + epoch).removeprefix("file://"))
        apart = Path(staging)
        whole = apart / "whole"
        whole.mkdir(parents=True, exist_ok=True)
        for name in names:
            (apart / name).rename(whole / name)
        if folder.exists():
            folder.rename(apart / "before")
        if names:
            whole.rename(folder)
        # Epochs do not overlap: whatever other attempts of this writer have left is dead too.
        shutil.rmtree(apart.parent, ignore_errors=True)

    def folder(self, number: int) -> str:
        """Give the path of a folder."""
        return f"{self.path}/{EPOCH}={number:0{_DIGITS}d}"

    def begin(self, frame: Any, writer: str, mode: Mode) -> None:
        """Make the place ready for a writer of such frames, unless that was done before.

        Raises:
            OptionError: there is already something, and the mode forbids to touch it.
        """
        if writer in self._first:
            return
        session = frame.sparkSession
        note = f"{self.path}/{_NOTES}/{_name_of(writer)}"
        begun = _exists(session, note)
        if begun:
            told = "".join(row[0] for row in session.read.text(note).collect())
            if told:
                self._first[writer] = int(json.loads(told)["first"])
                return
            # This writer ended while it wrote the note: it had looked at the place, and no row of
            # it is there yet.
        first = 0
        if _exists(session, self.path):
            if mode is Mode.ERROR and not begun:
                msg = (
                    f"WriteToSpark: there is already something at {self.path}; write elsewhere, "
                    "or give mode='append' or mode='overwrite'"
                )
                raise OptionError(msg)
            if mode is Mode.OVERWRITE:
                self._clear(frame, self.path)
            elif mode is Mode.APPEND:
                first = self._next_free(session)
        told = json.dumps({"writer": writer, "first": first})
        written = session.range(0, 1, 1, 1).select(functions.lit(told))
        written.write.mode("overwrite").text(note)
        self._first[writer] = first

    def write(self, frame: Any, epoch: int, writer: str, empty: bool) -> None:
        """Replace the folder of an epoch; an epoch without rows has none with rows in it."""
        folder = self.folder(self._first[writer] + epoch)
        if empty:
            if _exists(frame.sparkSession, folder):  # an earlier attempt of this epoch had rows
                self._clear(frame, folder)
            return
        out = frame.write.mode("overwrite").options(**_replacing(self._options))
        if self._partition_by:
            out = out.partitionBy(*self._partition_by)
        out.format(self._format).save(folder)

    def _next_free(self, session: Any) -> int:
        """Give a number above those of all folders that are there."""
        there = _look(session, self.path).inputFiles()
        # Below the path: a folder above it may have such a name too.
        below = self.path.count("/epoch=")
        found = [_FOLDER.findall(name)[below:] for name in there]
        return 1 + max((int(numbers[0]) for numbers in found if numbers), default=-1)

    def _clear(self, frame: Any, place: str) -> None:
        """Remove all that is below a path, by writing nothing there.

        Nothing in partitions is no file at all; a plain write of no rows would leave an empty one.
        """
        # Spark sees that no row can pass, and does not compute the frame.
        nothing = frame.where("false").withColumn(EPOCH, functions.lit(""))
        out = nothing.write.mode("overwrite").options(**_replacing(self._options))
        out.partitionBy(EPOCH).format(self._format).save(place)


def _name_of(writer: str) -> str:
    return hashlib.sha256(writer.encode()).hexdigest()[:16]


def _replacing(options: Mapping[str, str]) -> dict[str, str]:
    """Replace all, also in a session that keeps the partitions which a write has no rows for."""
    return {**options, "partitionOverwriteMode": "static"}


def _look(session: Any, path: str) -> Any:
    """Give the files below a path, unopened."""
    return session.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)


def _exists(session: Any, path: str) -> bool:
    try:
        _look(session, path).schema  # noqa: B018 (asking is what makes Spark look)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True
