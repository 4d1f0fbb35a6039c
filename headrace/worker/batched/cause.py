"""Which element a stage is about: what it puts out carries that element's order number on.

Beam's operations hand outputs on by plain calls, so the element that caused one is whatever was
handed in last. Batches bring the numbers of their elements along, in `Columns`; here stands the
number for what goes through Beam's operations one by one. A task has one stage at work at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Cause:
    """The order number of what is being processed."""

    number: int | None = None  # None: nothing that has a number, or the run is not ordered


@contextmanager
def caused_by(number: int | None) -> Iterator[None]:
    """Let what is put out in this block carry this number."""
    before, Cause.number = Cause.number, number
    try:
        yield
    finally:
        Cause.number = before
