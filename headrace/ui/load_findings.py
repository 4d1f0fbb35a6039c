"""Rules about load: hot keys, slow shards, sinks, publishing, commits, growing state. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from headrace.plan.epoch_records import EpochRecord
from headrace.ui.finding import LOOKED_AT, Finding, Rule
from headrace.ui.graph import Graph, outer

#: Nothing is said of what takes less than this of an epoch: it cannot be what is wrong.
LEAST_SECONDS = 0.1
#: A key with this share of an exchange is hot, if it has twice that of the next one.
HOT_SHARE, HOT_TIMES, HOT_ELEMENTS = 0.2, 2.0, 1_000
#: What sinks, a commit, or the wait for publishing must have of an epoch to be why it is long.
SINK_SHARE, COMMIT_SHARE, PUBLISHING_SHARE = 0.6, 0.4, 0.4
#: A shard that takes so many times what the others do.
SHARD_TIMES = 3.0
#: In so many of the epochs that are looked at: one that stumbled may have been anything.
OFTEN = 2
#: Rows by which state must have grown, epoch after epoch.
GROWTH_ROWS = 100


def _hot_keys(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    recent = history[-LOOKED_AT:]
    for channel in {channel for record in recent for channel in record.hot}:
        seen = [record.hot[channel] for record in recent if channel in record.hot]
        keys: dict[str, int] = {}
        for hot in seen:
            for key, count in hot.keys.items():
                keys[key] = keys.get(key, 0) + count
        if not keys or graph.shards < 2:
            continue
        key, count = max(keys.items(), key=lambda item: item[1])
        seen = [hot for hot in seen if key in hot.keys]  # it may have become hot just now
        elements = sum(hot.elements for hot in seen)
        second = sum(max((c for k, c in h.keys.items() if k != key), default=0) for h in seen)
        if elements < HOT_ELEMENTS or count < max(HOT_SHARE * elements, HOT_TIMES * second):
            continue
        name = graph.channel(channel)
        yield Finding(
            kind="hot key", subject=name,
            sentence=f"key {key} is {count / elements:.0%} of {name}",
            evidence=f"about {count:,} of {elements:,} elements in {len(seen)} epochs; one shard "
            f"of {graph.shards} owns the key",
            remedy="add something to the key that spreads it and combine again without it, leave "
            "the key out if it means nothing, or write the grouping as a CombinePerKey, which "
            "sends one accumulator",
            epoch=recent[-1].epoch,
        )


def _sinks(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    """Add up what sinks take, as they follow each other; name those that make it much."""
    del graph
    recent = history[-LOOKED_AT:]
    long = [r for r in recent if _weighs(sum(r.sinks.values()), r, SINK_SHARE)]
    if len(long) < OFTEN:
        return
    each, total = len(long), sum(record.seconds for record in long)
    by_sink = _by_sink(record.sinks for record in long)
    names, spent = [], 0.0
    for sink, seconds in sorted(by_sink.items(), key=lambda item: -item[1]):
        names.append(outer(sink))
        spent += seconds
        if spent >= SINK_SHARE * total:
            break
    one = len(names) == 1
    rows = sum(sum(record.outputs.values()) for record in long)
    yield Finding(
        kind="slow sink", subject=", ".join(names),
        sentence=f"{'sink' if one else 'sinks'} {_listed(names)} {'takes' if one else 'take'} "
        f"{spent / total:.0%} of the epoch",
        evidence=f"{spent / each:.2f} of {total / each:.2f} s, mean of {each} epochs; "
        f"{rows:,} rows left the pipeline",
        remedy="write fewer and larger batches (--trigger_interval), more partitions at once, "
        "or a sink that workers write themselves",
        epoch=recent[-1].epoch,
    )


def _publishing(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    del graph
    recent = history[-LOOKED_AT:]
    long = [r for r in recent if _weighs(r.waited, r, PUBLISHING_SHARE)]
    if len(long) < OFTEN:
        return
    by_sink = _by_sink(record.published for record in long)
    if not by_sink:
        return
    each, total = len(long), sum(record.seconds for record in long)
    waited, spent = sum(record.waited for record in long), sum(by_sink.values())
    name = outer(max(by_sink, key=lambda sink: by_sink[sink]))
    yield Finding(
        kind="slow publishing", subject=name,
        sentence=f"publishing of {name} holds epochs",
        evidence=f"publishing an epoch takes {spent / each:.2f} s, longer than the epoch beside "
        f"it, which waited {waited / each:.2f} of {total / each:.2f} s, mean of {each} epochs",
        remedy="give the topic a nearer or faster broker, larger batches (linger.ms, batch.size, "
        "compression.type in the sink's options), or publish less: one message for each window "
        "in place of each firing",
        epoch=recent[-1].epoch,
    )


def _by_sink(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    summed: dict[str, float] = {}
    for seconds in found:
        for sink, spent in seconds.items():
            summed[sink] = summed.get(sink, 0.0) + spent
    return summed


def _listed(names: Sequence[str]) -> str:
    """Say names as one says them.

    >>> _listed(["Out", "Log", "Audit"])
    'Out, Log and Audit'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _commits(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    del graph
    recent = history[-LOOKED_AT:]
    long = [r for r in recent if _weighs(r.commit + _longest(r, "sealing"), r, COMMIT_SHARE)]
    if len(long) < OFTEN:
        return
    each, total = len(long), sum(record.seconds for record in long)
    manifest = sum(record.commit for record in long)
    sealing = sum(_longest(record, "sealing") for record in long)
    spent = manifest + sealing
    yield Finding(
        kind="slow commit", subject="checkpoint",
        sentence=f"commit is slow: checkpoint storage takes {spent / total:.0%} of the epoch",
        evidence=f"{sealing / each:.2f} s to write state and {manifest / each:.2f} s for the "
        f"manifest, of {total / each:.2f} s, mean of {each} epochs",
        remedy="put --checkpoint on faster or nearer storage, make epochs longer "
        "(--trigger_interval), or keep less state that changes in each epoch",
        epoch=recent[-1].epoch,
    )


def _weighs(seconds: float, record: EpochRecord, share: float) -> bool:
    """Whether a part of an epoch is worth a word: long, and a large share of it."""
    return seconds >= LEAST_SECONDS and seconds >= share * record.seconds


def _longest(record: EpochRecord, what: str) -> float:
    """Give the sum over supersteps of the longest task's time."""
    longest: dict[int, float] = {}
    for shard in record.shards:
        spent: float = getattr(shard, what)
        longest[shard.superstep] = max(longest.get(shard.superstep, 0.0), spent)
    return sum(longest.values())


def _slow_shards(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    recent = history[-LOOKED_AT:]
    spent: dict[int, dict[int, float]] = {}
    hosts: dict[tuple[int, int], str] = {}
    for record in recent:
        for task in record.shards:
            of = spent.setdefault(task.superstep, {})
            of[task.shard] = of.get(task.shard, 0.0) + task.seconds
            hosts[task.superstep, task.shard] = task.host
    for superstep, by_shard in spent.items():
        if len(by_shard) < 2:
            continue
        shard, most = max(by_shard.items(), key=lambda item: item[1])
        others = median(s for n, s in by_shard.items() if n != shard)
        slow = [record for record in recent if _is_slow(record, superstep, shard)]
        if len(slow) < OFTEN or most < SHARD_TIMES * others:
            continue
        steps = ", ".join(stage.name for stage in graph.of_superstep(superstep)[:2])
        times = most / others if others else float("inf")
        yield Finding(
            kind="slow shard", subject=f"shard {shard}",
            sentence=f"shard {shard} takes {times:.1f}x the others in {steps}",
            evidence=f"{most / len(recent):.2f} s against {others / len(recent):.2f} s, mean of "
            f"{len(recent)} epochs, on {hosts[superstep, shard]}; {_share(recent, shard)}",
            remedy="if it gets more elements than the others, spread its keys; if not, look at "
            "what its elements make your code do, and at its machine",
            epoch=recent[-1].epoch,
        )


def _is_slow(record: EpochRecord, superstep: int, shard: int) -> bool:
    """Whether one shard is what an epoch waits for: a machine that stumbled once is no cause."""
    times = {t.shard: t.seconds for t in record.shards if t.superstep == superstep}
    mine = times.pop(shard, 0.0)
    return bool(times) and _weighs(mine, record, 0.3) and mine >= SHARD_TIMES * median(
        times.values()
    )


def _share(recent: Sequence[EpochRecord], shard: int) -> str:
    mine = sum(c[shard] for r in recent for c in r.arrived.values() if shard < len(c))
    every = sum(sum(counts) for record in recent for counts in record.arrived.values())
    return f"it gets {mine / every:.0%} of the elements" if every else "no elements were counted"


def _growing_state(graph: Graph, history: Sequence[EpochRecord]) -> Iterator[Finding]:
    recent = history[-LOOKED_AT:]
    if len(recent) < LOOKED_AT:
        return
    for superstep in {task.superstep for task in recent[-1].shards}:
        rows = [_state(record, superstep)[0] for record in recent]
        grown = [after - before for before, after in zip(rows, rows[1:], strict=False)]
        stages = [stage for stage in graph.of_superstep(superstep) if stage.unbounded]
        # Windows free their state when they are over: only what lies in the global window, or
        # has grown for long, can be said to grow without end.
        if stages:
            sure = min(grown) >= GROWTH_ROWS and grown[-1] >= 0.5 * grown[0]
        else:
            sure = _grows_for_long(history, superstep)
            stages = [s for s in graph.of_superstep(superstep) if s.cells]
        if not sure or not stages:
            continue
        names = ", ".join(stage.name for stage in stages)
        size = _state(recent[-1], superstep)[1]
        yield Finding(
            kind="growing state", subject=names,
            sentence=f"state of {names} grows",
            evidence=f"{rows[-1]:,} rows ({size / 1e6:.1f} MB), {grown[-1]:+,} in the last epoch "
            f"and {rows[-1] - rows[0]:+,} in {len(recent)} epochs; nothing frees it",
            remedy="clear state cells by a timer, use windows in place of the global window, or "
            "give the trigger an end",
            epoch=recent[-1].epoch,
        )


def _grows_for_long(history: Sequence[EpochRecord], superstep: int, epochs: int = 60) -> bool:
    rows = [_state(record, superstep)[0] for record in history[-epochs:]]
    if len(rows) < epochs or rows[0] < GROWTH_ROWS:
        return False
    return all(b > a for a, b in zip(rows, rows[1:], strict=False)) and rows[-1] > 4 * rows[0]


def _state(record: EpochRecord, superstep: int) -> tuple[int, int]:
    here = [task for task in record.shards if task.superstep == superstep]
    return sum(t.state_rows for t in here), sum(t.state_bytes for t in here)


LOAD_RULES: tuple[Rule, ...] = (
    _hot_keys, _slow_shards, _sinks, _publishing, _commits, _growing_state,
)
