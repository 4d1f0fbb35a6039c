"""Keeps what splittable DoFns of a bounded run have left for later, in memory."""

from __future__ import annotations

from apache_beam.utils.timestamp import MAX_TIMESTAMP

from headrace.worker.beam_types import Proto
from headrace.worker.userstate.residuals import Residual, residual_of


class MemoryResiduals:
    """The residuals of one stage on one shard."""

    def __init__(self) -> None:
        self._held: list[Residual] = []

    def add(
        self, transform_id: str, application: Proto, now: int, *, at_once: bool = False
    ) -> None:
        """Take what Beam calls a delayed bundle application; `at_once`: without its delay."""
        self._held.append(residual_of(transform_id, application, now, at_once=at_once))

    def take_due(self, now: int) -> list[Residual]:
        """Give those that may go on, and forget them."""
        due = [residual for residual in self._held if residual.due <= now]
        self._held = [residual for residual in self._held if residual.due > now]
        return due

    def take_all(self) -> list[Residual]:
        """Give all of them, and forget them."""
        due, self._held = self._held, []
        return due

    def hold(self) -> int:
        """Give what the output watermark may not pass."""
        return min((residual.hold for residual in self._held), default=MAX_TIMESTAMP.micros)

    def next_wakeup(self) -> int | None:
        """Give the earliest time at which one may go on."""
        return min((residual.due for residual in self._held), default=None)
