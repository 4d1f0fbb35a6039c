"""Reads what the tasks of an epoch report: of their shards, of metrics, of what user code logged.

Takes report rows and the metrics so far, gives shard reports, their sum, and the metrics with this
epoch's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.engine.metrics import merge, parse
from headrace.engine.replay import replay
from headrace.errors import TransportError
from headrace.state.chain import Chain
from headrace.worker.entry import LogReport, ShardReport, StageReport, from_row

#: Beam's monitoring infos, by the names of stages.
Infos = dict[str, list[Any]]


def gather(
    rows: Iterable[tuple[int, bytes]], stages: Sequence[str], before: Infos
) -> tuple[list[ShardReport], Infos]:
    """Take the reports of one epoch; what user code logged is logged here again.

    Args:
        rows: number and payload of each report row.
        stages: the names of the plan's stages, in its order.
        before: the metrics of all epochs before.
    """
    infos = {name: list(found) for name, found in before.items()}
    reports: list[ShardReport] = []
    for number, payload in rows:
        match from_row(number, payload):
            case LogReport(records):
                for record in records:
                    replay(record)
            case StageReport(stage, found):
                infos.setdefault(stages[stage], []).extend(parse(found))
            case ShardReport() as report:
                reports.append(report)
    return reports, {name: merge(found) for name, found in infos.items()}


def check_complete(reports: Iterable[ShardReport], supersteps: int, shards: int) -> None:
    """See that every shard of every superstep that keeps state has reported.

    The manifest takes a state partition's files from its report: without one, what the epoch did
    there would be forgotten, and nobody would know.
    """
    reported = {(report.superstep, report.shard) for report in reports}
    missing = [
        f"shard {shard} of superstep {superstep}"
        for superstep in range(1, supersteps)
        for shard in range(shards)
        if (superstep, shard) not in reported
    ]
    if missing:
        msg = (
            f"{', '.join(missing)} ran and did not report; the epoch does not count. A row was "
            "lost on the way to the driver: a defect of headrace or of Spark"
        )
        raise TransportError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSum:
    """What all tasks of one epoch have told of their shards."""

    partitions: Mapping[str, Chain]  # the state of those that keep any
    watermarks: Mapping[tuple[int, int], tuple[int, int]]  # (stage, shard) -> in and out
    highs: Mapping[str, int]  # partition of the DataFrame -> greatest event time
    wakeup: int | None  # earliest processing time at which something is due
    outputs: Mapping[int, int]  # output channel -> rows
    files: Mapping[int, list[str]]  # output channel -> files that workers wrote
    finalisers: int  # callbacks that wait for the commit
    dropped: int  # elements that came too late
    untimed: int  # rows without an event time
    pushed_back: int  # elements that wait for a side input
    state_rows: int
    state_bytes: Mapping[int, int]  # superstep -> bytes of state held
    restored: int  # state partitions whose copies were built from the checkpoint
    opened: int  # state partitions in all


def added_up(reports: Sequence[ShardReport]) -> EpochSum:
    """Add the reports of an epoch up."""
    highs: dict[str, int] = {}
    outputs: dict[int, int] = {}
    files: dict[int, list[str]] = {}
    state_bytes: dict[int, int] = {}
    held = [report for report in reports if report.partition]
    for report in reports:
        for partition, high in report.highs.items():
            highs[partition] = max(highs.get(partition, high), high)
        for channel, count in report.outputs.items():
            outputs[channel] = outputs.get(channel, 0) + count
        for channel, names in report.files.items():
            files.setdefault(channel, []).extend(names)
    for report in held:
        state_bytes[report.superstep] = state_bytes.get(report.superstep, 0) + report.held_bytes
    return EpochSum(
        partitions={r.partition: r.chain for r in reports if r.chain is not None},
        watermarks={(s, r.shard): pair for r in reports for s, pair in r.watermarks.items()},
        highs=highs,
        wakeup=min((r.wakeup for r in reports if r.wakeup is not None), default=None),
        outputs=outputs,
        files=files,
        finalisers=sum(r.finalisers for r in reports),
        dropped=sum(r.dropped for r in reports),
        untimed=sum(r.untimed for r in reports),
        pushed_back=sum(r.pushed_back for r in reports),
        state_rows=sum(r.rows for r in held),
        state_bytes=state_bytes,
        restored=sum(r.restored for r in held),
        opened=len(held),
    )
