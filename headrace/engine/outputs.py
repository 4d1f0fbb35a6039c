"""Keeps what leaves a plan as DataFrames, and hands it to the pipeline's sinks.

Takes the frame of a run, gives each sink its DataFrame in the user's session. The rows are kept
because two jobs read them: the one that runs the pipeline and the one that writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark import StorageLevel

from headrace.engine.launch import output_frame
from headrace.errors import PlanError
from headrace.io.columns import arrow_schema
from headrace.io.frames import Frames
from headrace.io.sinks import Lease, Sink
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.state.crash_points import Point, crash_point

_LOG = logging.getLogger(__name__)


class Outputs:
    """The output channels of one run."""

    def __init__(self, plan: Plan, frames: Frames, session: Any) -> None:
        self._session = session  # the user's
        self._sinks: dict[int, Sink] = {}
        self._labels: dict[int, str] = {}  # the sinks' full names
        self._columns: dict[int, Any] = {}
        self.schemas: dict[int, bytes] = {}  # for each output channel, its Arrow schema
        self._lease: Lease | None = None
        self._rows: Any = None
        for index, channel in enumerate(plan.channels):
            if channel.kind is not ChannelKind.OUTPUT:
                continue
            sink = frames.sinks.get(channel.label)
            if sink is None:
                msg = f"{channel.label}: its sink is not at hand; run the pipeline, not its proto"
                raise PlanError(msg)
            self._sinks[index] = sink
            self._labels[index] = channel.label
            self._columns[index] = sink.columns(session)
            schema = arrow_schema(self._columns[index])
            self.schemas[index] = schema.serialize().to_pybytes()

    def __bool__(self) -> bool:
        """Whether there is any sink."""
        return bool(self._sinks)

    def keep(self, rows: Any) -> Any:
        """Keep the rows of the run, if any sink wants them."""
        if not self._sinks:
            return rows
        self._rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        # The lease outlives this object, and must not hold the sinks: they hold what it waits for.
        self._lease = Lease(partial(_forget, self._rows))
        return self._rows

    def deliver(self) -> None:
        """Give every sink its DataFrame."""
        for index, sink in self._sinks.items():
            frame = output_frame(
                self._session, self._rows, index, self._columns[index], self.schemas[index]
            )
            assert self._lease is not None
            sink.deliver(frame, self._lease)

    def deliver_epoch(self, epoch: int, writer: str, counts: Mapping[int, int]) -> None:
        """Give every sink its rows of one epoch; `counts` says how many there are for each."""
        for index, sink in self._sinks.items():
            frame = output_frame(
                self._session, self._rows, index, self._columns[index], self.schemas[index]
            )
            label = self._labels[index]
            try:
                sink.deliver_epoch(
                    frame, epoch, fresh=epoch == 0, writer=f"{writer}/{label}",
                    empty=not counts.get(index),
                )
            except Exception as error:
                error.add_note(f"[while writing epoch {epoch} in step '{label}']")
                raise
            crash_point(Point.BETWEEN_SINKS, epoch)

    def close(self) -> None:
        """Forget the rows, unless a sink still holds them."""
        if self._lease is not None:
            self._lease.end_if_free()
            self._lease = None


def _forget(rows: Any) -> None:
    try:
        rows.unpersist()
    except Exception as error:  # the session may have been stopped, and its rows with it
        _LOG.debug("the rows of a run could not be unpersisted: %s", error)
