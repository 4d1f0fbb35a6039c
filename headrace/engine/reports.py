"""Reads what the tasks of an epoch report: of their shards, of metrics, of what user code logged.

Takes report rows and the metrics so far, gives shard reports and the metrics with this epoch's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.engine.metrics import merge, parse
from headrace.engine.replay import replay
from headrace.errors import TransportError
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

    The manifest takes a unit's files from its report: without one, what the epoch did there would
    be forgotten, and nobody would know.
    """
    told = {(report.superstep, report.shard) for report in reports}
    missing = [
        f"shard {shard} of superstep {superstep}"
        for superstep in range(1, supersteps)
        for shard in range(shards)
        if (superstep, shard) not in told
    ]
    if missing:
        msg = (
            f"{', '.join(missing)} ran and did not report; the epoch does not count. A row was "
            "lost on the way to the driver: a defect of headrace or of Spark"
        )
        raise TransportError(msg)
