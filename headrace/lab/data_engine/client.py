"""A reader's end of a data engine: pull, acknowledge, ask how it stands.

One connection per client, made when it is first needed, so that a client travels to workers as its
address. Knows the messages and nothing of who reads.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from headrace.errors import TransportError
from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.data_engine.wire import decoded, receive, send

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """How a data engine stands."""

    made: int  # events that could be taken so far
    pulled: int
    acknowledged: int
    total: int  # events it will make in all
    ended: bool
    started: float | None  # seconds since 1970; None: it idles
    void: str  # why the run does not count; empty if it does
    unsustained: str  # why the reader does not keep up; empty if it does
    replayed: int  # events that were taken again
    latest_seconds: float  # the most it was behind its schedule
    cpu_seconds: float  # of the engine's own process
    waits: bool = False  # it is open, has given all, and waits to be told more
    samples: int = 0  # in the record of the queue


class EngineClient:
    """A connection to one partition.

    Args:
        address: as "127.0.0.1:40123".
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket: socket.socket | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return EngineClient, (self.address,)

    def close(self) -> None:
        """Hang up; the next question connects again."""
        if self._file is not None and self._socket is not None:
            self._file.close()
            self._socket.close()
            self._file = self._socket = None

    def _ask(self, **ask: Any) -> tuple[dict[str, Any], bytes]:
        try:
            if self._file is None:
                host, _, port = self.address.rpartition(":")
                self._socket = socket.create_connection((host, int(port)), _PATIENCE_SECONDS)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._file = self._socket.makefile("rwb")  # type: ignore[assignment]
            assert self._file is not None
            send(self._file, ask)
            got = receive(self._file)
        except OSError as error:
            self.close()
            msg = f"the data engine at {self.address} does not answer: {error}"
            raise TransportError(msg) from error
        if got is None:
            self.close()
            msg = f"the data engine at {self.address} has ended"
            raise TransportError(msg)
        if "error" in got[0]:
            msg = f"the data engine at {self.address}: {got[0]['error']}"
            raise TransportError(msg)
        return got

    def pull(
        self, start: int, most: int, *, wait: float = 0.0
    ) -> tuple[list[pa.RecordBatch], EngineStatus]:
        """Take the events from an offset on, at most so many; waits for the first of them."""
        head, body = self._ask(do="pull", **{"from": start}, most=most, wait=wait)
        del head["from"]
        return decoded(body), EngineStatus(**head)

    def offer(self, reader: str = "") -> EngineStatus:
        """Ask how far events can be taken, for readers that plan first; starts the engine.

        Args:
            reader: its name, where there are several: what it was offered is held for it.
        """
        return EngineStatus(**self._ask(do="offer", reader=reader)[0])

    def acknowledge(self, until: int, reader: str = "") -> None:
        """Say that the events below an offset are not needed again, by the reader of this name."""
        self._ask(do="acknowledge", until=until, reader=reader)

    def status(self) -> EngineStatus:
        """Ask how the engine stands; does not start it."""
        return EngineStatus(**self._ask(do="status")[0])

    def end(self) -> EngineStatus:
        """Let it make no further events."""
        return EngineStatus(**self._ask(do="end")[0])

    def go_on(self, phases: Sequence[Phase], limits: Limits | None) -> EngineStatus:
        """Put an open engine that waits under a further load, which begins now."""
        told = None if limits is None else asdict(limits)
        pairs = [[phase.seconds, phase.rate] for phase in phases]
        return EngineStatus(**self._ask(do="go on", phases=pairs, limits=told)[0])

    def schedule(self) -> Schedule:
        """Give the schedule, as far as it was kept to."""
        return Schedule.read(self._ask(do="schedule")[0]["phases"])

    def record(self, start: int = 0) -> list[tuple[float, int, int, int]]:
        """Give the queue over time, from a sample on: (seconds, made, pulled, acknowledged)."""
        found: list[tuple[float, int, int, int]] = []
        while more := self._ask(do="record", **{"from": start + len(found)})[0]["samples"]:
            found += [tuple(row) for row in more]
        return found
