"""Runs a headrace plan in this process, without Spark: every shard, superstep by superstep.

Takes any pipeline without DataFrames (as a runner) or its plan, gives its metrics and what each
task took, moved and made. Rows go to the shard their column names, as the exchange would send them,
and are held in memory in between. Made for profilers and debuggers: with `Thread.THIS` even the
stages run in the caller's thread.
"""

from __future__ import annotations

import cProfile
import gc
import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa
from apache_beam.options.pipeline_options import TypeOptions
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms import environments

from headrace.compiler.compile import compile_pipeline
from headrace.engine.batch import Outcome, gather
from headrace.engine.tasks import tasks_of
from headrace.errors import PlanError, TransportError
from headrace.plan.settings import Settings
from headrace.plan.sources import Impulse
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.runner import HeadraceOptions
from headrace.worker.entry import BATCH_BYTES, BATCH_ROWS, SuperstepTask, run_superstep
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, SuperTuple, from_batch, to_batch
from headrace.worker.protocol import ONLY_EPOCH
from headrace.worker.task.shard import ShardRun


class Thread(Enum):
    """Where the stages run."""

    OWN = "own"  # through `run_superstep`, as in a Spark task: a thread and a queue beside it
    THIS = "this"  # in the caller's thread, where a profiler sees them


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """What one task did."""

    superstep: int
    shard: int
    seconds: float
    rows_in: int
    rows_out: int
    bytes_out: int  # of payloads


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineRun:
    """What a run in this process leaves behind."""

    plan: Plan
    outcome: Outcome
    tasks: tuple[TaskFacts, ...]  # superstep by superstep, shard by shard


def run_inline(
    plan: Plan,
    settings: Settings,
    *,
    thread: Thread = Thread.OWN,
    profiler: cProfile.Profile | None = None,
) -> InlineRun:
    """Run a plan to its end. The profiler, if any, is on while tasks run and off in between."""
    if profiler is not None and thread is not Thread.THIS:
        msg = "a profiler sees one thread only: ask for Thread.THIS"
        raise ValueError(msg)
    _refuse_frames(plan)
    run = run_superstep if thread is Thread.OWN else _run_here
    facts: list[TaskFacts] = []
    boxes: list[list[SuperTuple]] = [[] for _ in range(plan.shards)]
    for task in tasks_of(plan, settings):
        arrived, boxes = boxes, [[] for _ in range(plan.shards)]
        for shard, rows in enumerate(arrived):
            rows.sort(key=_rank)  # stable; Spark sorts too where there are side inputs
            batches = list(_batches(rows))
            rows_in = len(rows)
            rows.clear()
            start = time.perf_counter()
            with profiler if profiler is not None else nullcontext():
                made = list(run(task, shard, _fed(batches)))
            seconds = time.perf_counter() - start
            sent = [row for batch in made for row in from_batch(batch)]
            for row in sent:
                boxes[_box(row, plan.shards)].append(row)
            facts.append(
                TaskFacts(
                    superstep=task.superstep.index, shard=shard, seconds=seconds, rows_in=rows_in,
                    rows_out=len(sent), bytes_out=sum(len(row.payload) for row in sent),
                )
            )
    reports = [
        (row.seq, row.payload) for box in boxes for row in box if row.channel == REPORT_CHANNEL
    ]
    return InlineRun(plan=plan, outcome=gather(plan, reports), tasks=tuple(facts))


def _refuse_frames(plan: Plan) -> None:
    for channel in plan.channels:
        fed = channel.kind is ChannelKind.SOURCE and not isinstance(channel.source, Impulse | None)
        if fed or channel.kind is ChannelKind.OUTPUT:
            msg = f"{channel.label}: DataFrames need Spark; this run has none"
            raise PlanError(msg)


def _rank(row: SuperTuple) -> int:
    return row.rank


def _box(row: SuperTuple, shards: int) -> int:
    if not 0 <= row.shard < shards:
        msg = f"channel {row.channel} sent a row to shard {row.shard}; there are {shards}"
        raise TransportError(msg)
    return row.shard


def _batches(rows: Iterable[SuperTuple]) -> Iterator[pa.RecordBatch]:
    held: list[SuperTuple] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.payload)
        if len(held) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield to_batch(held)
            held, size = [], 0
    if held:
        yield to_batch(held)


def _fed(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give batches and let go of each, so that input and output are not both held to the end."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _run_here(
    task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do what `run_superstep` does, without its thread and its queue."""
    collecting = gc.isenabled()
    gc.disable()
    made: list[SuperTuple] = []
    try:
        rows = (row for batch in batches for row in from_batch(batch))
        run = ShardRun.bounded(task, shard)
        try:
            run.run_epoch(ONLY_EPOCH, made.append, rows, None)
        finally:
            run.tear_down()
    finally:
        if collecting:
            gc.enable()
    return _batches(made)


class InlineResult(PipelineResult):  # type: ignore[misc]
    """A pipeline that ran in this process; it is always finished."""

    def __init__(self, run: InlineRun) -> None:
        super().__init__(PipelineState.DONE)
        self.run = run

    def wait_until_finish(self, duration: int | None = None) -> str:  # noqa: ARG002
        """Give the state; there is nothing left to wait for."""
        return str(self._state)

    def metrics(self) -> FnApiMetrics:
        """Give the user's metrics."""
        return FnApiMetrics(self.run.outcome.monitoring_infos, user_metrics_only=True)


class InlineRunner(PipelineRunner):  # type: ignore[misc]
    """headrace without Spark: the same compiler and the same worker, two shards unless told."""

    def __init__(
        self, *, thread: Thread = Thread.OWN, profiler: cProfile.Profile | None = None
    ) -> None:
        super().__init__()
        self._thread = thread
        self._profiler = profiler

    def is_fnapi_compatible(self) -> bool:
        """Stages run through Beam's portable harness."""
        return True

    def run_pipeline(self, pipeline: Any, options: Any) -> InlineResult:
        """Compile and run; the pipeline's end is awaited."""
        known = options.view_as(HeadraceOptions)
        settings = Settings(
            super_tuple_bytes=known.super_tuple_bytes,
            max_bundle_elements=known.max_bundle_elements,
            group_memory_bytes=known.group_memory_mb << 20,
            log_level=logging.getLogger().getEffectiveLevel(),
        )
        pipeline.visit(
            group_by_key_input_visitor(
                not options.view_as(TypeOptions).allow_non_deterministic_key_coders
            )
        )
        proto = pipeline.to_runner_api(
            default_environment=environments.EmbeddedPythonEnvironment.default()
        )
        plan = compile_pipeline(proto, shards=known.shards or 2, name="inline")
        return InlineResult(
            run_inline(plan, settings, thread=self._thread, profiler=self._profiler)
        )
