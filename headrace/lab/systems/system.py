"""What every system is asked and what it answers: a request, a glance while it runs, an outcome.

Data and one protocol. Nothing here starts anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import OptionError
from headrace.lab.data.generator import Generator
from headrace.lab.endpoints.names import Sink, Source
from headrace.lab.endpoints.rows import Rows
from headrace.lab.record.stages import EpochStages
from headrace.lab.workload import Mode, Row, Workload
from headrace.terminal.steps import StepView


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """How a run stands. What a system cannot say is None."""

    events: int | None = None  # read so far
    rows: int | None = None  # put out so far
    watermark: int | None = None  # microseconds: the least one of all steps
    epoch: int | None = None
    epoch_seconds: float | None = None  # of the last epoch
    state_bytes: int | None = None
    checkpoint_bytes: int | None = None
    steps: tuple[StepView, ...] = ()


#: Lets a run be looked at: takes the function that looks, and shows what it sees while the context
#: is open.
Watch = Callable[[Callable[[], Glance]], AbstractContextManager[Any]]


def _unwatched(look: Callable[[], Glance]) -> AbstractContextManager[Any]:
    del look
    return contextlib.nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a user would turn to get more out of a system. One that knows it not does not see it."""

    per_batch: int = 1_000_000  # events of a batch, at most: headrace, Spark
    trigger_ms: int = 0  # between the beginnings of two batches; 0: at once: headrace, Spark
    bundle_ms: int = 100  # that elements wait to cross to Python together: PyFlink
    bundle_events: int = 1_000  # that cross together: PyFlink
    who_asks: str = "spark"  # the source for batches, Spark's queries or headrace's loop: headrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One workload to be run once."""

    workload: Workload
    settings: Any
    mode: Mode
    folder: Path  # of this run alone, or of an earlier run that this one goes on with
    source: Source = field(default_factory=Source)
    sink: Sink = field(default_factory=Sink)
    shards: int | None = None  # None: as many as the session has cores
    readers: int = 1  # how many share the generator's events, where they can run side by side
    pace: bool = False  # events arrive when they are due, not as fast as they can be read
    flags: tuple[str, ...] = ()  # more options of headrace's runner; other systems do not see them
    tuning: Tuning = field(default_factory=Tuning)
    watch: Watch = _unwatched

    def __post_init__(self) -> None:
        if self.mode not in self.workload.modes:
            there = " and ".join(mode.value for mode in self.workload.modes)
            msg = f"{self.workload.full_name} can be run in {there} only"
            raise OptionError(msg)

    @property
    def generator(self) -> Generator:
        """The events."""
        return self.workload.generator(self.settings)

    @property
    def streaming(self) -> bool:
        """Whether the run is a streaming one."""
        return self.mode is Mode.STREAMING


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run took and gave.

    `seconds` are those from handing the pipeline to the engine, whose session is up, until the
    engine says that it has ended, all rows being at the sink. So the engine's own planning and
    the start of the source count; starting Spark, its Python workers and their imports, writing
    the log, gathering rows and asking the oracle do not.
    """

    system: str
    engine: str  # which engine really ran, asked of the objects that ran it
    mode: Mode
    events: int
    seconds: float
    rows: Rows | None  # None: the sink kept none
    row_count: int | None  # None: not counted; the rows themselves are there
    notes: tuple[str, ...] = ()
    checkpoint_bytes: int | None = None  # None: there is no checkpoint
    stamped: tuple[tuple[float, tuple[Row, ...]], ...] = ()  # rows by the time they left, if known
    tables: tuple[tuple[float, Any], ...] = ()  # as `stamped`, of the sink `columns`
    epochs: tuple[EpochStages, ...] = ()  # of a stream, where the system tells of them
    resumed: bool = False  # went on with an interrupted run, whose time is not in `seconds`

    @property
    def events_per_second(self) -> float | None:
        """The rate of the whole run; None if another run had a share in it."""
        return None if self.resumed else self.events / self.seconds


class System(Protocol):
    """Something that answers questions."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    def prepare(self, request: Request) -> None:
        """Start what must run before the time is taken.

        Raises:
            OptionError: this system cannot carry the request out; says why.
        """

    def run(self, request: Request) -> Outcome:
        """Run a workload to its end."""

    def stop(self) -> None:
        """End what `prepare` started."""


def resumes(request: Request) -> bool:
    """Whether a request goes on with an interrupted run; to be asked before the run."""
    return request.streaming and checkpoint_of(request).exists()


def checkpoint_of(request: Request) -> Path:
    """Give the folder where a streaming run keeps its state."""
    return request.folder / "checkpoint"


def bytes_below(folder: str | os.PathLike[str]) -> int:
    """Add up the files below a folder; those that vanish meanwhile do not count."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(at, name)).st_size
    return total
