"""The metrics of a run, whoever asks for them: `/metrics`, or a collector of OpenTelemetry.

Takes what was seen, gives families of samples. No element and no key stands in them: step, sink and
source names, numbers of supersteps and names of a source's partitions are all the labels there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.plan.epoch_records import EpochRecord
from headrace.ui.graph import Graph
from headrace.ui.history import Seen

#: Labels and value of one sample.
Sample = tuple[Mapping[str, str], float]


class Family(NamedTuple):
    """One metric: a counter only grows while a run goes on, a gauge goes up and down."""

    name: str
    kind: str  # "counter" or "gauge"
    words: str


#: All there are, in the order in which they are shown.
FAMILIES = (
    Family("headrace_up", "gauge", "1 while the run goes on."),
    Family("headrace_epochs_total", "counter", "Epochs that count."),
    Family("headrace_retries_total", "counter", "Tries at epochs that failed."),
    Family("headrace_epoch_part_seconds_total", "counter", "Seconds that epochs took, by part."),
    Family("headrace_epoch_seconds_total", "counter", "Seconds that epochs took."),
    Family("headrace_sink_seconds_total", "counter", "Seconds that sinks took."),
    Family(
        "headrace_publishing_seconds_total", "counter",
        "Seconds that sinks took to publish what epochs had set aside, beside the next epochs.",
    ),
    Family("headrace_elements_in_total", "counter", "Elements that came to a step."),
    Family("headrace_elements_out_total", "counter", "Elements that left a step."),
    Family(
        "headrace_busy_seconds_total", "counter",
        "Seconds that a step's code has run, on all shards.",
    ),
    Family("headrace_late_elements_total", "counter", "Elements dropped as too late."),
    Family("headrace_untimed_rows_total", "counter", "Rows left out without a time."),
    Family("headrace_epoch", "gauge", "The last epoch that counts."),
    Family("headrace_last_epoch_seconds", "gauge", "Seconds that the last epoch took."),
    Family("headrace_watermark_seconds", "gauge", "Watermark of a step, seconds since 1970."),
    Family(
        "headrace_watermark_lag_seconds", "gauge",
        "How far a step's watermark is behind processing time.",
    ),
    Family(
        "headrace_source_partition_seconds", "gauge",
        "Greatest event time of a source's partition, seconds since 1970.",
    ),
    Family("headrace_waiting_elements", "gauge", "Elements that wait for side inputs."),
    Family("headrace_state_rows", "gauge", "Rows of state, by superstep."),
    Family("headrace_state_bytes", "gauge", "Bytes of state, by superstep."),
    Family("headrace_finding", "gauge", "1 for each thing that is wrong now."),
)


def samples_of(seen: Seen) -> dict[str, list[Sample]]:
    """Give the samples of each family, by its name; a family without any is left out."""
    run = {"pipeline": seen.graph.name}
    found: dict[str, list[Sample]] = {}
    for name, samples in (*_sums(seen), *_of_last(seen)):
        made: list[Sample] = [({**run, **labels}, value) for labels, value in samples]
        if made:
            found[name] = made
    return found


def _by(label: str, found: Mapping[str, float]) -> list[Sample]:
    return [({label: name}, value) for name, value in found.items()]


def _by_stage(graph: Graph, counts: Mapping[int, int]) -> list[Sample]:
    """Add up what the stages of one name have."""
    found: dict[str, float] = {}
    for stage, count in counts.items():
        found[graph.stage(stage)] = found.get(graph.stage(stage), 0) + count
    return _by("step", found)


def _sums(seen: Seen) -> Iterator[tuple[str, Iterable[Sample]]]:
    totals = seen.totals
    parts = {
        "tasks": totals.tasks, "sinks": sum(totals.sinks.values()), "commit": totals.commit,
        "publishing": totals.waited,
    }
    yield "headrace_up", [({}, float(seen.state == "RUNNING"))]
    yield "headrace_epochs_total", [({}, totals.epochs)]
    yield "headrace_retries_total", [({}, totals.retries)]
    yield "headrace_epoch_part_seconds_total", _by("part", parts)
    yield "headrace_epoch_seconds_total", [({}, totals.seconds)]
    yield "headrace_sink_seconds_total", _by("sink", totals.sinks)
    yield "headrace_publishing_seconds_total", _by("sink", totals.published)
    yield "headrace_elements_in_total", _by("step", dict(totals.into))
    yield "headrace_elements_out_total", _by("step", dict(totals.out))
    yield "headrace_busy_seconds_total", _by("step", totals.busy)
    yield "headrace_late_elements_total", _by_stage(seen.graph, totals.late)
    yield "headrace_untimed_rows_total", [({}, totals.untimed)]


def _of_last(seen: Seen) -> Iterator[tuple[str, Iterable[Sample]]]:
    if not seen.epochs:
        return
    last = seen.epochs[-1]
    yield "headrace_epoch", [({}, last.epoch)]
    yield "headrace_last_epoch_seconds", [({}, last.seconds)]
    marks = _marks(seen.graph, last)
    yield "headrace_watermark_seconds", [
        ({"step": step, "side": side}, m / 1e6) for (step, side), m in marks.items()
    ]
    yield "headrace_watermark_lag_seconds", [
        ({"step": step, "side": side}, (last.now - m) / 1e6) for (step, side), m in marks.items()
    ]
    yield "headrace_source_partition_seconds", [
        ({"source": name, "partition": partition}, highest / 1e6)
        for name, source in last.sources.items()
        for partition, (highest, _) in source.partitions.items()
        if highest > MIN_TIME
    ]
    yield "headrace_waiting_elements", _by_stage(seen.graph, last.waiting)
    for what in ("rows", "bytes"):
        held: dict[str, float] = {}
        for task in last.shards:
            index = str(task.superstep)
            held[index] = held.get(index, 0) + getattr(task, f"state_{what}")
        yield f"headrace_state_{what}", _by("superstep", held)
    found = {(finding.kind, finding.subject) for finding in seen.findings}
    yield "headrace_finding", [
        ({"kind": kind, "subject": subject}, 1) for kind, subject in sorted(found)
    ]


def _marks(graph: Graph, last: EpochRecord) -> dict[tuple[str, str], int]:
    """Give the least watermark of each step's two sides, where there is one."""
    marks: dict[tuple[str, str], int] = {}
    for stage, pair in last.watermarks.items():
        for side, mark in zip(("in", "out"), pair, strict=True):
            place = graph.stage(stage), side
            if MIN_TIME < mark < MAX_TIME:
                marks[place] = min(marks.get(place, mark), mark)
    return marks
