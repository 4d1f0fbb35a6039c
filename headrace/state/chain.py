"""Where a state partition is written down: a snapshot, then change logs.

Decides which files a copy of the state still lacks. Plain frozen data that travels in manifests;
reads no file and opens no store.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any
from zlib import crc32

from headrace.errors import CheckpointError

#: Versions a chain remembers by their mark. A copy that is older by more than this is built anew,
#: because nothing proves any more that it comes from the same past.
PAST_VERSIONS = 32
#: The version of a copy that stands between two versions.
BETWEEN = -1


def mark_of(name: str) -> int:
    """Give the mark of the version that a log of this name made."""
    return crc32(name.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One file of a chain."""

    name: str  # path below the checkpoint folder
    size: int  # bytes of the file
    crc: int  # checksum of the whole file, checked when it is read
    rows: int  # rows in it, deletions counted
    until: int  # the version that is reached once this file is applied
    tier: int = 0  # how often what is in it has been merged


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedVersion:
    """How far a copy of a state partition has come; written down beside the copy."""

    link: str  # the last file applied
    version: int  # `BETWEEN` where only a part of a snapshot is applied
    mark: int  # of that version

    def encode(self) -> bytes:
        """Give the bytes that are kept beside the copy."""
        return f"{self.version} {self.mark} {self.link}".encode()

    @staticmethod
    def decode(data: bytes) -> AppliedVersion:
        """Read them back."""
        version, mark, link = data.decode().split(" ", 2)
        return AppliedVersion(link=link, version=int(version), mark=int(mark))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """All files of a state partition at one version."""

    base: tuple[Link, ...] = ()  # the parts of the snapshot, in the order of names; none: no rows
    logs: tuple[Link, ...] = ()  # what changed since, oldest first
    version: int = 0  # counts the seals that changed something
    past: tuple[int, ...] = ()  # marks of the last versions, newest last

    @property
    def links(self) -> tuple[Link, ...]:
        """All files in the order they are applied."""
        return self.base + self.logs

    def names(self) -> tuple[str, ...]:
        """Give the names of all files: what may not be deleted."""
        return tuple(link.name for link in self.links)

    def log_bytes(self) -> int:
        """Give the size of all logs together."""
        return sum(link.size for link in self.logs)

    def base_bytes(self) -> int:
        """Give the size of the snapshot."""
        return sum(link.size for link in self.base)

    def owed(self, at: AppliedVersion | None) -> tuple[Link, ...] | None:
        """Give the files a copy lacks; None if it cannot become this version by adding files.

        A merged log brings a copy to its end from any version inside its span, since it holds the
        last value of every row that changed there. A snapshot only adds rows, so it serves an
        empty copy alone.
        """
        if at is None:
            return self.links
        for position, link in enumerate(self.links):
            if link.name == at.link:
                return self.links[position + 1 :]
        if at.version < 0 or self._mark(at.version) != at.mark:
            return None
        if any(link.until > at.version for link in self.base):
            return None
        return tuple(link for link in self.logs if link.until > at.version)

    def applied(self, link: Link) -> AppliedVersion:
        """Say where a copy stands once it has applied everything up to this link."""
        whole = link not in self.base[:-1]
        mark = self._mark(link.until)
        if not whole or mark is None:
            return AppliedVersion(link=link.name, version=BETWEEN, mark=0)
        return AppliedVersion(link=link.name, version=link.until, mark=mark)

    def extended(self, log: Link) -> Chain:
        """Give the chain with one more version."""
        past = (*self.past, mark_of(log.name))[-PAST_VERSIONS:]
        return replace(self, logs=(*self.logs, log), version=log.until, past=past)

    def to_json(self) -> dict[str, Any]:
        """Give plain data for a manifest."""
        return {
            "version": self.version,
            "base": [asdict(link) for link in self.base],
            "logs": [asdict(link) for link in self.logs],
            "past": "".join(f"{mark:08x}" for mark in self.past),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Chain:
        """Read what `to_json` gave."""
        try:
            past = data["past"]
            return Chain(
                version=int(data["version"]),
                base=tuple(Link(**link) for link in data["base"]),
                logs=tuple(Link(**link) for link in data["logs"]),
                past=tuple(int(past[at : at + 8], 16) for at in range(0, len(past), 8)),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = (
                f"a manifest names a state partition in a form that this version of headrace "
                f"cannot read: {error!r}. Run the pipeline with the version that wrote "
                "the checkpoint."
            )
            raise CheckpointError(msg) from error

    def _mark(self, version: int) -> int | None:
        back = self.version - version
        return self.past[-1 - back] if 0 <= back < len(self.past) else None
