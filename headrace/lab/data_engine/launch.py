"""Starts the data engines of a run, a process for each partition, and ends them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, cast

from headrace.errors import OptionError, TransportError
from headrace.lab.data_engine.client import EngineClient, EngineStatus
from headrace.lab.data_engine.events import EventsName
from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.data_engine.shares import Share, block_for
from headrace.lab.data_engine.wire import receive, send

_END_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What readers must know: where the partitions are, and how events are dealt to them."""

    addresses: tuple[str, ...]
    block: int

    def share(self, partition: int) -> Share:
        """Give the share of a partition."""
        return Share(partition=partition, partitions=len(self.addresses), block=self.block)

    def text(self) -> str:
        """Write it as one word, for an option."""
        return f"{self.block}@{','.join(self.addresses)}"

    @classmethod
    def read(cls, text: str) -> Feed:
        """Read what `text` wrote.

        >>> Feed.read("16@127.0.0.1:5000,127.0.0.1:5001").share(1)
        Share(partition=1, partitions=2, block=16)
        """
        block, _, addresses = text.partition("@")
        if not block.isdigit() or not addresses:
            msg = f"{text!r} does not name data engines: BLOCK@HOST:PORT,HOST:PORT"
            raise OptionError(msg)
        return cls(addresses=tuple(addresses.split(",")), block=int(block))


class DataEngines:
    """The processes of one run, alive while the context is open.

    Args:
        events: where the events come from.
        schedule: when they are due.
        partitions: how many processes share them.
        limits: of each queue's length.
        hold: seconds after the start at which each waits until all was taken; None: nowhere.
        is_open: let it wait for further loads at the end of its schedule; one partition only.
    """

    def __init__(
        self, events: EventsName, schedule: Schedule, *, partitions: int = 1,
        limits: Limits | None = None, hold: float | None = None, is_open: bool = False,
    ) -> None:
        self._events = events
        self._hold, self._is_open = hold, is_open
        self._schedule = schedule
        self._limits = limits
        self._block = block_for(schedule.phases[0].rate, partitions)
        self._partitions = partitions
        self._stack = ExitStack()
        self.clients: tuple[EngineClient, ...] = ()
        self.feed = Feed(addresses=(), block=self._block)
        self.pids: tuple[int, ...] = ()  # of the processes

    def __enter__(self) -> DataEngines:
        with ExitStack() as stack:
            started = [stack.enter_context(_Process()) for _ in range(self._partitions)]
            for partition, process in enumerate(started):
                share = Share(partition=partition, partitions=len(started), block=self._block)
                limits = None if self._limits is None else dataclasses.asdict(self._limits)
                process.tell({
                    "events": self._events.told(), "schedule": self._schedule.pairs(),
                    "share": dataclasses.asdict(share), "limits": limits,
                    "hold": self._hold, "is_open": self._is_open,
                })
            self.pids = tuple(process.pid for process in started)
            addresses = tuple(process.address(self._schedule.events) for process in started)
            self.clients = tuple(stack.enter_context(EngineClient(at)) for at in addresses)
            self.feed = Feed(addresses=addresses, block=self._block)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def status(self) -> tuple[EngineStatus, ...]:
        """Ask all of them how they stand."""
        return tuple(client.status() for client in self.clients)


class _Process:
    """One process, and the pipe by which it is told."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "headrace.lab.data_engine.server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def tell(self, task: dict[str, object]) -> None:
        with suppress(BrokenPipeError):  # it has failed and says so itself
            send(cast(BinaryIO, self._process.stdin), task)

    def address(self, asked: int) -> str:
        """Wait for the port.

        Raises:
            OptionError: there are fewer events than the schedule asks for.
            TransportError: the process ended; it said why on its standard error.
        """
        got = receive(cast(BinaryIO, self._process.stdout))
        if got is None:
            msg = "a data engine ended before it could serve events; it says why above"
            raise TransportError(msg)
        there = got[0]["events"]
        if there < asked:
            msg = f"the schedule asks for {asked:,} events, and there are {there:,}"
            raise OptionError(msg)
        return f"127.0.0.1:{got[0]['port']}"

    def __enter__(self) -> _Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
