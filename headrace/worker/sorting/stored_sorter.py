"""The sorter of a stream: what waits outlives the epoch, in the shard's store."""

from __future__ import annotations

from headrace.state.store import Store
from headrace.worker.beam_types import WindowedCoder
from headrace.worker.sorting.entries import Entries
from headrace.worker.sorting.rows import StoredRows
from headrace.worker.sorting.sorter import TimeSorter


class StoredSorter(TimeSorter):
    """The elements of one ParDo on one shard that wait for their turn, epoch after epoch.

    An epoch is: attach, add as often as needed, release, ask for the hold, flush. An epoch that
    fails in the middle leaves nothing behind: the next attach begins anew.
    """

    def __init__(
        self, stage: int, windowed_coder: WindowedCoder, lateness: int, memory_bytes: int
    ) -> None:
        self._stored = StoredRows(stage)
        super().__init__(
            Entries(windowed_coder, keyed=True), self._stored, lateness, memory_bytes
        )

    def attach(self, store: Store, epoch: int) -> None:
        """Begin an epoch."""
        self._stored.attach(store)
        self.begin(epoch)

    def flush(self) -> None:
        """End the epoch: write what waits to the store and forget it."""
        self.pack()
