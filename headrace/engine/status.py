"""What a streaming run is told and what it shows of itself. Data, and how it is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from headrace.engine.layouts import Layout, SmallEpochs
from headrace.engine.parts import RECENT_EPOCHS, EpochParts
from headrace.engine.reports import EpochSum, Infos
from headrace.engine.skew import Skew
from headrace.plan.supersteps import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """What the live page shows, and where."""

    host: str = "127.0.0.1"
    port: int | None = None  # None: the first free one of a few
    samples: bool = False  # elements, and what exceptions said
    keys: bool = True  # hot keys by name


class WhoAsks(Enum):
    """Who asks the sources of streaming DataFrames what is new, on a classic session."""

    SPARK = "spark"  # Structured Streaming's queries
    HEADRACE = "headrace"  # our own loop, where workers read for themselves; else Spark


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a streaming run goes on."""

    checkpoint: str = ""  # empty: a folder of its own that ends with the run
    state_dir: str = ""  # where stores are kept on each machine; empty: below the temporary folder
    trigger_seconds: float = 0.0  # 0: as fast as possible
    available_now: bool = False
    drain_available: bool = False  # with `available_now`: drain then, instead of stopping
    bundle_seconds: float = 1.0
    remove_later_epochs: bool = False  # what a sink holds of epochs that the checkpoint lacks goes
    small_epochs: SmallEpochs = SmallEpochs.AUTO  # whether they run as one task
    who_asks: WhoAsks = WhoAsks.SPARK
    max_retries: int = 0  # of an epoch, after an exception that is not headrace's own
    page: PageOptions | None = None  # None: no live page


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """How the epochs since the start were laid out."""

    one_task: int = 0  # epochs that ran as one task
    stages: int = 0
    last: Layout = Layout.STAGES
    reason: str = ""  # why the last one was laid out as it was

    def after(self, layout: Layout, reason: str) -> Layouts:
        """Count an epoch."""
        small = layout is Layout.ONE_TASK
        return Layouts(
            one_task=self.one_task + small, stages=self.stages + (not small), last=layout,
            reason=reason,
        )


@dataclass(kw_only=True)
class StreamStatus:
    """What a run shows of itself while it goes on. Replaced as a whole after each epoch."""

    epoch: int = -1
    epoch_seconds: float = 0.0
    elements_late: int = 0
    rows_untimed: int = 0  # left out by `bad_times="drop"`, since the start
    retries: int = 0  # epochs that were run again since the start, each time counted
    pushed_back: int = 0
    state_rows: int = 0  # these two as the last epoch found them, before what it wrote itself
    state_bytes: int = 0
    state_of_supersteps: Mapping[int, int] = field(default_factory=dict)  # the same, by superstep
    restores: int = 0  # shards that had to be built from the checkpoint, since the start
    openings: int = 0  # shards that were opened, since the start
    watermarks: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by step: in and out
    monitoring_infos: dict[str, list[Any]] = field(default_factory=dict)
    layouts: Layouts = field(default_factory=Layouts)  # stages of Spark's, or one task
    skew: Skew = field(default_factory=Skew)  # how evenly the shards are loaded
    recent: tuple[EpochParts, ...] = ()  # the last epochs since the start, and how long they took

    def with_epoch(self, parts: EpochParts, layout: Layout, reason: str) -> StreamStatus:
        """Remember how an epoch was laid out, why, and how long its parts took."""
        return replace(
            self, layouts=self.layouts.after(layout, reason),
            recent=(*self.recent[1 - RECENT_EPOCHS :], parts),
        )


def by_step(
    plan: Plan, watermarks: Mapping[tuple[int, int], tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Give for each step of the pipeline the least watermarks, in and out, of its shards.

    Args:
        plan: says which steps a stage has.
        watermarks: by stage and shard.
    """
    stages = list(plan.stages())
    found: dict[str, tuple[int, int]] = {}
    for (stage, _), (into, out) in watermarks.items():
        for step in stages[stage].operators or (stages[stage].name,):
            known = found.get(step, (into, out))
            found[step] = (min(known[0], into), min(known[1], out))
    return found


def shown_after(
    before: StreamStatus, *, epoch: int, seconds: float, summed: EpochSum,
    watermarks: Mapping[str, tuple[int, int]], infos: Infos, skew: Skew,
) -> StreamStatus:
    """Give what a run shows of itself once an epoch counts.

    Args:
        before: what it showed so far.
        epoch: the epoch's number.
        seconds: how long it took.
        summed: what its tasks have told.
        watermarks: by step.
        infos: the metrics of all epochs.
        skew: what came to which shard in all epochs.
    """
    return replace(
        before,
        epoch=epoch,
        epoch_seconds=seconds,
        elements_late=before.elements_late + summed.dropped,
        rows_untimed=before.rows_untimed + summed.untimed,
        pushed_back=summed.pushed_back,
        state_rows=summed.state_rows,
        state_bytes=sum(summed.state_bytes.values()),
        state_of_supersteps=summed.state_bytes,
        restores=before.restores + summed.restored,
        openings=before.openings + summed.opened,
        watermarks=watermarks,
        monitoring_infos=infos,
        skew=skew,
    )
