"""What the epochs of a stream keep: rows of the shard's state partition.

Makes the parts once, attaches them to the state partition at the version that an epoch begins with,
and seals it afterwards.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Protocol

from headrace.errors import StateError
from headrace.plan.clocks import MIN_TIME as BEGINNING
from headrace.state.chain import Chain
from headrace.state.crash_points import Point, crash_point
from headrace.state.layout import KEY_GROUPS
from headrace.state.lmdb_store import open_partition
from headrace.state.partition import StatePartition
from headrace.worker.beam_types import WindowedCoder
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.choose import make_stream_grouper
from headrace.worker.grouping.grouper import StreamGrouper
from headrace.worker.protocol import Epoch
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.sideinputs.views import StoredSide
from headrace.worker.sorting.stored_sorter import StoredSorter
from headrace.worker.task.memory import GroupingSpec, Need, Sealed, SideSpec, SortingSpec
from headrace.worker.task.watermarks import NOTHING_YET
from headrace.worker.userstate.residuals import Residuals
from headrace.worker.userstate.stored_cells import StoredCells
from headrace.worker.userstate.stored_timers import StoredTimers


class _Flushed(Protocol):
    def flush(self) -> None: ...


class Stored:
    """The memory of one shard in one superstep, epoch after epoch."""

    def __init__(self, superstep: int, shard: int, shards: int) -> None:
        self._superstep = superstep
        self._shard = shard
        self._shards = shards
        self._partition: StatePartition | None = None
        self._side_inputs = SideInputs()
        self.cells = StoredCells(self._side_inputs)
        self._sides: dict[int, StoredSide] = {}
        self._timers: list[StoredTimers] = []
        self._residuals: list[Residuals] = []
        self._pending: list[PendingGraph] = []
        self._sorters: list[StoredSorter] = []
        self._groupers: list[tuple[int, StreamGrouper]] = []  # with the numbers of their stages

    # -- parts

    def side(self, spec: SideSpec, readers: Iterable[tuple[str, str]]) -> StoredSide:
        """Make the view of a channel."""
        made = StoredSide(*spec)
        self._sides[spec.channel] = made
        self._side_inputs.bind(dict.fromkeys(readers, made))
        return made

    def timers(self, stage: int) -> StoredTimers:
        """Make the timers of a stage."""
        made = StoredTimers(stage)
        self._timers.append(made)
        return made

    def residuals(self, stage: int) -> Residuals:
        """Make the residuals of a stage."""
        made = Residuals(stage)
        self._residuals.append(made)
        return made

    def grouper(self, spec: GroupingSpec) -> StreamGrouper:
        """Make what groups for a stage."""
        made = make_stream_grouper(*spec)
        self._groupers.append((spec.stage, made))
        return made

    def pending(
        self, stage: int, needs: Sequence[Need], windowed_coder: WindowedCoder, keyed: bool
    ) -> PendingGraph:
        """Make what lets elements of a stage wait."""
        sides = [
            Side(
                index=need.number, mapping=need.mapping, channel=self._sides[need.channel],
                window_coder=need.window_coder,
            )
            for need in needs
        ]
        key_group = None
        if keyed:
            key_group = ShardOf(windowed_coder.wrapped_value_coder.key_coder(), KEY_GROUPS).any
        made = PendingGraph(stage, sides, windowed_coder, key_group)
        self._pending.append(made)
        return made

    def sorter(self, spec: SortingSpec) -> StoredSorter:
        """Make what lets elements of a stage wait for their turn."""
        made = StoredSorter(*spec)
        self._sorters.append(made)
        return made

    def _parts(self) -> list[StoredTimers | Residuals | PendingGraph]:
        return [*self._timers, *self._residuals, *self._pending]

    # -- epochs

    @property
    def _keeps_anything(self) -> bool:
        return bool(
            self._groupers or self._sides or self._pending or self._residuals or self._sorters
            or self.cells.registered or any(timers.families for timers in self._timers)
        )

    @property
    def _name(self) -> str:
        return f"{self._superstep}-{self._shard}"

    def begin(self, epoch: Epoch) -> None:
        """Open the state partition at the version that the epoch begins with."""
        self.close()  # what an epoch that failed left open
        if not self._keeps_anything:
            return
        partition = self._partition = self._open(epoch)
        self.cells.attach(partition)
        for side in self._sides.values():
            side.attach(partition, BEGINNING)
        for part in self._parts():
            part.attach(partition)
        for stage, grouper in self._groupers:
            last, _ = epoch.watermarks.get((stage, self._shard), NOTHING_YET)
            grouper.attach(partition, last, epoch.now)
        for sorter in self._sorters:
            sorter.attach(partition, epoch.number)

    def _open(self, epoch: Epoch) -> StatePartition:
        assert epoch.local is not None
        assert epoch.files is not None
        name = self._name
        former = epoch.former.get(self._superstep, ()) if name not in epoch.chains else ()
        local = epoch.local.open(_executor())
        try:
            return open_partition(
                local, epoch.files, name, epoch.chains.get(name, Chain()), from_chains=former,
                shard=self._shard, shards=self._shards, run=epoch.run,
            )
        except OSError as error:
            msg = (
                f"the local copy of state in {local} cannot be used: {error}. Nothing is lost: "
                "make room or mend the folder (--state_dir), and start the pipeline again"
            )
            raise StateError(msg) from error

    def seal(self, epoch: Epoch) -> Sealed:
        """Write everything to the state partition, and its change log to the checkpoint."""
        partition = self._partition
        if partition is None:
            return Sealed()
        groupers = [grouper for _, grouper in self._groupers]
        written: list[_Flushed] = [
            self.cells, *self._sides.values(), *groupers, *self._parts(), *self._sorters
        ]
        for part in written:
            part.flush()
        stem = f"{epoch.number:08d}-{epoch.incarnation}-{uuid.uuid4().hex[:12]}"
        crash_point(Point.BEFORE_SEAL, epoch.number, epoch.attempt, self._name)
        chain = partition.seal(stem)
        crash_point(Point.AFTER_SEAL, epoch.number, epoch.attempt, self._name)
        held = partition.rows_held(), partition.bytes_held()
        return Sealed(self._name, chain, *held, partition.restored)

    def close(self) -> None:
        """Close the state partition; what was not sealed is forgotten."""
        if self._partition is not None:
            self._partition.close()
            self._partition = None


def _executor() -> str:
    """Name the executor that this process works for, by the folders Spark gave it."""
    folders = os.environ.get("SPARK_EXECUTOR_DIRS", "")
    return f"executor-{zlib.crc32(folders.encode()):08x}"
