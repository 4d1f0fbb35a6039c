"""Looks at a checkpoint from outside, while its pipeline runs or long after.

Takes a checkpoint folder, gives a record for each manifest that it finds there. Reads only and
takes no lock. A manifest says how far sources and steps are, what state there is and how long the
code of steps has run; how long an epoch took, what moved where and what was late it does not.
"""

from __future__ import annotations

from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.reading import (
    epochs_of,
    is_checkpoint,
    read_description,
    read_manifest,
)
from headrace.engine.metrics import busy_of_labels, load
from headrace.errors import CheckpointError
from headrace.plan.clocks import MIN_TIME
from headrace.plan.epoch_records import EpochRecord, ShardRecord, SourceRecord, StepRecord
from headrace.state.files import Files, shown
from headrace.ui.graph import Graph, graph_of_checkpoint
from headrace.ui.history import History


def checkpoint_files(location: str) -> Files | None:
    """Give the files of a checkpoint; None if there is none."""
    try:
        files = Files(location)
        return files if is_checkpoint(files) else None
    except (OSError, ValueError) as error:
        msg = f"{shown(location)} cannot be read: {error}"
        raise CheckpointError(msg) from error


class CheckpointWatch:
    """Reads the manifests of a checkpoint as they come.

    Args:
        files: the checkpoint.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        described = read_description(files)
        graph = (
            Graph(name=files.location, shards=0) if described is None
            else graph_of_checkpoint(described)
        )
        self.history = History(graph, kind="checkpoint")
        self._last = -1
        self._busy: dict[str, float] | None = None
        self.look()

    def look(self) -> None:
        """Take what is new; one that was swept away in between, or is damaged, is left out."""
        for epoch in epochs_of(self._files):
            if epoch <= self._last:
                continue
            self._last = epoch
            try:
                manifest = read_manifest(self._files, epoch)
            except CheckpointError:
                continue
            busy = busy_of_labels(load(manifest.metrics))
            before = busy if self._busy is None else self._busy
            spent = {step: max(0.0, s - before.get(step, 0.0)) for step, s in busy.items()}
            self._busy = busy
            self.history.epoch(record_of(manifest, spent))


def record_of(manifest: Manifest, busy: dict[str, float]) -> EpochRecord:
    """Say what a manifest knows of its epoch; `busy`: seconds by step since the one before."""
    marks: dict[int, tuple[int, int]] = {}
    for place, (into, out) in manifest.watermarks.items():
        stage = int(place.partition("/")[0])
        known = marks.get(stage, (into, out))
        marks[stage] = (min(known[0], into), min(known[1], out))
    shards = []
    for name, chain in manifest.partitions.items():
        superstep, _, shard = name.partition("-")
        shards.append(
            ShardRecord(
                superstep=int(superstep), shard=int(shard),
                state_rows=sum(link.rows for link in chain.links),
                state_bytes=sum(link.size for link in chain.links),
            )
        )
    return EpochRecord(
        epoch=manifest.epoch, began=manifest.sources.now, now=manifest.sources.now, seconds=0.0,
        shards=tuple(sorted(shards, key=lambda task: (task.superstep, task.shard))),
        steps={step: StepRecord(busy=seconds) for step, seconds in busy.items()},
        sources={
            name: SourceRecord(
                watermark=clock.get("floor", MIN_TIME), ended=bool(clock.get("ended")),
                partitions={p: (at[0], at[1]) for p, at in clock.get("partitions", {}).items()},
            )
            for name, clock in manifest.sources.clocks.items()
        },
        watermarks=marks,
    )
