"""Writes what is known of a run as Prometheus reads it: text format 0.0.4.

Takes what was seen, gives text. No element and no key stands in it: step, sink and source names,
numbers of supersteps and names of a source's partitions are all the labels there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.ui.history import Seen

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Labels and value of one line.
Sample = tuple[Mapping[str, str], float]


def metrics_text(seen: Seen) -> str:
    """Write all metrics."""
    return "".join(_families(seen))


def _families(seen: Seen) -> Iterable[str]:
    totals, epochs, graph = seen.totals, seen.epochs, seen.graph
    run = {"pipeline": graph.name}

    def family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
        return family_text(name, kind, words, [({**run, **labels}, n) for labels, n in samples])

    def by(label: str, found: Mapping[str, float]) -> list[Sample]:
        return [({label: name}, value) for name, value in found.items()]

    late: dict[str, float] = {}
    for stage, count in totals.late.items():
        late[graph.stage(stage)] = late.get(graph.stage(stage), 0) + count
    yield family("headrace_up", "gauge", "1 while the run goes on.",
                 [({}, float(seen.state == "RUNNING"))])
    yield family("headrace_epochs_total", "counter", "Epochs that count.", [({}, totals.epochs)])
    yield family("headrace_retries_total", "counter", "Tries at epochs that failed.",
                 [({}, totals.retries)])
    parts = {"tasks": totals.tasks, "sinks": sum(totals.sinks.values()), "commit": totals.commit}
    yield family("headrace_epoch_part_seconds_total", "counter",
                 "Seconds that epochs took, by part.", by("part", parts))
    yield family("headrace_epoch_seconds_total", "counter", "Seconds that epochs took.",
                 [({}, totals.seconds)])
    yield family("headrace_sink_seconds_total", "counter", "Seconds that sinks took.",
                 by("sink", totals.sinks))
    yield family("headrace_elements_in_total", "counter", "Elements that came to a step.",
                 by("step", dict(totals.into)))
    yield family("headrace_elements_out_total", "counter", "Elements that left a step.",
                 by("step", dict(totals.out)))
    yield family("headrace_busy_seconds_total", "counter",
                 "Seconds that a step's code has run, on all shards.", by("step", totals.busy))
    yield family("headrace_late_elements_total", "counter", "Elements dropped as too late.",
                 by("step", late))
    yield family("headrace_untimed_rows_total", "counter", "Rows left out without a time.",
                 [({}, totals.untimed)])
    if not epochs:
        return
    last = epochs[-1]
    yield family("headrace_epoch", "gauge", "The last epoch that counts.", [({}, last.epoch)])
    yield family("headrace_last_epoch_seconds", "gauge", "Seconds that the last epoch took.",
                 [({}, last.seconds)])
    marks: dict[tuple[str, str], int] = {}
    for stage, pair in last.watermarks.items():
        for side, mark in zip(("in", "out"), pair, strict=True):
            place = graph.stage(stage), side
            if MIN_TIME < mark < MAX_TIME:
                marks[place] = min(marks.get(place, mark), mark)
    yield family("headrace_watermark_seconds", "gauge", "Watermark of a step, seconds since 1970.",
                 [({"step": step, "side": side}, m / 1e6) for (step, side), m in marks.items()])
    yield family("headrace_watermark_lag_seconds", "gauge",
                 "How far a step's watermark is behind processing time.",
                 [({"step": step, "side": side}, (last.now - m) / 1e6)
                  for (step, side), m in marks.items()])
    yield family("headrace_source_partition_seconds", "gauge",
                 "Greatest event time of a source's partition, seconds since 1970.",
                 [({"source": name, "partition": partition}, highest / 1e6)
                  for name, source in last.sources.items()
                  for partition, (highest, _) in source.partitions.items()
                  if highest > MIN_TIME])
    waiting: dict[str, float] = {}
    for stage, count in last.waiting.items():
        waiting[graph.stage(stage)] = waiting.get(graph.stage(stage), 0) + count
    yield family("headrace_waiting_elements", "gauge", "Elements that wait for side inputs.",
                 by("step", waiting))
    for what, words in (("rows", "Rows of state"), ("bytes", "Bytes of state")):
        held: dict[str, float] = {}
        for task in last.shards:
            index = str(task.superstep)
            held[index] = held.get(index, 0) + getattr(task, f"state_{what}")
        yield family(f"headrace_state_{what}", "gauge", f"{words}, by superstep.",
                     by("superstep", held))
    found = {(finding.kind, finding.subject) for finding in seen.findings}
    yield family("headrace_finding", "gauge", "1 for each thing that is wrong now.",
                 [({"kind": kind, "subject": subject}, 1) for kind, subject in sorted(found)])


def family_text(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    r"""Write one metric with its help, type and samples; nothing if there are no samples.

    >>> print(family_text("a_total", "counter", "Of x.", [({"step": 'say "hi"'}, 2)]), end="")
    # HELP a_total Of x.
    # TYPE a_total counter
    a_total{step="say \"hi\""} 2
    """
    lines = []
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{inside}}} {_number(value)}\n")
    if not lines:
        return ""
    told = words.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {told}\n# TYPE {name} {kind}\n{''.join(lines)}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
