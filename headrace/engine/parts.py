"""Says how long the parts of an epoch took, from what its tasks have reported.

Pure: laps, reports and a layout in, a few seconds out. A superstep is over when its slowest shard
is; so what computing took is added up along the slowest ones, and the rest of a job is Spark's:
planning, starting tasks, moving rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.engine.layouts import Layout
from headrace.worker.entry import ShardReport

#: How many of the last epochs are remembered: some minutes of a busy stream, a few hundred bytes
#: each.
RECENT_EPOCHS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochParts:
    """When an epoch that counts began, and how many seconds its parts took."""

    epoch: int
    began: float  # seconds since 1970
    tasks: float  # from its beginning until the reports of all its tasks were here
    computing: float  # of them, in workers, along the slowest shard of each superstep
    sealing: float  # of them, beside computing: state written to the checkpoint
    sinks: float  # after them: what left by sinks
    commit: float  # last: until the manifest was there


def parts_of(
    epoch: int, began: float, laps: Mapping[str, float], reports: Iterable[ShardReport],
    layout: Layout,
) -> EpochParts:
    """Give the parts of an epoch.

    Args:
        epoch: its number.
        began: seconds since 1970.
        laps: the seconds of `tasks`, `sinks` and `commit`.
        reports: of its tasks.
        layout: shards run side by side as stages, and one after the other as one task.
    """
    slowest: dict[object, tuple[float, float]] = {}
    for report in reports:
        own = (report.superstep, report.shard, report.task)
        place = report.superstep if layout is Layout.STAGES else own
        slowest[place] = max(slowest.get(place, (0.0, 0.0)), (report.seconds, report.sealing))
    sealing = sum(sealed for _, sealed in slowest.values())
    computing = sum(seconds for seconds, _ in slowest.values()) - sealing
    tasks = laps["tasks"]
    # Shards that had to wait for each other, on fewer cores, were counted as if they had not.
    less = min(1.0, tasks / (computing + sealing)) if computing + sealing else 1.0
    return EpochParts(
        epoch=epoch, began=began, tasks=tasks, computing=computing * less, sealing=sealing * less,
        sinks=laps["sinks"], commit=laps["commit"],
    )
