"""Sinks of a run inside this process, as Beam's local runner makes it.

Rows are kept in this module: the runner pickles a DoFn, but whatever the copy is, it finds the same
rows under its token. Not for runners with processes of their own.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import apache_beam as beam

from headrace.errors import OptionError
from headrace.lab.endpoints.names import SinkKind
from headrace.lab.endpoints.rows import Rows, RowsInMemory
from headrace.lab.workload import Row

_KEPT: dict[str, Any] = {}


class _Stamped(list[Any]):
    """Rows, and when each of them came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def append(self, row: Any) -> None:
        super().append(row)
        self.times.append(time.time())


class _Keep(beam.DoFn):  # type: ignore[misc]
    """Keeps rows."""

    def __init__(self, token: str) -> None:
        self._token = token

    def setup(self) -> None:
        self._append = _KEPT[self._token].append

    def process(self, row: Any) -> None:
        self._append(row)


class _Print(beam.DoFn):  # type: ignore[misc]
    """Prints rows and counts them."""

    def __init__(self, token: str) -> None:
        self._token = token

    def process(self, row: Any) -> None:
        _KEPT[self._token][None] += 1
        print(text_of(row), file=sys.stdout)


class _Count(beam.DoFn):  # type: ignore[misc]
    """Counts rows by the end of their window, in seconds since 1970."""

    def __init__(self, token: str) -> None:
        self._token = token

    def process(self, _row: Any, window: Any = beam.DoFn.WindowParam) -> None:
        _KEPT[self._token][_end_of(window)] += 1


class _Drop(beam.DoFn):  # type: ignore[misc]
    """Counts rows, a bundle at a time, and drops them."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._count = 0

    def start_bundle(self) -> None:
        self._count = 0

    def process(self, _row: Any) -> None:
        self._count += 1

    def finish_bundle(self) -> None:
        _KEPT[self._token][None] += self._count


def _end_of(window: Any) -> float | None:
    """None stands for the global window, whose end is no moment of any use."""
    if isinstance(window, beam.window.GlobalWindow):
        return None
    return window.end.micros / 1e6  # type: ignore[no-any-return]


_SINKS: dict[SinkKind, tuple[Callable[[str], beam.DoFn], Callable[[], Any]]] = {
    SinkKind.FILE: (_Keep, list),
    SinkKind.VECTOR: (_Keep, _Stamped),
    SinkKind.CONSOLE: (_Print, Counter),
    SinkKind.METER: (_Count, Counter),
    SinkKind.NULL: (_Drop, Counter),
}


class LocalSink:
    """One sink for one run; a context, after which its rows are gone."""

    def __init__(self, kind: SinkKind) -> None:
        if kind not in _SINKS:
            msg = f"the sink {kind.value} writes with Spark: the system must be headrace or spark"
            raise OptionError(msg)
        self._kind = kind
        self._token = uuid.uuid4().hex

    def __enter__(self) -> LocalSink:
        _KEPT[self._token] = _SINKS[self._kind][1]()
        return self

    def __exit__(self, *unused: object) -> None:
        del _KEPT[self._token]

    def step(self) -> beam.PTransform:
        """Give the step that takes the rows."""
        return beam.ParDo(_SINKS[self._kind][0](self._token))

    @property
    def count(self) -> int:
        """How many rows there are so far."""
        kept = _KEPT[self._token]
        return len(kept) if isinstance(kept, list) else sum(kept.values())

    def rows(self) -> Rows | None:
        """Give the rows; None: this sink keeps none."""
        kept = _KEPT[self._token]
        return RowsInMemory(tuple(kept)) if isinstance(kept, list) else None

    def stamped(self) -> tuple[tuple[float, tuple[Row, ...]], ...]:
        """Give the rows of a sink in memory with the times at which they came."""
        kept = _KEPT[self._token]
        if not isinstance(kept, _Stamped):
            return ()
        return tuple((at, (row,)) for at, row in zip(kept.times, kept, strict=True))

    def notes(self) -> list[str]:
        """Give the lines that a meter shows at the end."""
        if self._kind is not SinkKind.METER:
            return []
        kept = _KEPT[self._token]
        ends = sorted(kept, key=lambda end: float("inf") if end is None else end)
        return [
            f"{'global window' if end is None else f'window to {end:.3f}'}: {kept[end]:,} rows"
            for end in ends
        ]


def text_of(row: Any) -> str:
    """Give a row as a line for a terminal."""
    return "\t".join(map(str, row))
