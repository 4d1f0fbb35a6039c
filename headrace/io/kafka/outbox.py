"""Keeps the messages of epochs until they are published: a folder of Parquet files for each epoch.

It lies below the checkpoint and is claimed by one driver like the folder of any sink (`places`).
The order of an epoch's messages is that of its files' names and of the rows in them, and stays.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.io.places import EpochFolders, Mode
from headrace.io.sinks import Delivery
from headrace.io.storage import LocalStorage, Storage, storage_of

#: The file that says that the broker has a marker.
_MARKED = "marked"
#: Rows that are made objects together: few enough to stay in the processor's cache.
_PART = 2_048


def _values(column: pa.Array) -> list[Any]:
    """Give a column's values; most columns of most messages are empty."""
    if column.null_count == len(column):
        return [None] * len(column)
    found: list[Any] = column.to_pylist()
    return found


class Rows:
    """Rows of batches as tuples, made some at a time: as objects they take five times the memory.

    Args:
        batches: of columns.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return sum(batch.num_rows for batch in self._batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            for start in range(0, batch.num_rows, _PART):
                part = batch.slice(start, _PART)
                yield from zip(*map(_values, part.columns), strict=True)


class ParquetOutbox:
    """The outbox of one sink.

    Args:
        path: its folder, as Spark knows it.
        session: whose idea of paths holds.
    """

    def __init__(self, path: str, session: Any) -> None:
        self.path = path.rstrip("/")
        self._session = session
        self._storage: Storage = storage_of(session, self.path)
        self._folders = EpochFolders(self.path, "parquet", {}, (), self._storage)
        # An epoch is set aside while the one before it is published and removed; both move folders.
        self._moving = threading.Lock()

    def claim(self, delivery: Delivery) -> None:
        """Take the outbox for a driver."""
        self._folders.claim(
            self._session, delivery.claim, Mode.OVERWRITE, fresh=delivery.fresh,
            next_epoch=delivery.epoch, remove_later=delivery.remove_later,
        )

    def staging(self, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch."""
        return self._folders.staging(attempt)

    def take(self, delivery: Delivery, names: Sequence[str]) -> None:
        """Set files aside that workers wrote, under their epoch's number."""
        with self._moving:
            self._folders.take(delivery.epoch, delivery.attempt, names, delivery.fence)
        if names:
            self._sync(delivery.epoch)

    def write(self, frame: Any, delivery: Delivery) -> None:
        """Set the rows of a DataFrame aside, under their epoch's number."""
        empty = frame.isEmpty() if delivery.empty is None else delivery.empty
        with self._moving:
            self._folders.write(frame, delivery.epoch, delivery.attempt, empty, delivery.fence)
        if not empty:
            self._sync(delivery.epoch)

    def epochs(self) -> list[int]:
        """Give the epochs that have messages, in order."""
        return self._folders.epochs()

    def messages(self, epoch: int, start: int, most: int) -> Iterator[tuple[Rows, bool]]:
        """Give an epoch's messages as tuples from an index on, at most so many at a time.

        The last ones say so, and if there are none left after all, nothing says so.
        """
        held: list[pa.RecordBatch] = []
        room = most
        for batch in self._from(epoch, start):
            left = batch
            while left.num_rows > room:
                yield Rows([*held, left.slice(0, room)]), False
                held, left, room = [], left.slice(room), most
            held.append(left)
            room -= left.num_rows
        yield Rows(held), True

    def remove(self, epoch: int) -> None:
        """Forget an epoch's messages."""
        with self._moving:
            self._folders.drop(epoch)

    def is_marked(self) -> bool:
        """Whether the broker has had a marker of this sink."""
        return self._storage.exists(f"{self.path}/{_MARKED}")

    def mark(self) -> None:
        """Note that the broker has a marker."""
        if not self.is_marked():
            self._storage.write(f"{self.path}/{_MARKED}", b"")

    def _from(self, epoch: int, start: int) -> Iterator[pa.RecordBatch]:
        for path in self._folders.files(epoch):
            with pq.ParquetFile(self._opened(path)) as file:
                count = file.metadata.num_rows
                if start >= count:
                    start -= count
                    continue
                for batch in file.iter_batches():
                    if start < batch.num_rows:
                        yield batch.slice(start)
                    start = max(0, start - batch.num_rows)

    def _opened(self, path: str) -> Any:
        if isinstance(self._storage, LocalStorage):
            return self._storage.location(path)
        return pa.BufferReader(self._storage.read(path))

    def _sync(self, epoch: int) -> None:
        """Have an epoch's files on the disk before the manifest counts on them."""
        if not isinstance(self._storage, LocalStorage):
            return
        paths = [self._storage.location(path) for path in self._folders.files(epoch)]
        folders = {os.path.dirname(path) for path in paths}
        for path in (*paths, *folders, self._storage.location(self.path)):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

