"""What the only epoch of a bounded input keeps: in memory, until the task is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.worker.beam_types import WindowedCoder
from headrace.worker.exchange.grouping_kind import grouping_of
from headrace.worker.grouping.bounded import BoundedGrouper
from headrace.worker.grouping.choose_bounded import make_grouper
from headrace.worker.protocol import Epoch
from headrace.worker.sideinputs.side_inputs import SideChannel, SideInputs
from headrace.worker.sorting.entries import Entries
from headrace.worker.sorting.rows import SpilledRows
from headrace.worker.sorting.sorter import TimeSorter
from headrace.worker.task.memory import GroupingSpec, Need, Sealed, SideSpec, SortingSpec
from headrace.worker.userstate.cells import MemoryCells
from headrace.worker.userstate.memory_residuals import MemoryResiduals
from headrace.worker.userstate.timers import MemoryTimers


class InMemory:
    """The memory of one task of a batch."""

    def __init__(self) -> None:
        self._side_inputs = SideInputs()
        self.cells = MemoryCells(self._side_inputs)

    def side(self, spec: SideSpec, readers: Iterable[tuple[str, str]]) -> SideChannel:
        """Make the view of a channel."""
        made = SideChannel(spec.windowed_coder)
        self._side_inputs.bind(dict.fromkeys(readers, made))
        return made

    def timers(self, stage: int) -> MemoryTimers:  # noqa: ARG002 (a stage's own, whichever)
        """Make the timers of a stage."""
        return MemoryTimers()

    def residuals(self, stage: int) -> MemoryResiduals:  # noqa: ARG002 (a stage's own)
        """Make the residuals of a stage."""
        return MemoryResiduals()

    def grouper(self, spec: GroupingSpec) -> BoundedGrouper:
        """Make what groups for a stage."""
        return make_grouper(
            spec.windowed_coder, spec.windowing, grouping_of(spec.windowing), spec.memory_bytes,
            spec.slices, spec.combination, spec.merging,
        )

    def pending(
        self, stage: int, needs: Sequence[Need], windowed_coder: WindowedCoder, keyed: bool
    ) -> None:
        """Nobody waits: side inputs come before the data, and are whole then."""

    def sorter(self, spec: SortingSpec) -> TimeSorter:
        """Make what lets elements of a stage wait for their turn."""
        entries = Entries(spec.windowed_coder, keyed=False)
        return TimeSorter(entries, SpilledRows(), spec.lateness, spec.memory_bytes)

    def begin(self, epoch: Epoch) -> None:
        """Nothing was there before."""

    def seal(self, epoch: Epoch) -> Sealed:  # noqa: ARG002 (the only one)
        """Nothing is kept."""
        return Sealed()

    def close(self) -> None:
        """Nothing is open."""
