"""Where the rows of an epoch are written, what becomes of what is there, and who may write.

Every epoch has a folder of its own, `path/epoch=00000042`, which it replaces whole: an epoch that
is done twice is written once. Below `path/_headrace` lie a note for each writer and the files that
are not in place yet. Of several drivers of one run only the newest gets anything in place:

1. A driver claims the path: its name goes into the note, and all files that older drivers have set
   aside are taken away.
2. An epoch's files are set aside, in a folder of the claim.
3. The note must still name the claim, and the checkpoint no newer driver.
4. The epoch's folder is exchanged by moves from and to the claim's folder.

A driver that is overtaken before 3 is refused there; after 3 its moves fail, for the folder that
they begin or end in is gone. So it does not matter how long it slept between 3 and 4. Where folders
cannot be moved at once (object stores) Spark writes in place, and 3 alone must do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from headrace.errors import CheckpointError, OptionError
from headrace.io.claims import Claim, Note, later_folders, overtaken
from headrace.io.storage import Storage, storage_of

#: The column in which a reader of the path finds the number of the epoch.
EPOCH = "epoch"
#: Formats that are files in folders; others, such as Delta's, do not bear folders of ours.
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})

#: Digits of an epoch's number at least, so that names sort as numbers do.
_DIGITS = 8
#: Readers pass over names that begin with an underscore.
_NOTES = "_headrace"
_FOLDER = re.compile(rf"{EPOCH}=(\d+)")
_NOTE = ".json"


class Mode(Enum):
    """What happens when there is already something at the place of writing."""

    ERROR = "error"  # the pipeline fails and what is there stays
    OVERWRITE = "overwrite"  # what is there is replaced
    APPEND = "append"  # the rows are added to what is there


class EpochFolders:
    """The folders of the epochs at one path."""

    def __init__(
        self,
        path: str,
        file_format: str,
        options: Mapping[str, str],
        partition_by: Sequence[str],
        storage: Storage | None = None,
    ) -> None:
        self.path = path.rstrip("/") or "/"
        self._format = file_format
        self._options = dict(options)
        self._partition_by = tuple(partition_by)
        self._storage = storage  # None: found when the path is claimed
        self._claim: Claim | None = None
        self._first = 0  # the number of the folder of epoch 0

    @property
    def is_local(self) -> bool:
        """Whether the path is one of this machine, if Spark's default file system is its disk."""
        return self.path.startswith("/") or self.path.startswith("file:///")

    def claim(
        self, session: Any, claim: Claim, mode: Mode, *, fresh: bool, next_epoch: int,
        remove_later: bool = False,
    ) -> None:
        """Take the path for a driver, unless that was done before; step 1.

        Args:
            session: whose idea of paths holds.
            claim: of the driver.
            mode: what a run does that was never here.
            fresh: no epoch of the run counts yet, so that it may never have been here.
            next_epoch: the first epoch that this driver will write.
            remove_later: remove what the run has written after that; else it is refused.

        Raises:
            OptionError: there is already something, and the mode forbids to touch it.
            CheckpointError: a newer driver was here, or one with a newer checkpoint.
        """
        if self._claim == claim:
            return
        if self._storage is None:
            self._storage = storage_of(session, self.path)
        if self._storage.exists(self.path) and not self._storage.is_folder(self.path):
            msg = f"WriteToSpark: {self.path} is a file; give the path of a folder"
            raise OptionError(msg)
        note = self._note(claim.writer) or self._begun(claim.writer, mode, fresh)
        if overtaken(note, claim):
            raise self._refusal(claim, note)
        self._first = note.first
        notes = f"{self.path}/{_NOTES}"
        self._storage.make_folder(notes)
        taken = replace(note, incarnation=claim.incarnation, token=claim.token)
        self._storage.write(f"{notes}/{_name_of(claim.writer)}{_NOTE}", taken.to_bytes())
        aside = self._aside(claim.writer)
        for name in self._storage.names(aside):
            self._storage.remove(f"{aside}/{name}")
        self._storage.make_folder(f"{aside}/{claim.name}")
        self._claim = claim
        self._settle_later(claim.writer, next_epoch, remove_later)

    def epochs(self) -> list[int]:
        """Give the epochs that have a folder, in order; the path must be the claim's alone."""
        return sorted(number - self._first for number in self._numbers())

    def files(self, epoch: int) -> list[str]:
        """Give the paths of an epoch's files, in the order of their names."""
        assert self._storage is not None
        folder = self._folder(epoch)
        names = [n for n in self._storage.names(folder) if n[0] not in "._"]
        return [f"{folder}/{name}" for name in names]

    def drop(self, epoch: int) -> None:
        """Remove an epoch's folder, at once where folders can be moved."""
        assert self._storage is not None and self._claim is not None
        folder = self._folder(epoch)
        if self._storage.atomic_moves and self._storage.exists(folder):
            gone = f"{self._aside(self._claim.writer)}/{self._claim.name}/dropped-{epoch}"
            self._move(folder, gone)
            self._storage.remove(gone)
        else:
            self._storage.remove(folder)

    def staging(self, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch, as workers know it."""
        return self._attempt(attempt).removeprefix("file://")

    def take(
        self, epoch: int, attempt: str, names: Sequence[str], fence: Callable[[], None]
    ) -> None:
        """Make files that workers wrote the folder of an epoch, in place of what is there.

        Until the folder has its name, readers see nothing; a crash in between leaves an epoch that
        no manifest names, and it is run again.

        Args:
            epoch: its number.
            attempt: by which they were written.
            names: of the files that count.
            fence: raises if the checkpoint has a newer driver.
        """
        assert self._storage is not None
        apart = self._attempt(attempt)
        if names:
            self._storage.make_folder(f"{apart}/whole")
            for name in names:
                self._move(f"{apart}/{name}", f"{apart}/whole/{name}")
        self._exchange(epoch, attempt, bool(names), fence)

    def write(
        self, frame: Any, epoch: int, attempt: str, empty: bool, fence: Callable[[], None]
    ) -> None:
        """Replace the folder of an epoch; an epoch without rows has none."""
        assert self._storage is not None
        aside = self._storage.atomic_moves
        if not empty:
            if not aside:
                self._check(fence)
            place = f"{self._attempt(attempt)}/whole" if aside else self._folder(epoch)
            out = frame.write.mode("overwrite").options(**_replacing(self._options))
            if self._partition_by:
                out = out.partitionBy(*self._partition_by)
            out.format(self._format).save(place)
        if aside:
            self._exchange(epoch, attempt, not empty, fence)
        elif empty:
            self._check(fence)
            self._storage.remove(self._folder(epoch))

    def _exchange(
        self, epoch: int, attempt: str, filled: bool, fence: Callable[[], None]
    ) -> None:
        """Steps 3 and 4."""
        assert self._storage is not None and self._claim is not None
        folder, apart = self._folder(epoch), self._attempt(attempt)
        there = self._storage.exists(folder)
        if there or filled:
            self._check(fence)
            self._storage.make_folder(apart)
            # Once more: whoever was overtaken before has made that folder again.
            self._check(fence)
        if there:
            self._move(folder, f"{apart}/before")
        if filled:
            self._move(f"{apart}/whole", folder)
        # Epochs do not overlap: what other attempts of this driver have left is dead too.
        mine = f"{self._aside(self._claim.writer)}/{self._claim.name}"
        for name in self._storage.names(mine):
            self._storage.remove(f"{mine}/{name}")

    def _check(self, fence: Callable[[], None]) -> None:
        """Refuse to go on if a newer driver has claimed the checkpoint, or this path."""
        assert self._claim is not None
        fence()
        note = self._note(self._claim.writer)
        if note is None or not note.belongs_to(self._claim):
            raise self._refusal(self._claim, note)

    def _move(self, source: str, target: str) -> None:
        assert self._storage is not None and self._claim is not None
        try:
            self._storage.move(source, target)
        except FileNotFoundError as error:
            raise self._refusal(self._claim, self._note(self._claim.writer)) from error

    def _refusal(self, claim: Claim, note: Note | None) -> CheckpointError:
        if note is None or note.belongs_to(claim):
            what = "what this run has set aside there is gone: somebody has removed or replaced it"
        else:
            what = f"start {note.incarnation} of the pipeline has taken it over"
        return CheckpointError(
            f"WriteToSpark: start {claim.incarnation} of the pipeline may not write to {self.path} "
            f"any more: {what}. Nothing of this epoch counts; if no other driver runs, start again"
        )

    def _settle_later(self, writer: str, next_epoch: int, remove: bool) -> None:
        """See that no epochs of this run lie there that its checkpoint does not know."""
        assert self._storage is not None
        later = later_folders(self._numbers(), self._notes(), writer, next_epoch)
        if not later:
            return
        numbers = ", ".join(str(number) for number in later[:5]) + (", ..." if later[5:] else "")
        if not remove:
            msg = (
                f"WriteToSpark: {self.path} holds epochs of this run that its checkpoint does not "
                f"know: {len(later)} folders ({EPOCH}={numbers}) after epoch {next_epoch - 1}, the "
                "last that the checkpoint counts. An older copy of the checkpoint was restored; "
                "their rows would come a second time. Restore the copy of this path that belongs "
                "to it, or give --remove_later_epochs, which removes these folders and writes "
                "their rows anew"
            )
            raise CheckpointError(msg)
        for number in later:
            self._storage.remove(self._numbered(number))

    def _begun(self, writer: str, mode: Mode, fresh: bool) -> Note:
        """Make the place ready for a writer that has left no note."""
        assert self._storage is not None
        earlier = self._earlier_note(writer)
        if isinstance(earlier, Note):
            return earlier
        first = 0
        if not fresh and self._numbers():
            # One of them may be of an epoch that the run writes again.
            msg = (
                f"WriteToSpark: {self.path} holds epochs, but no note of this run below {_NOTES}/ "
                "says which of them are its own. Restore the note, or go on at a path where no "
                "epochs are"
            )
            raise CheckpointError(msg)
        if fresh and self._is_taken():
            if mode is Mode.ERROR and earlier is None:
                msg = (
                    f"WriteToSpark: there is already something at {self.path}; write elsewhere, "
                    "or give mode='append' or mode='overwrite'"
                )
                raise OptionError(msg)
            if mode is Mode.OVERWRITE:
                for name in self._storage.names(self.path):
                    self._storage.remove(f"{self.path}/{name}")
            elif mode is Mode.APPEND:
                first = 1 + max(self._numbers(), default=-1)
        return Note(writer=writer, first=first)

    def _is_taken(self) -> bool:
        """Whether there is anything but an empty folder for notes."""
        assert self._storage is not None
        names = self._storage.names(self.path)
        return names not in ([], [_NOTES]) or bool(self._storage.names(f"{self.path}/{_NOTES}"))

    def _earlier_note(self, writer: str) -> Note | bool | None:
        """Read a note of version 0.1, a folder that Spark wrote; True: it was never finished."""
        assert self._storage is not None
        folder = f"{self.path}/{_NOTES}/{_name_of(writer)}"
        if not self._storage.is_folder(folder):
            return None
        parts = [name for name in self._storage.names(folder) if name.startswith("part-")]
        text = b"".join(self._storage.read(f"{folder}/{name}") for name in parts)
        return _parsed(folder, text) if text else True

    def _note(self, writer: str) -> Note | None:
        assert self._storage is not None
        path = f"{self.path}/{_NOTES}/{_name_of(writer)}{_NOTE}"
        try:
            return _parsed(path, self._storage.read(path))
        except FileNotFoundError:
            return None

    def _notes(self) -> list[Note]:
        assert self._storage is not None
        notes = f"{self.path}/{_NOTES}"
        names = [n for n in self._storage.names(notes) if n.endswith(_NOTE) and n[0] != "."]
        found = {n: _parsed(f"{notes}/{n}", self._storage.read(f"{notes}/{n}")) for n in names}
        # A copy of a note under another name is nobody's.
        return [note for name, note in found.items() if name == _name_of(note.writer) + _NOTE]

    def _numbers(self) -> list[int]:
        """Give the numbers of all folders that are there."""
        assert self._storage is not None
        found = (_FOLDER.fullmatch(name) for name in self._storage.names(self.path))
        return [int(match.group(1)) for match in found if match]

    def _folder(self, epoch: int) -> str:
        return self._numbered(self._first + epoch)

    def _numbered(self, number: int) -> str:
        return f"{self.path}/{EPOCH}={number:0{_DIGITS}d}"

    def _aside(self, writer: str) -> str:
        """Give the folder of all files of a writer that are not in place yet."""
        return f"{self.path}/{_NOTES}/{_name_of(writer)}-files"

    def _attempt(self, attempt: str) -> str:
        assert self._claim is not None
        return f"{self._aside(self._claim.writer)}/{self._claim.name}/{attempt}"


def _parsed(path: str, data: bytes) -> Note:
    try:
        return Note.from_bytes(data)
    except ValueError as error:
        msg = (
            f"{path} is damaged: {error}. Restore it, or write to another path with a new "
            "checkpoint; without it nobody knows which folders belong to which run"
        )
        raise CheckpointError(msg) from error


def _name_of(writer: str) -> str:
    return hashlib.sha256(writer.encode()).hexdigest()[:16]


def _replacing(options: Mapping[str, str]) -> dict[str, str]:
    """Replace all, also in a session that keeps the partitions which a write has no rows for."""
    return {**options, "partitionOverwriteMode": "static"}
