"""Decides how the tasks of an epoch are laid out: as stages of Spark's, or as one task.

Pure: what is known of an epoch before it starts in, a layout and its reason out. A stage of Spark's
costs the same for ten elements as for ten million; an epoch of ten is better off without most of
them. Either layout gives the same answers, files and reports, so a guess that was wrong costs time
alone: the epoch runs on one core, and what it holds beyond memory goes to disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.worker.entry import ShardReport

#: Elements that come in from outside; at 20 us each they are less than a stage.
FEW_ELEMENTS = 1_000
#: Shards of all supersteps: each opens its state and writes a change log, one after the other.
FEW_SHARD_RUNS = 32
#: What all shards hold together. All of it may fire at once when time moves on.
FEW_STATE_ROWS = 20_000
SMALL_STATE_BYTES = 32 << 20  # of pages, of which a state partition has some from the beginning
#: What all tasks of an epoch take together, so that it does not matter how many cores share it.
SMALL_SECONDS = 0.1


class SmallEpochs(Enum):
    """What the user wants of small epochs."""

    AUTO = "auto"  # one task for an epoch that is known to be small
    OFF = "off"  # stages for every epoch
    ALWAYS = "always"  # one task for every epoch, however large; for tests


class Layout(Enum):
    """How the tasks of an epoch are laid out."""

    STAGES = "stages"  # a task for each shard of each superstep, an exchange in between
    ONE_TASK = "one task"  # all shards of all supersteps one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known of an epoch before it starts."""

    wish: SmallEpochs
    near: bool  # all tasks run on one machine, and the checkpoint is on its disk
    fed_in_order: bool = False  # a DataFrame feeds it, and the order of its partitions counts
    known: bool = True  # whether it is known what comes in: no impulse, no end of all sources
    elements: int | None = 0  # that come in; None: nobody knows
    shard_runs: int = 0  # shards of all supersteps
    state_rows: int = 0
    state_bytes: int = 0
    seconds: float | None = None  # that tasks of such epochs took of late; None: there was none
    lost: bool = False  # a worker was lost in this very epoch


def layout_of(outlook: Outlook) -> tuple[Layout, str]:
    """Give the layout of an epoch, and why it is so."""
    if (reason := _reason_for_stages(outlook)) is not None:
        return Layout.STAGES, reason
    return Layout.ONE_TASK, "it is small"


def _reason_for_stages(o: Outlook) -> str | None:
    if o.wish is SmallEpochs.OFF:
        return "--small_epochs=off"
    if o.fed_in_order:
        return "the order of a DataFrame's partitions counts"
    if o.lost:
        return "a worker was lost in it"
    if o.wish is SmallEpochs.ALWAYS:
        return None
    if not o.near:
        return "tasks or the checkpoint are not on one machine"
    if not o.known or o.elements is None:
        return "nobody knows how much comes in"
    sizes = (
        ("elements come in", o.elements, FEW_ELEMENTS),
        ("shards of supersteps", o.shard_runs, FEW_SHARD_RUNS),
        ("rows of state", o.state_rows, FEW_STATE_ROWS),
        ("bytes of state", o.state_bytes, SMALL_STATE_BYTES),
    )
    for what, found, most in sizes:
        if found > most:
            return f"{found} {what}"
    if o.seconds is None:
        return "the first of its kind since the start"
    if o.seconds > SMALL_SECONDS:
        return f"tasks took {o.seconds:.1f} s of late"
    return None


@dataclass(frozen=True, slots=True)
class Work:
    """What the tasks of epochs took of late, by what fed them.

    >>> work = Work().after("bids", 1.0).after("bids", 0.1)
    >>> work.of_late("bids"), work.of_late("")
    (0.5, None)
    """

    seconds: Mapping[str, float] = field(default_factory=dict)  # by the read; empty: our own loop

    def of_late(self, source: str) -> float | None:
        """Give the seconds, or None if there was no such epoch."""
        return self.seconds.get(source)

    def after(self, source: str, seconds: float) -> Work:
        """Count an epoch; a long one is forgotten by halves, as it may come again soon."""
        known = max(seconds, self.seconds.get(source, 0.0) / 2)
        return Work({**self.seconds, source: known})


def task_seconds(reports: Iterable[ShardReport]) -> float:
    """Add up what the tasks of an epoch took."""
    return sum(report.seconds for report in reports)
