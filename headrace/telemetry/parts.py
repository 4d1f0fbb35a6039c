"""Cuts an epoch into the parts that a trace shows: sources, supersteps, sinks, commit, wait.

Takes the record of an epoch, gives a tree of intervals with attributes. Knows nothing of who draws
it. No element, no key and nothing that an exception said stands in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.plan.clocks import MAX_TIME, MIN_TIME
from headrace.plan.epoch_records import EpochRecord, RetryRecord
from headrace.ui.graph import Graph, outer

Value = str | int | float | bool | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An interval of an epoch; times are microseconds since 1970."""

    name: str
    begin: int
    end: int
    attributes: Mapping[str, Value] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()


def parts_of(record: EpochRecord, graph: Graph) -> Part:
    """Give an epoch with its parts.

    Sinks follow the tasks one after the other, then the commit, and last, if there was one, the
    wait until the epoch before was published. Supersteps are laid out in
    their order from the beginning of the tasks, each as long as its longest task: how long tasks
    took is measured, when each of them began is not. Sources are read while the first superstep
    runs, and stand beside it.
    """
    whole = record.began + _micros(record.seconds)
    end = max(record.began, whole - _micros(record.waited))
    tasks_end = min(end, record.began + _micros(record.tasks))
    supersteps = _supersteps(record, graph, tasks_end)
    read_until = supersteps[0].end if supersteps else tasks_end
    sources = tuple(
        Part(
            name=f"source {name}", begin=record.began, end=read_until,
            attributes=_of_source(record, name),
        )
        for name in record.sources
    )
    tasks = Part(
        name="tasks", begin=record.began, end=tasks_end, parts=(*sources, *supersteps)
    )
    sinks, at = [], tasks_end
    for name, seconds in record.sinks.items():
        until = min(end, at + _micros(seconds))
        sinks.append(
            Part(name=f"sink {name}", begin=at, end=until, attributes={"headrace.sink": name})
        )
        at = until
    commit = Part(name="commit", begin=max(at, end - _micros(record.commit)), end=end)
    wait = Part(
        name="wait for publishing", begin=end, end=whole,
        attributes={"headrace.sinks": list(record.published)},
    )
    return Part(
        name="epoch", begin=record.began, end=whole, attributes=_of_epoch(record),
        parts=(
            tasks, *sinks, *((commit,) if record.commit else ()),
            *((wait,) if record.waited else ()),
        ),
    )


def _micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _supersteps(record: EpochRecord, graph: Graph, limit: int) -> tuple[Part, ...]:
    found, at = [], record.began
    for index in sorted({task.superstep for task in record.shards}):
        tasks = [task for task in record.shards if task.superstep == index]
        longest = max(tasks, key=lambda task: task.seconds)
        until = min(limit, at + _micros(longest.seconds))
        steps = (step for stage in graph.of_superstep(index) for step in stage.steps)
        found.append(Part(
            name=f"superstep {index}", begin=at, end=until,
            attributes={
                "headrace.superstep": index,
                "headrace.steps": list(dict.fromkeys(steps)),
                "headrace.tasks": len(tasks),
                "headrace.task_seconds": sum(task.seconds for task in tasks),
                "headrace.longest_task_seconds": longest.seconds,
                "headrace.longest_shard": longest.shard,
                "headrace.state_rows": sum(task.state_rows for task in tasks),
                "headrace.state_bytes": sum(task.state_bytes for task in tasks),
            },
        ))  # fmt: skip
        at = until
    return tuple(found)


def _of_source(record: EpochRecord, name: str) -> dict[str, Value]:
    source, step = record.sources[name], record.steps.get(outer(name))
    found: dict[str, Value] = {
        "headrace.source": name,
        "headrace.rows": 0 if step is None else step.out,
        "headrace.partitions": len(source.partitions),
        "headrace.ended": source.ended,
    }
    if MIN_TIME < source.watermark < MAX_TIME:
        found["headrace.watermark_seconds"] = source.watermark / 1e6
    return found


def _of_epoch(record: EpochRecord) -> dict[str, Value]:
    return {
        "headrace.epoch": record.epoch,
        "headrace.processing_time_seconds": record.now / 1e6,
        "headrace.late_elements": sum(record.late.values()),
        "headrace.waiting_elements": sum(record.waiting.values()),
        "headrace.untimed_rows": record.untimed,
        "headrace.output_rows": sum(record.outputs.values()),
        "headrace.restored_state_partitions": record.restored,
        "headrace.retries": len(record.retries),
        "headrace.publishing_seconds": sum(record.published.values()),
    }


def of_retry(record: RetryRecord) -> dict[str, Value]:
    """Give what may be told of a try that failed: not what the exception said."""
    return {"exception.type": record.error, "headrace.step": record.step}
