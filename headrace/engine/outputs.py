"""Keeps what leaves a plan as DataFrames, and hands it to the pipeline's sinks.

Takes the frame of a run, gives each sink its DataFrame in the user's session. The rows are kept
because two jobs read them: the one that runs the pipeline and the one that writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headrace.engine.host import TaskRows
from headrace.errors import PlanError
from headrace.io.claims import Claim
from headrace.io.columns import arrow_schema
from headrace.io.frames import Frames
from headrace.io.sinks import Delivery, Lease, Sink
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.state.crash_points import Point, Publication, crash_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One try of a driver at an epoch, as far as all sinks are concerned."""

    epoch: int
    attempt: str
    run: str  # names the run, after a restart too
    incarnation: int  # of the driver
    token: str  # of the driver: two may have the same number, on a checkpoint and on its copy
    fence: Callable[[], None]  # raises if the checkpoint has a newer driver
    fresh: bool  # no epoch of the run counts yet
    remove_later: bool = False
    outbox: str = ""  # the folder of the checkpoint for what sinks publish later
    pause: Callable[[float], None] = time.sleep

    def to(self, label: str, empty: bool | None = None) -> Delivery:
        """Give what one sink is told, by its full name."""
        claim = Claim(
            writer=f"{self.run}/{label}", incarnation=self.incarnation, token=self.token
        )
        return Delivery(
            epoch=self.epoch, claim=claim, fresh=self.fresh, attempt=self.attempt,
            fence=self.fence, empty=empty, remove_later=self.remove_later, outbox=self.outbox,
            gap=_gap, pause=self.pause,
        )


def _gap(step: str, epoch: int) -> None:
    crash_point(Publication(step), epoch)


class Outputs:
    """The output channels of one run."""

    def __init__(
        self, plan: Plan, frames: Frames, session: Any, *, shared_disk: bool = False,
        checkpoint: str = "",
    ) -> None:
        self._session = session  # the user's
        self._sinks: dict[int, Sink] = {}
        self._labels: dict[int, str] = {}  # the sinks' full names
        self._columns: dict[int, Any] = {}
        self._order_bytes: dict[int, int] = {}  # 0: rows come in any order
        self.schemas: dict[int, bytes] = {}  # for each output channel, its Arrow schema
        self._lease: Lease | None = None
        self._rows: TaskRows | None = None
        self.seconds: dict[str, float] = {}  # that each sink took of the last epoch, by its name
        for index, channel in enumerate(plan.channels):
            if channel.kind is not ChannelKind.OUTPUT:
                continue
            sink = frames.sinks.get(channel.label)
            if sink is None:
                msg = f"{channel.label}: its sink is not at hand; run the pipeline, not its proto"
                raise PlanError(msg)
            self._sinks[index] = sink
            self._labels[index] = channel.label
            self._order_bytes[index] = channel.order_bytes
            self._columns[index] = sink.columns(session)
            schema = arrow_schema(self._columns[index])
            self.schemas[index] = schema.serialize().to_pybytes()
        #: The channels whose files the workers write themselves, in streaming on one machine.
        self.direct = tuple(
            index
            for index, sink in self._sinks.items()
            if shared_disk and sink.files_at(checkpoint) and not self._order_bytes[index]
        )

    @property
    def wants_rows(self) -> bool:
        """Whether any sink takes rows as a DataFrame."""
        return len(self._sinks) > len(self.direct)

    @property
    def has_outbox(self) -> bool:
        """Whether any sink sets rows aside in the checkpoint."""
        return any(sink.has_outbox for sink in self._sinks.values())

    def prepare(self, delivery: Handover) -> None:
        """Make every sink ready for the epochs of this driver, which `delivery` begins."""
        for index, sink in self._sinks.items():
            with self._blaming(index, delivery.epoch):
                handed = replace(delivery.to(self._labels[index]), columns=self._columns[index])
                sink.prepare_epochs(self._session, handed)

    def folders(self, attempt: str) -> dict[int, str]:
        """Give where workers put the files of one attempt at an epoch, for each direct channel."""
        found = {}
        for index in self.direct:
            found[index] = self._sinks[index].staging(attempt)
        return found

    @contextmanager
    def _blaming(self, index: int, epoch: int) -> Iterator[None]:
        """Name the sink in what goes wrong."""
        try:
            yield
        except Exception as error:
            error.add_note(f"[while writing epoch {epoch} in step '{self._labels[index]}']")
            raise

    def keep(self, rows: TaskRows) -> None:
        """Take the rows of a run or an epoch; keep them, if any sink wants them."""
        if not self.wants_rows:
            return
        rows.keep()
        self._rows = rows
        # The lease outlives this object, and must not hold the sinks: they hold what it waits for.
        self._lease = Lease(rows.forget)

    def deliver(self) -> None:
        """Give every sink its DataFrame."""
        for index, sink in self._sinks.items():
            assert self._lease is not None
            began = time.monotonic()
            sink.deliver(self._frame(index), self._lease)
            self.seconds[self._labels[index]] = time.monotonic() - began

    def deliver_epoch(
        self,
        delivery: Handover,
        counts: Mapping[int, int],
        staged: Mapping[int, list[str]],
    ) -> None:
        """Give every sink its rows of one epoch.

        Args:
            delivery: which epoch it is, and whose.
            counts: for each output channel, how many rows there are.
            staged: for each direct channel, the names of its files.
        """
        self.seconds = {}
        for index, sink in self._sinks.items():
            began = time.monotonic()
            handover = delivery.to(self._labels[index], empty=not counts.get(index))
            with self._blaming(index, delivery.epoch):
                if index in self.direct:
                    sink.deliver_files(handover, staged[index])
                else:
                    sink.deliver_epoch(self._frame(index), handover)
            self.seconds[self._labels[index]] = time.monotonic() - began
            crash_point(Point.BETWEEN_SINKS, delivery.epoch)

    def deliver_nothing(self, delivery: Handover) -> None:
        """Tell every sink that an epoch has no rows, whatever it was given before."""
        for index, sink in self._sinks.items():
            handover = delivery.to(self._labels[index], empty=True)
            with self._blaming(index, delivery.epoch):
                if index in self.direct:
                    sink.deliver_files(handover, ())
                else:
                    sink.deliver_epoch(self._no_rows(index), handover)

    def publish(self, delivery: Handover, give_up: Callable[[], bool]) -> dict[str, float]:
        """Let every sink make known what epochs that count have set aside; give their seconds.

        Args:
            delivery: the last epoch that counts.
            give_up: whether to leave the rest for the next start.
        """
        seconds = {}
        for index, sink in self._sinks.items():
            began = time.monotonic()
            with self._blaming(index, delivery.epoch):
                sink.publish(delivery.to(self._labels[index]), give_up)
            if sink.has_outbox:
                seconds[self._labels[index]] = time.monotonic() - began
        return seconds

    def end_epochs(self) -> None:
        """Let the sinks let go of what they hold for the epochs of this driver."""
        for sink in self._sinks.values():
            sink.close()

    def _no_rows(self, index: int) -> Any:
        """Give a DataFrame without rows, made from Arrow: no Python worker can die over it."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.schemas[index]))
        return self._session.createDataFrame(schema.empty_table(), self._columns[index])

    def _frame(self, index: int) -> Any:
        assert self._rows is not None
        return self._rows.output(
            index, self._columns[index], self.schemas[index], self._order_bytes[index]
        )

    def close(self) -> None:
        """Forget the rows, unless a sink still holds them."""
        if self._lease is not None:
            self._lease.end_if_free()
            self._lease = None
        self._rows = None
