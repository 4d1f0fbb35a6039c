"""Makes trials of the judged rows of a run: which load each row belongs to, how old it was.

A row belongs to the load in which its date lies. In a series a date may lie in a load though the
events of the load do not close its window: it is over when something newer has come, which is the
next load's. Such rows are checked and not timed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.lab.data_engine.schedule import F64, I64, Schedule
from headrace.lab.live.question import WorkloadQuestion
from headrace.lab.live.sent import SentEvents, SentSettings
from headrace.lab.live.worth import Judged
from headrace.lab.record.stages import EpochStages, stages_of
from headrace.lab.record.trial import Trial
from headrace.lab.verdict import Verdict
from headrace.lab.workload import find

#: What a queue has shown: seconds of the schedule, made, pulled, acknowledged.
Record = Sequence[tuple[float, int, int, int]]
#: A referee is named, not imported: it brings the packages of the oracles with it.
_JUDGE = "headrace.lab.live.judging:judged"
#: By so much the watermark of Spark's queries is behind the newest event: the end of a window that
#: is nearer to the end of a load is seen with the next one.
_BEHIND_SECONDS = 0.05


def judged_rows(
    question: WorkloadQuestion, asked: SentSettings, events: int,
    came: Sequence[tuple[float, pa.Table]],
) -> Judged:
    """Judge the rows of a run to which so many events were delivered.

    Args:
        question: that was asked.
        asked: its events.
        events: how many were delivered.
        came: the rows, with the times at which they left in seconds since 1970.
    """
    judge: Callable[..., Judged] = find(_JUDGE)
    with tempfile.TemporaryDirectory(prefix="headrace-lab-log-") as folder:
        return judge(
            question.workload, question.facts, question.settings, SentEvents(asked), events, came,
            Path(folder) / "log",
        )


def whole(
    trial: Trial, found: Judged, question: WorkloadQuestion, schedule: Schedule, *,
    begun: float, before: float, records: Record, epochs: Sequence[EpochStages] = (),
) -> Trial:
    """Give the trial of a run of one load, with its rows.

    Args:
        trial: without rows.
        found: what the rows are worth.
        question: that was asked.
        schedule: as it was kept to, with what comes before the load.
        begun: the load, in seconds since 1970.
        before: seconds of the schedule before the load.
        records: of the queue.
        epochs: of the run, where the system has told of them.
    """
    everywhere, undated = (-np.inf, np.inf), question.facts.undated
    trial = replace(trial, verdict=_verdict(found, everywhere, everywhere), undated=undated)
    return _timed(trial, found, schedule, (before, np.inf), begun, records, epochs)


def of_loads(
    trials: Sequence[Trial], found: Judged, question: WorkloadQuestion, schedule: Schedule,
    begun: Sequence[float], before: Sequence[float], records: Sequence[Record],
    epochs: Sequence[EpochStages] = (),
) -> tuple[Trial, ...]:
    """Give the trials of a series with their rows; see `whole` for what is given of each."""
    made = []
    for place, trial in enumerate(trials):
        # What comes before the first load counts as its own, and what nobody has sent as the
        # last's.
        start = before[place] if place else -np.inf
        end = before[place + 1] if place + 1 < len(trials) else np.inf
        went = begun[place] if place else -np.inf
        came = begun[place + 1] if place + 1 < len(trials) else np.inf
        told = _verdict(found, (start, end), (went, came))
        trial = replace(trial, verdict=told, undated=question.facts.undated)
        last = min(end, schedule.seconds)
        if question.facts.tail_seconds:
            last -= _BEHIND_SECONDS
        made.append(_timed(
            trial, found, schedule, (before[place], last), begun[place], records[place],
            epochs,
        ))
    return tuple(made)


def _verdict(found: Judged, dates: tuple[float, float], times: tuple[float, float]) -> Verdict:
    """Give the verdict on the rows of these dates, and on wrong ones that left at these times."""
    missing, surplus = _between(found.missing, dates).sum(), _between(found.surplus, times).sum()
    return Verdict(
        rows=int(_between(found.due, dates).sum() + surplus),
        expected=int(_between(found.expected, dates).sum()),
        missing=int(missing), surplus=int(surplus),
        missing_rows=found.missing_rows if missing else (),
        surplus_rows=found.surplus_rows if surplus else (),
    )


def _between(values: F64, ends: tuple[float, float]) -> I64:
    """Say of values whether they are between two ends, the second left out; 1 or 0."""
    return ((values >= ends[0]) & (values < ends[1])).astype(np.int64)


def _timed(
    trial: Trial, found: Judged, schedule: Schedule, dates: tuple[float, float], begun: float,
    record: Record, epochs: Sequence[EpochStages],
) -> Trial:
    """Give a trial the rows of these dates, in seconds of its load."""
    own = _between(found.due, dates).astype(bool)
    due, left = found.due[own], found.left[own]
    before = dates[0]
    told = np.array(record, dtype=np.float64).reshape(-1, 4)
    taken = np.zeros(len(due))
    if len(told) and len(due):
        newest = schedule.newest_at(due)
        places = np.searchsorted(told[:, 2], newest, side="right")
        taken = told[np.minimum(places, len(told) - 1), 0] - before
    due, left = due - before, left - begun
    return replace(
        trial, due=due, left=left, stages=stages_of(due, taken, left, epochs, begun)
    )
