"""What a manifest says, how its bytes are sealed, and which files no manifest needs any more.

Pure: bytes and names in, decisions out. Opens no file; `checkpoints` does what is decided here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.errors import CheckpointError
from headrace.plan.sources import ScriptOutput
from headrace.state.chain import Chain
from headrace.state.files import UNFINISHED

#: Version of the checkpoint that is written, and those that can be read; docs/checkpoint-format.md
#: tells them apart.
FORMAT = 5
READABLE = (1, 2, 3, 4, 5)
#: Digits of a number in a file name at least: eight last a year of 300 ms epochs, longer ones work.
DIGITS = 8
#: Manifests that stay readable, and with them every file they name.
KEPT_MANIFESTS = 3

_WRITTEN_BY = "it was written by"
_WAY_ON = "run the pipeline with the version that wrote the checkpoint, or a later one"
_SUM = b"sha256 "
_SUM_BYTES = len(_SUM) + 64 + 1  # the last line, with its end
_NUMBERED = re.compile(rf"\d{{{DIGITS},}}(?!\d)")
_UNFINISHED = re.compile(re.escape(UNFINISHED) + r"[0-9a-f]+-")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """What a batch of Spark's was that counts: see `headrace.engine.checkpoint.spark_log`."""

    folder: str  # of the query's log below the checkpoint
    batch: int
    sums: Mapping[str, str]  # digests of the files that say so, by their names below the folder

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LogRecord:
        """Read what `asdict` gave."""
        return cls(
            folder=str(data["folder"]), batch=int(data["batch"]), sums=dict(data["sums"])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """Where the sources are after an epoch, and what else a driver needs to go on from there."""

    now: int = 0  # processing time of the epoch, in microseconds
    clocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # `SourceClock.to_json`
    read: tuple[str, ...] = ()  # bounded DataFrames that are read
    steps: Mapping[str, int] = field(default_factory=dict)  # test stream -> steps it has done
    marks: Mapping[ScriptOutput, int] = field(default_factory=dict)  # what they said of watermarks
    wakeup: int | None = None  # processing time at which something is due
    drained: bool = False  # the sources were told to end
    begun: bool = True  # the impulses have fired; manifests of format 1 do not say
    writer: str = ""  # names the run for sinks that count epochs

    def to_json(self) -> dict[str, Any]:
        """Give what the manifest's file holds."""
        return {
            "now": self.now, "clocks": self.clocks, "read": list(self.read), "steps": self.steps,
            "marks": {f"script:{o.script}:{o.tag}": mark for o, mark in self.marks.items()},
            "wakeup": self.wakeup, "drained": self.drained, "begun": self.begun,
            "writer": self.writer,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SourceRecord:
        """Read what `to_json` gave; TypeError if there is anything else."""
        fields = dict(data)
        marks = {}
        for name, mark in fields.pop("marks", {}).items():
            script, _, tag = name.partition(":")[2].rpartition(":")
            marks[ScriptOutput(script, tag)] = int(mark)
        return cls(marks=marks, read=tuple(fields.pop("read", ())), **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that must be known to go on after an epoch."""

    epoch: int
    incarnation: int  # of the driver that wrote it
    shards: int  # that the state partitions were made for
    pipeline: str  # digest of the pipeline's description
    partitions: Mapping[str, Chain]  # "superstep-shard" -> where its state is
    watermarks: Mapping[str, Any] = field(default_factory=dict)
    sources: SourceRecord = SourceRecord()
    metrics: bytes = b""
    batches: Mapping[str, int] = field(default_factory=dict)  # source -> Spark's last batch
    logs: Mapping[str, LogRecord] = field(default_factory=dict)  # source -> what that batch was
    takeover: bool = False  # an epoch without rows by which a driver has shut an older one out

    def to_bytes(self) -> bytes:
        """Give the sealed file."""
        return seal(
            {
                "epoch": self.epoch,
                "incarnation": self.incarnation,
                "shards": self.shards,
                "pipeline": self.pipeline,
                # Called so since format 1.
                "units": {name: chain.to_json() for name, chain in self.partitions.items()},
                "watermarks": self.watermarks,
                "sources": self.sources.to_json(),
                "metrics": base64.b64encode(self.metrics).decode(),
                "batches": self.batches,
                "logs": {source: asdict(log) for source, log in self.logs.items()},
                "takeover": self.takeover,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read a sealed file; ValueError says what is wrong with it."""
        found = unseal(data)
        try:
            metrics = base64.b64decode(found.pop("metrics"), validate=True)
            partitions = {
                name: Chain.from_json(data) for name, data in found.pop("units").items()
            }
            logs = {
                source: LogRecord.from_json(log) for source, log in found.pop("logs", {}).items()
            }
            sources = SourceRecord.from_json(found.pop("sources", {}))
            found.pop("done", None)  # was written before and meant nothing
            return cls(metrics=metrics, partitions=partitions, logs=logs, sources=sources, **found)
        except (AttributeError, KeyError, TypeError, binascii.Error, CheckpointError) as e:
            msg = f"it is not a manifest ({e})"
            raise ValueError(msg) from e

    def files(self) -> set[str]:
        """Give the names of all files that hold the state of this epoch."""
        return {name for chain in self.partitions.values() for name in chain.names()}


def seal(content: Mapping[str, Any]) -> bytes:
    """Give JSON and, in a last line, the checksum of its exact bytes."""
    body = json.dumps(
        {**content, "format": FORMAT}, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
    return body + b"\n" + _SUM + hashlib.sha256(body).hexdigest().encode() + b"\n"


def unseal(data: bytes) -> dict[str, Any]:
    """Read what `seal` gave; ValueError says what is wrong with it."""
    body, last = data[: -_SUM_BYTES - 1], data[-_SUM_BYTES - 1 :]
    # Compared as bytes: a digest read as a number would let upper case pass.
    if last != b"\n" + _SUM + hashlib.sha256(body).hexdigest().encode() + b"\n":
        msg = f"its checksum does not fit its {len(data)} bytes"
        raise ValueError(msg)
    found = json.loads(body)
    written = found.pop("format", None)
    if written not in READABLE:
        newer = isinstance(written, int) and written > FORMAT
        which = f"{'a newer' if newer else 'another'} version of headrace (format {written}, this"
        msg = f"{_WRITTEN_BY} {which} one reads up to {FORMAT}): {_WAY_ON}"
        raise ValueError(msg)
    return dict(found)


def numbered(number: int) -> str:
    """Give the file name of a number: of an epoch's manifest, of an incarnation."""
    return f"{number:0{DIGITS}d}.json"


def number_of(name: str) -> int | None:
    """Read the number at the beginning of a file's name; None if there is none."""
    base = _UNFINISHED.sub("", name.rpartition("/")[2], count=1)
    found = _NUMBERED.match(base)
    return int(found.group()) if found else None


def retired(leaving: Iterable[Manifest], kept: Sequence[Manifest]) -> set[str]:
    """Give the files that manifests about to be deleted name, and no kept one does."""
    named: set[str] = set().union(*(manifest.files() for manifest in leaving))
    return named.difference(*(manifest.files() for manifest in kept))


def orphans(names: Iterable[str], kept: Sequence[Manifest]) -> list[str]:
    """Choose among files below `state` those that no attempt and no kept manifest can need.

    Files of the oldest kept epoch or a later one stay: a task may just have written them for an
    epoch that has not been committed yet.
    """
    needed: set[str] = set().union(*(manifest.files() for manifest in kept))
    oldest = min((manifest.epoch for manifest in kept), default=0)
    return [
        name
        for name in names
        if name not in needed and (epoch := number_of(name)) is not None and epoch < oldest
    ]


Marks = dict[tuple[int, int], tuple[int, int]]


def watermarks_of(manifest: Manifest, shards: int) -> Marks:
    """Give the watermarks, in and out, by stage and shard, for a number of shards."""
    marks: Marks = {}
    for name, pair in manifest.watermarks.items():
        stage, shard = map(int, name.split("/"))
        marks[stage, shard] = (pair[0], pair[1])
    return marks if manifest.shards == shards else _dealt(marks, shards)


def former_partitions(manifest: Manifest, shards: int) -> dict[int, tuple[Chain, ...]]:
    """Give by superstep what another number of shards held; nothing if it has not changed."""
    if manifest.shards == shards:
        return {}
    found: dict[int, list[Chain]] = {}
    for name, chain in sorted(manifest.partitions.items(), key=lambda item: _numbers(item[0])):
        found.setdefault(_numbers(name)[0], []).append(chain)
    return {superstep: tuple(chains) for superstep, chains in found.items()}


def _numbers(name: str) -> tuple[int, int]:
    superstep, shard = name.split("-")
    return int(superstep), int(shard)


def _dealt(marks: Marks, shards: int) -> Marks:
    """Give every new shard the least watermarks of the old ones."""
    least: dict[int, tuple[int, int]] = {}
    for (stage, _), (into, out) in marks.items():
        known = least.get(stage, (into, out))
        least[stage] = (min(known[0], into), min(known[1], out))
    return {(stage, shard): pair for stage, pair in least.items() for shard in range(shards)}


def damage(path: str, wrong: str, remedy: str) -> CheckpointError:
    """Make the error for a file of a checkpoint that cannot be read.

    A file of another version is whole, and nothing that is done about damage would help.
    """
    if wrong.startswith(_WRITTEN_BY):
        return CheckpointError(f"{path} {wrong.removeprefix('it ')}")
    return CheckpointError(f"{path} is damaged: {wrong}. {remedy}")
