"""What a task keeps for later, and who keeps it: the one seam between batch and streaming.

Protocols alone. `in_memory` is for the only epoch of a batch, `stored` for streaming, where all of
it outlives the epoch. `ShardRun` and `StageRun` are written against this page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from headrace.plan.slices import Slices
from headrace.state.chain import Chain
from headrace.worker.batched.batches import Meta
from headrace.worker.beam_types import (
    Coder,
    CoderImpl,
    Proto,
    TimerCoder,
    Value,
    Window,
    WindowedCoder,
    Windowing,
)
from headrace.worker.grouping.column_tables import Merging
from headrace.worker.grouping.grouper import Compact, Grouper
from headrace.worker.grouping.slices import Combination
from headrace.worker.protocol import Epoch
from headrace.worker.userstate.residuals import Residual
from headrace.worker.userstate.timers import DueTimer, TimerSink

#: The side windows that got elements: (which side input of the stage, encoded window).
Opened = Sequence[tuple[int, bytes]]


class Cells(Protocol):
    """User state: Beam's state handler, and what the watermark does to it."""

    def blocking_get(self, state_key: Proto, coder: CoderImpl) -> Iterable[Value]:
        """Read a cell or a view of a side input."""

    def extend(self, state_key: Proto, coder: CoderImpl, elements: Iterable[Value]) -> object:
        """Append to a cell."""

    def clear(self, state_key: Proto) -> object:
        """Empty a cell, or a range of an ordered list."""

    def process_instruction_id(
        self, bundle_id: str, cache_tokens: list[Proto]
    ) -> AbstractContextManager[None]:
        """Begin a bundle."""

    def done(self) -> None:
        """End of use."""

    def register(
        self, transform_id: str, stage: int, key_coder: Coder, window_coder: Coder,
        allowed_lateness: int,
    ) -> None:
        """Say what a stateful ParDo's state keys are made of; lateness in microseconds."""

    def expire(
        self, stage: int, watermark: int, waits: Callable[[bytes], bool],
        drop: Callable[[Collection[bytes]], object] | None = None,
    ) -> int:
        """Drop the state of windows that no element can reach any more; give how many."""


class Timers(Protocol):
    """The timers of one stage."""

    @property
    def families(self) -> int:
        """How many timer families the stage's steps have."""

    def sink(
        self, transform_id: str, family: str, domain: int, timer_coder: TimerCoder
    ) -> TimerSink:
        """Give the object through which user code sets timers of one family."""

    def pop(self, watermark: int, now: int) -> DueTimer | None:
        """Give the next timer to fire: event time first."""

    def next_due(self, watermark: int) -> int | None:
        """Give the firing time of the first event-time timer that is due; None: none is."""

    def hold(self) -> int:
        """Give the moment at which set timers hold the output watermark."""

    def next_wakeup(self) -> int | None:
        """Give the time of the first processing-time timer."""

    def drop(self, owners: Collection[bytes]) -> int:
        """Forget the timers of owners whose state expired."""


class Residuals(Protocol):
    """What splittable DoFns of one stage have left for later."""

    def add(
        self, transform_id: str, application: Proto, now: int, *, at_once: bool = False
    ) -> None:
        """Take what Beam calls a delayed bundle application; `at_once`: without its delay."""

    def take_due(self, now: int) -> list[Residual]:
        """Give those that may go on, and forget them."""

    def take_all(self) -> list[Residual]:
        """Give all of them, and forget them."""

    def hold(self) -> int:
        """Give what the output watermark may not pass."""

    def next_wakeup(self) -> int | None:
        """Give the earliest time at which one may go on."""


class SideView(Protocol):
    """What one broadcast channel brought, by window."""

    def add_rows(self, payload: bytes) -> None:
        """Take one super tuple."""

    def advance(self, watermark: int) -> set[bytes]:
        """Take the side watermark of this epoch; give the (encoded) windows that got elements."""

    def expire(self, watermark: int) -> int:
        """Forget the windows that nobody can ask for any more."""


