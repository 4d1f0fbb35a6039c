"""A sink that keeps rows in the test's memory, each epoch once however often it is written."""

from __future__ import annotations

from typing import Any

from headrace.io.write import WriteToSpark


class Collected:
    """Keeps the rows of a pipeline, epoch by epoch, as a good database would.

    An epoch that comes a second time, as it may after a crash, replaces what it wrote before.
    """

    def __init__(self) -> None:
        self.epochs: dict[int, list[tuple[Any, ...]]] = {}

    def sink(self, schema: str) -> WriteToSpark:
        """Give the write that fills it; `schema` as in `WriteToSpark`."""

        def take(frame: Any, epoch: int) -> None:
            self.epochs[epoch] = [tuple(row) for row in frame.collect()]

        return WriteToSpark(function=take, schema=schema)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows, sorted."""
        return sorted(row for rows in self.epochs.values() for row in rows)
