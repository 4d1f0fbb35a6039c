"""What takes a stage's output, as batched chains see it: the writers are in `exchange`."""

from __future__ import annotations

from typing import Protocol, TypeGuard

from headrace.worker.batched.batches import Meta
from headrace.worker.beam_types import Element, Value
from headrace.worker.columns.values import ColumnValues


class Writer(Protocol):
    """One channel's writer."""

    def process(self, element: Element) -> None:
        """Take one windowed value."""

    def write(self, values: list[Value], meta: Meta) -> None:
        """Take a batch."""

    def flush(self) -> None:
        """Ship what is held."""


class ColumnTaker(Writer, Protocol):
    """A writer that takes batches of columns too."""

    @property
    def takes_columns(self) -> bool:
        """Whether it is the better for it."""

    def write_columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""


def takes_columns(writer: Writer) -> TypeGuard[ColumnTaker]:
    """Whether a writer is to be given columns as they are."""
    return bool(getattr(writer, "takes_columns", False))
