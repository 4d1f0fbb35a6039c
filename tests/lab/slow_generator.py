"""A generator that takes its time for every block, so that epochs end after a block or two."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from headrace.lab.data.generator import Generator

#: Longer than the thread that cuts an epoch needs to be heard.
SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class SlowGenerator:
    """Gives the events of another generator; has what a run and its oracle ask for."""

    inner: Generator

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.inner.events

    @property
    def schema(self) -> Any:
        """The columns of `batch`."""
        return self.inner.schema

    def batch(self, start: int, count: int) -> Any:
        """Make events as a table."""
        return self.inner.batch(start, count)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make events as pipelines read them, slowly."""
        time.sleep(SECONDS)
        return self.inner.elements(start, count)

    def watermark(self, number: int) -> int:
        """Give a time that no later event precedes."""
        return self.inner.watermark(number)
