"""What driver and tasks tell each other: a task, an epoch, reports. Frozen data."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from headrace.plan.clocks import SourceClock
from headrace.plan.scans import Part
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Channel, Superstep
from headrace.state.chain import Chain
from headrace.state.files import Files
from headrace.state.local import LocalFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepTask:
    """Everything a task must know."""

    superstep: Superstep
    depths: tuple[int, ...]  # for each channel, the superstep that reads it
    channels: tuple[Channel, ...]
    components: bytes
    shards: int
    settings: Settings
    stage_numbers: tuple[int, ...]  # for each stage of the superstep, its place in the plan
    schemas: tuple[tuple[int, bytes], ...] = ()  # for each output channel, its Arrow schema
    direct: tuple[int, ...] = ()  # the output channels that the workers write as files themselves
    source: int | None = None  # the channel that a DataFrame feeds; None: super tuples come in
    roots: tuple[tuple[int, ...], ...] = ()  # for each channel, the sources that feed it directly
    pulses: tuple[int, ...] = ()  # for each channel, the pulses that a reader waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch, as a task sees it."""

    run: str  # names the driver's run: what a process keeps between epochs, it keeps under this
    number: int
    incarnation: int
    attempt: str  # names this try at the epoch
    confirmed: tuple[str, ...]  # the tries that counted, the latest ones
    now: int  # processing time, in microseconds
    first: bool  # impulses fire
    drain: bool  # the sources have been told to end
    sources: Mapping[int, int]  # for each source channel without a clock: its watermark
    clocks: Mapping[int, SourceClock]  # for each channel that a DataFrame feeds: as it was before
    feeding: int | None  # the channel that a DataFrame feeds in this very epoch
    ending: bool  # that DataFrame is whole after this epoch
    arrivals: tuple[tuple[int, str, tuple[tuple[bytes, int], ...]], ...]  # channel, coder, elements
    chains: Mapping[str, Chain]  # for each state partition: where it is
    former: Mapping[int, tuple[Chain, ...]]  # superstep -> those of another number of shards
    watermarks: Mapping[tuple[int, int], tuple[int, int]]  # (stage, shard): in and out, last epoch
    files: Files | None  # the checkpoint folder; None: nothing outlives the epoch
    next_driver: str  # the file in it that tells of a newer driver
    local: LocalFolder | None  # where stores are kept, on whichever machine; None: likewise
    direct: Mapping[int, str]  # output channels that workers write themselves -> in which folder
    bundle_seconds: float  # how long a splittable DoFn may run before it is split
    # What each task reads itself of the channel that is fed; empty: Spark hands rows over.
    parts: tuple[tuple[Part, ...], ...] = ()
    last: bool = False  # after this epoch all sources have ended
    traces: str = ""  # where tasks write down what they are about, one element at a time; empty: no


#: The epoch that a batch is: everything comes in it, and nothing outlives it.
ONLY_EPOCH = Epoch(
    run="", number=0, incarnation=0, attempt="only", confirmed=(), now=0, first=True, drain=False,
    sources={}, clocks={}, feeding=None, ending=True, arrivals=(), chains={}, former={},
    watermarks={}, files=None, next_driver="", local=None, direct={}, bundle_seconds=inf,
)


def to_text(epoch: Epoch) -> str:
    """Give an epoch as text, for where a task is told of it beside its plan."""
    return base64.b85encode(pickle.dumps(epoch, pickle.HIGHEST_PROTOCOL)).decode()


def from_text(text: str) -> Epoch:
    """Read what `to_text` gave.

    >>> from_text(to_text(ONLY_EPOCH)) == ONLY_EPOCH
    True
    """
    epoch: Epoch = pickle.loads(base64.b85decode(text))
    return epoch


@dataclass(frozen=True, slots=True)
class StageReport:
    """Beam's monitoring infos of one stage in one task."""

    stage: int  # its place in the plan
    infos: bytes  # a list of Beam's protos, as `engine.metrics` reads it


