"""How what triggers remember lies in the store: a record per key or window, values beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headrace.plan.lateness import over_from
from headrace.state.layout import Kind, head
from headrace.state.store import Store
from headrace.worker.batched.window_keys import last_moment
from headrace.worker.beam_types import Coder, Value, Window
from headrace.worker.grouping.grouper import Compact
from headrace.worker.grouping.value_bytes import ValueBytes


class Indexed(NamedTuple):
    """Under which times a record stands in the indexes; None where it does not."""

    event: int | None
    clock: int | None
    hold: int | None


NOWHERE = Indexed(None, None, None)


class Cell:
    """What is known under one window id."""

    __slots__ = ("facts", "fresh", "hold", "new", "rows", "timers")

    def __init__(
        self,
        timers: dict[tuple[str, str], int],
        facts: dict[str, Value],
        hold: int | None,
        fresh: bool,
        rows: int,
    ) -> None:
        self.timers = timers  # by name and time domain
        self.facts = facts  # by tag: a count, or the values added
        self.hold = hold
        self.fresh = fresh  # whether there are values that no pane has carried yet
        self.rows = rows  # rows of values in the store
        self.new: list[Value] = []  # values that are not there yet


class Known:
    """A window that has state, and the ids its parts have it under."""

    __slots__ = ("ids", "window")

    def __init__(self, window: Window, ids: list[int]) -> None:
        self.window = window
        self.ids = ids


class TriggerRows:
    """Where a stage's records and their values lie in the store of this epoch."""

    def __init__(
        self,
        stage: int,
        window_coder: Coder,
        values: ValueBytes,
        lateness: int,
        join: Callable[[int, int], int],
        compact: Compact | None = None,
        keeps_fired: bool = True,
    ) -> None:
        self.window_impl = window_coder.get_impl()
        self.compact = compact  # given where values are accumulators: makes one of several
        self.keeps_fired = keeps_fired  # what a pane has carried is asked for again
        self.join = join  # of two holds of one window
        self.values = values
        self.record_head = head(Kind.TRIGGER, stage)
        self._values_head = head(Kind.TRIGGER_VALUES, stage)
        self._lateness = lateness
        self.store: Store

    def expiry(self, window: Window) -> int:
        """Give the watermark at which a window is forgotten: what comes from then on is late."""
        return over_from(last_moment(window), self._lateness)

    def name_of_values(self, suffix: bytes, ident: int, number: int) -> bytes:
        """Give the name of a row of values."""
        return self._values_head + suffix + ident.to_bytes(4, "big") + number.to_bytes(4, "big")


#: The number of a cell, and its fields but for new values.
Packed = tuple[int, dict[tuple[str, str], int], dict[str, Value], int | None, bool, int]


def packed(ident: int, cell: Cell) -> Packed:
    """Give a cell in the form in which a record keeps it."""
    return ident, cell.timers, cell.facts, cell.hold, cell.fresh, cell.rows
