"""The driver's side of a checkpoint folder: what counts, what may go; `fencing` says who may write.

`open` locks the folder (local ones), checks that the pipeline fits and claims an incarnation; where
there is no lock, `shut_out` keeps older drivers from committing. Of the steps of a commit, which
`headrace.engine.stream` numbers, two happen here: before the sinks take the rows (3),
`check_newest` sees that there is no newer driver, and `commit` creates the manifest (4). After that
`sweep` deletes old manifests, then the files that only these named.

Knows nothing of Spark and Beam. Times are handed in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from headrace.engine.checkpoint.exclusive import created
from headrace.engine.checkpoint.fencing import (
    Lock,
    claimed,
    incarnation_name,
    locked,
    newest_incarnation,
)
from headrace.engine.checkpoint.identity import Description, difference
from headrace.engine.checkpoint.manifests import (
    KEPT_MANIFESTS,
    LogRecord,
    Manifest,
    SourceRecord,
    orphans,
    retired,
    seal,
)
from headrace.engine.checkpoint.reading import (
    PIPELINE,
    epochs_of,
    manifest_name,
    read_description,
    read_manifest,
)
from headrace.errors import CheckpointError
from headrace.state.chain import Chain
from headrace.state.files import Files, shown
from headrace.state.trust import check_trusted

#: Commits between two rounds of deleting what old manifests named: no folder is listed for it.
SWEEP_COMMITS = 10
#: Commits between two searches for files of failed attempts, which list all of `state/`.
SEARCH_COMMITS = 2_000

_log = logging.getLogger(__name__)


class Checkpoint:
    """A checkpoint folder in the hands of a driver. Made by `open`; close it at the end."""

    def __init__(
        self, files: Files, lock: Lock | None, description: Description, incarnation: int
    ) -> None:
        self.files = files
        self.incarnation = incarnation
        self.newest: Manifest | None = None  # of the last epoch that counts; None: none does
        self._description = description
        self._digest = description.digest()
        self._lock = lock
        self.is_locked = lock is not None  # no older driver can be alive
        self._epochs = epochs_of(files)
        self._known: dict[int, Manifest] = {}  # manifests that are kept and can be read
        self._to_sweep = self._to_search = 0
        self._take_stock()

    @classmethod
    def open(cls, location: str, description: Mapping[str, Any], *, now: int) -> Checkpoint:
        """Take a checkpoint folder over, or begin one.

        Args:
            location: a folder's path, or the URI of one on an object store or a file system.
            description: what the pipeline is, as `Description.to_json` gives it.
            now: processing time in microseconds, to be told to people.
        """
        new = Description.from_json(description)
        try:
            files = Files(location)
            if files.is_local:
                check_trusted(Path(files.path("")))
            lock = locked(files)
        except (OSError, ValueError) as e:
            msg = f"{shown(location)} cannot be a checkpoint folder: {e}"
            raise CheckpointError(msg) from e
        if not files.exclusive:
            _log.warning(
                "the file system of checkpoint %s cannot create a file on the condition that there "
                "is none: see to it that no two drivers use this checkpoint at once",
                shown(location),
            )
        try:
            # Looked at before the claim: a pipeline that does not belong here must not stop the
            # one that does and may be running.
            old = _fitting(files, new)
            number = claimed(files, now)
            if old is None or old.to_json() != new.to_json():
                files.write(PIPELINE, seal(new.to_json()))
            return cls(files, lock, new, number)
        except BaseException as e:
            if lock is not None:
                lock.close()
            if isinstance(e, OSError):
                msg = f"{shown(location)} cannot be a checkpoint folder: {e}"
                raise CheckpointError(msg) from e
            raise

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another driver have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def next_epoch(self) -> int:
        """The epoch that is to be committed next."""
        return 0 if self.newest is None else self.newest.epoch + 1

    def manifest(
        self,
        *,
        partitions: Mapping[str, Chain],
        watermarks: Mapping[str, Any],
        sources: SourceRecord,
        metrics: bytes = b"",
        batches: Mapping[str, int],
        logs: Mapping[str, LogRecord] = MappingProxyType({}),
    ) -> Manifest:
        """Make the manifest of the next epoch; `commit` makes it count."""
        return Manifest(
            epoch=self.next_epoch, incarnation=self.incarnation, shards=self._description.shards,
            pipeline=self._digest, partitions=partitions, watermarks=watermarks, sources=sources,
            metrics=metrics, batches=batches, logs=logs,
        )

    def commit(self, manifest: Manifest) -> None:
        """Make an epoch count: step 4 of the protocol. Another driver's epoch is never replaced."""
        if (manifest.epoch, manifest.incarnation) != (self.next_epoch, self.incarnation):
            msg = (
                f"epoch {manifest.epoch} of incarnation {manifest.incarnation} was to be committed "
                f"where epoch {self.next_epoch} of incarnation {self.incarnation} is next"
            )
            raise CheckpointError(msg)
        self.check_newest()
        if not created(self.files, manifest_name(manifest.epoch), manifest.to_bytes()):
            raise self._taken_over()
        # One that slept since it looked finds the name free once the newer driver has swept it.
        if self.files.exists(self.next_driver) and max(epochs_of(self.files)) > manifest.epoch:
            raise self._taken_over()
        self._note(manifest)

    @property
    def next_driver(self) -> str:
        """The name of the file that tells of a newer driver.

        Numbers are claimed without gaps and never deleted: the next one tells of all newer ones.
        """
        return incarnation_name(self.incarnation + 1)

    def check_newest(self) -> None:
        """Raise a CheckpointError if a newer driver has taken the checkpoint over."""
        if self.files.exists(self.next_driver):
            raise self._taken_over()

    def shut_out(self, first: Callable[[], Manifest]) -> list[int]:
        """Shut out a driver that may still be committing, where no lock keeps it away.

        The next epoch is given away: its manifest says what the one before said, so that whoever
        was about to commit that epoch finds it taken, however long it has slept. An epoch that it
        committed a moment ago counts. Sinks may hold rows of the epoch given away: they must be
        told that it has none, which may be done again.

        Args:
            first: makes the manifest of epoch 0, where there is none yet.

        Returns:
            The epochs at the end that were given away, by this driver and by those before it.
        """
        while not self.is_locked:
            before = self.newest
            manifest = first() if before is None else before
            taken = replace(
                manifest, epoch=self.next_epoch, incarnation=self.incarnation, takeover=True
            )
            self.check_newest()
            if created(self.files, manifest_name(taken.epoch), taken.to_bytes()):
                self._note(taken)
                break
            self._epochs, self._known = epochs_of(self.files), {}
            self._take_stock()
        given: list[int] = []
        for epoch in reversed(self._epochs):
            if not (self._known.get(epoch) or read_manifest(self.files, epoch)).takeover:
                break
            given.insert(0, epoch)
        return given

    def _note(self, manifest: Manifest) -> None:
        """Remember what counts now."""
        self.newest = manifest
        self._epochs.append(manifest.epoch)
        self._known[manifest.epoch] = manifest
        self._to_sweep -= 1
        self._to_search -= 1

    def sweep(self) -> int:
        """Delete what is not needed any more, if it is time to; give how many files went.

        Call it after every commit. Never fails an epoch: what could not be deleted is tried again.
        """
        if self._to_sweep > 0:
            return 0
        kept = [self._known.get(epoch) for epoch in self._epochs[-KEPT_MANIFESTS:]]
        whole = [manifest for manifest in kept if manifest is not None]
        if len(whole) < len(kept):
            return 0  # one cannot be read: nobody knows which files it names
        self._to_sweep = SWEEP_COMMITS
        try:
            return self._sweep(whole)
        except OSError as e:
            _log.warning(
                "old files of checkpoint %s could not be deleted: %s", self.files.location, e
            )
            return 0

    def _sweep(self, kept: list[Manifest]) -> int:
        leaving = self._epochs[:-KEPT_MANIFESTS]
        gone = [manifest_name(epoch) for epoch in leaving]
        # Manifests first: one that is there can be relied on, also if this is cut short.
        self.files.delete(gone)
        if self._to_search <= 0:
            found = [*self.files.names("state"), *self.files.unfinished("state")]
            old = orphans([*found, *self.files.unfinished("manifests")], kept)
        else:
            old = sorted(retired((self._known[epoch] for epoch in leaving), kept))
        self.files.delete(old)
        if self._to_search <= 0:
            self._to_search = SEARCH_COMMITS
        self._epochs = self._epochs[-KEPT_MANIFESTS:]
        self._known = {manifest.epoch: manifest for manifest in kept}
        return len(gone) + len(old)

    def _take_stock(self) -> None:
        """Read the manifests that are kept; the newest must be good, others only stop the sweep."""
        for epoch in self._epochs[-KEPT_MANIFESTS:]:
            try:
                self._known[epoch] = read_manifest(self.files, epoch)
            except CheckpointError as e:
                if epoch == self._epochs[-1]:
                    raise
                _log.warning("no old files are deleted for now: %s", e)
        if self._epochs:
            self.newest = self._known[self._epochs[-1]]

    def _taken_over(self) -> CheckpointError:
        newest = newest_incarnation(self.files)
        if newest.number == self.incarnation:  # one that was already committing when we claimed
            return CheckpointError(
                f"epoch {self.next_epoch} of checkpoint {self.files.location} was committed by an "
                f"older driver while {newest} ran it; start again to go on after that epoch"
            )
        return CheckpointError(
            f"another driver, {newest}, has taken checkpoint {self.files.location} over; "
            f"this one, incarnation {self.incarnation}, stops"
        )


def _fitting(files: Files, new: Description) -> Description | None:
    """Give the old description; CheckpointError if the new pipeline cannot use its state."""
    old, epochs = read_description(files), epochs_of(files)
    newest = read_manifest(files, epochs[-1]) if epochs else None
    advice = "Use a new checkpoint folder, or restore the old pipeline"
    if old is None and newest is not None and newest.pipeline != new.digest():
        msg = (
            f"checkpoint {files.location} belongs to another pipeline, and {PIPELINE}, which would "
            f"tell the differences, is not there. {advice}"
        )
        raise CheckpointError(msg)
    if old is not None and newest is not None and (found := difference(old, new)):
        listed = "".join(f"\n  * {sentence}" for sentence in found)
        msg = (
            f"checkpoint {files.location} was made by another pipeline, {old.name!r}; "
            f"its state does not fit:{listed}\n{advice}"
        )
        raise CheckpointError(msg)
    return old