@dataclass(frozen=True, slots=True)
class LogReport:
    """What user code logged and warned about in one task, if the driver was not told at once."""

    records: tuple[Mapping[str, Any], ...]  # as `worker.task.logs` makes them


#: Fields of a report that are named by the numbers of stages or channels, which JSON has as texts.
_PAIRS = ("watermarks", "merged", "holds", "keys")
_NUMBERED = (*_PAIRS, "outputs", "files", "arrived", "late", "waiting", "samples")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport:
    """What a task of a streaming run tells the driver of its shard. Travels as JSON."""

    superstep: int
    shard: int
    partition: str = ""  # empty: the superstep keeps no state
    chain: Chain | None = None
    rows: int = 0  # of state held
    held_bytes: int = 0
    restored: bool = False  # the local store had to be built from the checkpoint
    watermarks: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # by stage: in and out
    wakeup: int | None = None  # earliest processing time at which something is due
    highs: Mapping[str, int] = field(default_factory=dict)  # of the DataFrame that was read
    dropped: int = 0  # elements that came too late
    untimed: int = 0  # rows that were left out, as they had no event time
    pushed_back: int = 0  # elements that wait for a side input
    finalisers: int = 0  # callbacks that wait for the commit
    outputs: Mapping[int, int] = field(default_factory=dict)  # output channel -> rows
    files: Mapping[int, list[str]] = field(default_factory=dict)  # output channel -> files written
    arrived: Mapping[int, int] = field(default_factory=dict)  # channel of a grouping -> elements
    # Channel -> elements whose accumulators were merged before they travelled; hot keys of them.
    merged: Mapping[int, tuple[int, Mapping[str, int]]] = field(default_factory=dict)
    host: str = ""
    task: int = -1  # where a DataFrame feeds it, which of its partitions; else as the shard
    seconds: float = 0.0  # that the task has taken
    sealing: float = 0.0  # of them, to write what is kept to the checkpoint
    late: Mapping[int, int] = field(default_factory=dict)  # stage -> of `dropped`
    waiting: Mapping[int, int] = field(default_factory=dict)  # stage -> of `pushed_back`
    # Stage -> what holds its output watermark behind its input's, and where.
    holds: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    # Channel -> about how many elements went to it; hot keys of them. If the run is watched.
    keys: Mapping[int, tuple[int, Mapping[str, int]]] = field(default_factory=dict)
    samples: Mapping[int, list[str]] = field(default_factory=dict)  # stage -> elements, if asked

    def to_bytes(self) -> bytes:
        """Give the report as JSON."""
        fields = asdict(self) | {
            "chain": None if self.chain is None else self.chain.to_json(),
            **{name: {str(n): v for n, v in getattr(self, name).items()} for name in _NUMBERED},
        }
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardReport:
        """Read a report."""
        fields: dict[str, Any] = json.loads(data)
        chain = fields.pop("chain")
        for name in _NUMBERED:
            pair = name in _PAIRS
            fields[name] = {
                int(n): (v[0], v[1]) if pair else v for n, v in fields[name].items()
            }
        return cls(**fields, chain=None if chain is None else Chain.from_json(chain))


#: What a task tells the driver, one row for each.
Report = StageReport | LogReport | ShardReport

#: What the number of a report row says: what kind it is, and of a stage, which one.
_LOGS = -1
_SHARD = -2


def to_row(report: Report) -> tuple[int, bytes]:
    """Give the number and the payload of the row by which a report travels."""
    match report:
        case StageReport(stage, infos):
            return stage, infos
        case LogReport(records):
            return _LOGS, json.dumps(records).encode()
        case ShardReport():
            return _SHARD, report.to_bytes()


def from_row(number: int, payload: bytes) -> Report:
    """Read what `to_row` gave.

    >>> from_row(*to_row(StageReport(3, b"infos")))
    StageReport(stage=3, infos=b'infos')
    """
    if number == _LOGS:
        return LogReport(tuple(json.loads(payload)))
    if number == _SHARD:
        return ShardReport.from_bytes(payload)
    return StageReport(number, payload)
