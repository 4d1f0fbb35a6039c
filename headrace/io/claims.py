"""Decides who may write epochs at a path, and which of the folders there are whose. Pure.

A run claims its path when its driver starts, and leaves a note of it: which folder has its epoch 0,
and which start of the driver is the newest. Opens no file; `places` does what is decided here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One start of a driver, as its sinks know it."""

    writer: str  # names the sink of this run and no other, after a restart too
    incarnation: int  # counts the starts on a checkpoint
    token: str  # tells two starts of one number apart: those of a checkpoint and of its copy

    @property
    def name(self) -> str:
        """Names the claim's folder for files that are not in place yet."""
        return f"{self.incarnation:08d}-{self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What lies beside the folders of a writer's epochs."""

    writer: str
    first: int  # the number of the folder of its epoch 0
    incarnation: int = 0  # the newest; 0: written before notes had one
    token: str = ""

    def to_bytes(self) -> bytes:
        """Give the file, with a checksum of what it says."""
        fields = asdict(self)
        return json.dumps({**fields, "sha256": _sum(fields)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Note:
        """Read the file; ValueError says what is wrong with it."""
        try:
            fields = json.loads(data)
            # Version 0.1 had neither sum nor incarnation, and whole notes all the same.
            if fields.pop("sha256", None) != _sum(fields) and "incarnation" in fields:
                msg = "its checksum does not fit"
                raise ValueError(msg)
            return cls(**fields)
        except (KeyError, TypeError, AttributeError) as error:
            msg = f"it is no note of a sink ({error!r})"
            raise ValueError(msg) from error

    def belongs_to(self, claim: Claim) -> bool:
        """Whether this claim is the newest."""
        return (self.incarnation, self.token) == (claim.incarnation, claim.token)


def overtaken(note: Note, claim: Claim) -> bool:
    """Whether a claim comes too late: a newer start of the driver has been here."""
    return note.incarnation > claim.incarnation


def later_folders(
    numbers: Iterable[int], notes: Sequence[Note], writer: str, next_epoch: int
) -> list[int]:
    """Give the folders of a writer's epochs that come after the one it writes next.

    A crash leaves at most the folder of the next epoch. Where there are more, the checkpoint is
    older than what was written: it was restored from a copy.

    Args:
        numbers: of all folders that are there.
        notes: of all writers; a folder is that of the last one that began at its number or before.
        writer: whose folders are wanted.
        next_epoch: the epoch that is to be written next.
    """
    firsts = sorted((note.first, note.writer == writer) for note in notes)
    mine = [first for first, own in firsts if own]
    if not mine:
        return []
    (first,) = mine
    following = min((other for other, own in firsts if not own and other > first), default=None)
    return sorted(
        number
        for number in numbers
        if number > first + next_epoch and (following is None or number < following)
    )


def _sum(fields: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
