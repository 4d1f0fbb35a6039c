"""What one epoch was: how long its parts took, what went where, what held time back.

Frozen data of plain values that the engine makes after each epoch and whoever watches a run reads;
a few figures for each stage, shard and step, none for each element. Stages and channels are named
by their numbers in the plan, times are microseconds. Knows nothing of how it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: How Beam and sinks name the step in an exception.
_STEP = re.compile(r"\[while (?:running|writing epoch \d+ in step) '(.*?)'\]")
#: Letters of what an exception said.
_TEXT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """One task of an epoch."""

    superstep: int
    shard: int
    seconds: float = 0.0
    sealing: float = 0.0  # of them, to write state to the checkpoint
    state_rows: int = 0
    state_bytes: int = 0
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of the user's pipeline in an epoch."""

    into: int = 0  # elements that came to it
    out: int = 0  # elements of the largest collection that it gave
    busy: float = 0.0  # seconds that its code has run, on all shards together


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """How far a source was after an epoch."""

    watermark: int
    partitions: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # highest, last heard
    idle_after: int | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HotRecord:
    """What went to an exchange by key, about, and the keys with a large share of it."""

    elements: int
    keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRecord:
    """A try at an epoch that failed."""

    epoch: int
    error: str  # the exception's class
    step: str  # who raised it; empty: nobody knows
    text: str = ""  # what it said: may have data of the user's in it


def retry_of(epoch: int, error: BaseException) -> RetryRecord:
    """Say what a try at an epoch failed by."""
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    step = _STEP.search(text)
    return RetryRecord(
        epoch=epoch, error=type(error).__name__, step=step.group(1) if step else "",
        text=text[:_TEXT],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """One epoch that counts."""

    epoch: int
    began: int  # by the machine's clock
    seconds: float
    now: int  # processing time, which a test may move
    tasks: float = 0.0  # seconds, with all that Spark does for them
    sinks: Mapping[str, float] = field(default_factory=dict)  # seconds by sink
    commit: float = 0.0  # seconds, of the manifest
    waited: float = 0.0  # seconds at its end, until the epoch before was published
    #: Seconds by sink: what publishing the epoch before took, beside this one and in its wait.
    published: Mapping[str, float] = field(default_factory=dict)
    shards: tuple[ShardRecord, ...] = ()
    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    sources: Mapping[str, SourceRecord] = field(default_factory=dict)  # by read
    #: Stage -> its input and output watermark, the least of its shards.
    watermarks: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    #: Stage -> what holds its output watermark behind its input's, and where.
    holds: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    late: Mapping[int, int] = field(default_factory=dict)  # stage -> elements dropped
    waiting: Mapping[int, int] = field(default_factory=dict)  # stage -> elements without side input
    arrived: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # channel -> by shard
    hot: Mapping[int, HotRecord] = field(default_factory=dict)  # by channel
    outputs: Mapping[int, int] = field(default_factory=dict)  # output channel -> rows
    untimed: int = 0  # rows without an event time
    restored: int = 0  # state partitions that had to be built from the checkpoint
    retries: tuple[RetryRecord, ...] = ()  # that came before it, since the epoch before
    samples: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # stage -> elements