class Pending(Protocol):
    """The elements of one stage that wait for side inputs."""

    def admit(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta] | None:
        """Give what of a batch may be processed now; keep the rest."""

    def release(
        self, opened: Opened, watermarks: Sequence[int]
    ) -> Iterator[tuple[list[Value], Meta]]:
        """Give what need not wait any longer."""

    def waits(self, window: bytes) -> bool:
        """Whether elements of an encoded window wait."""

    def hold(self) -> int:
        """Give what the output watermark may not pass."""

    def count(self) -> int:
        """Give how many elements wait."""


class Sorter(Protocol):
    """The elements of one stage that wait for their turn in the order of event time."""

    def add(self, values: list[Value], meta: Meta) -> None:
        """Let elements wait."""

    def release(self, watermark: int, most: int) -> Iterator[tuple[list[Value], Meta]]:
        """Give what is due, in order, in batches of at most so many."""

    def hold(self) -> int:
        """Give what the output watermark may not pass."""


class Need(NamedTuple):
    """One side input that a stage needs."""

    number: int  # its place among the side inputs of the stage
    channel: int
    mapping: Callable[[Window], Window]  # main window -> side window
    window_coder: Coder  # of the side windows


class GroupingSpec(NamedTuple):
    """One GroupByKey, as a grouper must know it."""

    stage: int  # its number in the plan
    windowed_coder: WindowedCoder  # of the (key, value) pairs that arrive
    windowing: Windowing  # Beam's windowing strategy
    memory_bytes: int  # what values may take before they go to disk or are packed
    compact: Compact | None  # given where values are accumulators
    slices: Slices | None  # keep one partial per slice, not one per window
    combination: Combination  # with slices, how their values become those of windows
    merging: Merging | None = None  # given where values are accumulators that columns can merge


class SortingSpec(NamedTuple):
    """One ParDo with input in the order of event time, as a sorter must know it."""

    stage: int  # its number in the plan
    windowed_coder: WindowedCoder
    lateness: int  # microseconds that elements may come behind the watermark
    memory_bytes: int  # what elements may take before they go to disk or are packed


class SideSpec(NamedTuple):
    """One broadcast channel, as its view must know it."""

    channel: int
    windowed_coder: WindowedCoder
    windowing: Windowing
    multimap: bool  # some reader asks by key
    lookback: int | None  # how long to keep windows; None: for ever


class Sealed(NamedTuple):
    """What of an epoch was kept."""

    partition: str = ""  # empty: nothing is
    chain: Chain | None = None
    rows: int = 0
    held_bytes: int = 0
    restored: bool = False


class Memory(Protocol):
    """Makes the parts in which a task keeps things; opens them for an epoch, seals them after."""

    @property
    def cells(self) -> Cells:
        """User state of all stages."""

    def side(self, spec: SideSpec, readers: Iterable[tuple[str, str]]) -> SideView:
        """Make the view of a channel, for these (transform, tag)."""

    def timers(self, stage: int) -> Timers:
        """Make the timers of a stage."""

    def residuals(self, stage: int) -> Residuals:
        """Make the residuals of a stage."""

    def grouper(self, spec: GroupingSpec) -> Grouper:
        """Make what groups for a stage."""

    def pending(
        self, stage: int, needs: Sequence[Need], windowed_coder: WindowedCoder, keyed: bool
    ) -> Pending | None:
        """Make what lets elements of a stage wait; None: all of the side inputs comes first."""

    def sorter(self, spec: SortingSpec) -> Sorter:
        """Make what lets elements of a stage wait for their turn."""

    def begin(self, epoch: Epoch) -> None:
        """Open everything at the version that the epoch begins with."""

    def seal(self, epoch: Epoch) -> Sealed:
        """Write down what the epoch changed."""

    def close(self) -> None:
        """The epoch is over, well or not; nothing that was not sealed counts."""
