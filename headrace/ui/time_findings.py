"""Rules about time: what holds watermarks back, what waits, what comes too late. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.plan.epoch_records import EpochRecord
from headrace.ui.finding import LOOKED_AT, Finding, Rule
from headrace.ui.graph import Graph

#: Late elements: fewer than these are what any stream has.
LATE_LEAST, LATE_SHARE = 10, 0.005
#: What holds a watermark, in words, and what to do about it. Panes that wait for the end of their
#: window hold it too, as they should.
_HOLDERS = {
    "timers": (
        "timers far ahead",
        "set timers that fire earlier, or give them an output_timestamp that need not wait",
    ),
    "residuals": (
        "what a splittable DoFn has put off",
        "let its watermark estimator follow what it has read, and its restrictions end",
    ),
    "sorting": (
        "elements that wait for their turn in time",
        "the input of a step with time-sorted input must not stand still: look at its sources",
    ),
}


def _partitions(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    del graph
    for source in history[-1].sources:
        recent = _that_moved(history, source)
        if len(recent) < LOOKED_AT:
            continue
        first, last = recent[0].sources[source], recent[-1].sources[source]
        if last.ended or last.watermark > first.watermark or len(last.partitions) < 2:
            continue
        (name, (highest, heard)), *others = sorted(last.partitions.items(), key=lambda p: p[1])
        was = first.partitions.get(name)
        ahead = max(partition[0] for _, partition in others)
        moved = ahead > max((p[0] for n, p in first.partitions.items() if n != name), default=ahead)
        if was is None or was[0] != highest or not moved:
            continue
        quiet = (recent[-1].now - heard) / 1e6
        idle = last.idle_after
        until = "it has no idle time" if idle is None else f"its idle time is {idle / 1e6:.0f} s"
        far = f"{(ahead - highest) / 1e6:,.0f} s behind the others, "
        behind = far if highest > MIN_TIME else ""
        yield Finding(
            kind="source partition", subject=source,
            sentence=f"source partition {name} of {source} holds the watermark",
            evidence=f"it is {behind}silent for {quiet:.0f} s of processing time; {until}",
            remedy="see why the partition brings nothing, or let it fall idle: "
            "BoundedOutOfOrderness(..., idle_after=seconds)",
            epoch=recent[-1].epoch,
        )


def _that_moved(history: Sequence[EpochRecord], source: str) -> list[EpochRecord]:
    """Give the last few epochs in which a source brought anything."""
    found: list[EpochRecord] = []
    for before, after in zip(history, history[1:], strict=False):
        old, new = before.sources.get(source), after.sources.get(source)
        if old is not None and new is not None and old.partitions != new.partitions:
            if not found:
                found.append(before)
            found.append(after)
    return found[-LOOKED_AT:]


def _holds(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    for stage, (what, held) in history[-1].holds.items():
        if what not in _HOLDERS or held <= MIN_TIME:
            continue
        same: list[EpochRecord] = []
        for record in reversed(history):
            if record.holds.get(stage) != (what, held) or stage not in record.watermarks:
                break
            if not same or record.watermarks[stage][0] < same[-1].watermarks[stage][0]:
                same.append(record)  # its input has come further since
        if len(same) < LOOKED_AT:
            continue
        name, (words, remedy) = graph.stage(stage), _HOLDERS[what]
        behind = (history[-1].watermarks[stage][0] - held) / 1e6
        yield Finding(
            kind=f"held by {what}", subject=name,
            sentence=f"{words} hold the watermark at {name}",
            evidence=f"its output has stood still since epoch {same[-1].epoch} and is "
            f"{behind:,.0f} s behind its input, which goes on",
            remedy=remedy, epoch=history[-1].epoch,
        )


def _side_inputs(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    recent = history[-2:]
    if len(recent) < 2:
        return
    for stage, count in recent[-1].waiting.items():
        before = recent[0].waiting.get(stage, 0)
        if not before or count < before:
            continue
        name = graph.stage(stage)
        sides = graph.stages[stage].side_inputs if stage in graph.stages else ()
        awaited = ", ".join(sides) or "a side input"
        yield Finding(
            kind="side input", subject=name,
            sentence=f"elements of {name} wait for side input {awaited}",
            evidence=f"{count:,} wait, {before:,} did an epoch ago",
            remedy=f"{awaited} must bring something for the window of each element, or its "
            "watermark must pass it: look whether its source is silent, or give it a trigger",
            epoch=recent[-1].epoch,
        )


def _late(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    recent = history[-LOOKED_AT:]
    for stage in {stage for record in recent for stage in record.late}:
        late = sum(record.late.get(stage, 0) for record in recent)
        came = max(late, _came(graph, recent, stage))
        if late < LATE_LEAST or late < LATE_SHARE * came:
            continue
        name = graph.stage(stage)
        mark = recent[-1].watermarks.get(stage, (MIN_TIME, MIN_TIME))[0]
        behind = f"; its watermark is {(recent[-1].now - mark) / 1e6:,.0f} s behind the clock"
        yield Finding(
            kind="late data", subject=name,
            sentence=f"late data dropped at {name}: {late:,} elements, {late / came:.0%}",
            evidence=f"in {len(recent)} epochs, of {came:,} that came"
            + (behind if MIN_TIME < mark < MAX_TIME else ""),
            remedy="let the watermark wait longer (BoundedOutOfOrderness of the source), or keep "
            "windows longer (allowed_lateness of WindowInto)",
            epoch=recent[-1].epoch,
        )


def _came(graph: Graph, recent: Sequence[EpochRecord], stage: int) -> int:
    """Give how many elements came to a stage, or to its grouping, as far as it is known."""
    steps = graph.stages[stage].steps if stage in graph.stages else ()
    read = [c.number for c in graph.channels.values() if stage in c.targets]
    arrived = sum(sum(record.arrived.get(channel, ())) for channel in read for record in recent)
    taken = (sum(r.steps[step].into for r in recent if step in r.steps) for step in steps)
    return max(arrived, max(taken, default=0))


TIME_RULES: tuple[Rule, ...] = (_partitions, _holds, _side_inputs, _late)
