"""Where the rows of elements that wait are kept: the shard's store, or this machine's disk.

The store is for streaming: what waits there is part of the checkpoint. The disk is for the only
epoch of a batch, when its elements outgrow memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import HeadraceError
from headrace.state.layout import Kind, moment, stamp, time_of, until
from headrace.state.mixed import fresh_name
from headrace.state.store import Store
from headrace.worker.grouping.grouper import first_time
from headrace.worker.grouping.spill import SpillRuns
from headrace.worker.sorting.entries import Row


class StoredRows:
    """Rows of the shard's store, by the time at which the first element of a row is due."""

    def __init__(self, stage: int) -> None:
        self._stage = stage
        self._store: Store | None = None

    def attach(self, store: Store) -> None:
        """Begin an epoch."""
        self._store = store

    def _open(self) -> Store:
        if self._store is None:
            msg = "elements that wait were asked for outside an epoch: attach a store first"
            raise HeadraceError(msg)
        return self._store

    def write(self, rows: Iterator[Row]) -> None:
        """Keep rows."""
        store = self._open()
        for row in rows:
            store.put(fresh_name(Kind.SORTED, self._stage, row.first), row.data)

    def take(self, bound: int) -> Iterator[tuple[int, bytes]]:
        """Give the rows whose first element is due before `bound`, in order; forget them."""
        store = self._open()
        for name, data in store.scan(*until(Kind.SORTED, self._stage, bound - 1)):
            store.delete(name)
            yield time_of(name), data

    def first(self) -> int | None:
        """Say when the first element of all is due."""
        return first_time(self._open(), Kind.SORTED, self._stage)


class SpilledRows:
    """Sorted runs on disk, which are read once."""

    def __init__(self) -> None:
        self._runs = SpillRuns()

    def write(self, rows: Iterator[Row]) -> None:
        """Keep rows, as one run."""
        self._runs.write((stamp(row.first), [(row.elements, row.data)]) for row in rows)

    def take(self, bound: int) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002 (all is due at the end)
        """Give all rows, in order; forget them."""
        runs, self._runs = self._runs, SpillRuns()
        if runs:
            for name, chunks in runs.groups():
                for chunk in chunks:
                    yield moment(name), chunk.load()

    def first(self) -> int | None:
        """Nothing is left when somebody asks: a batch has one release, of everything."""
        return None
