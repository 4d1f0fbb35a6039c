"""Gives a stage its elements in the order of event time, with its timers in between.

Takes batches in order, and the stage's timers: each fires before the first element that is not
older than it, so that what a DoFn sees does not depend on how far the watermark goes at once.
Knows neither bundles nor where elements wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.worker.batched.batches import Meta, columns, pick
from headrace.worker.beam_types import Value
from headrace.worker.task.memory import Timers


def run_by_time(
    batches: Iterable[tuple[list[Value], Meta]],
    run: Callable[[list[Value], Meta], None],
    timers: Timers | None,
    watermark: int,
    fire: Callable[[int], None],
) -> None:
    """Process batches.

    Args:
        batches: in the order of event time.
        run: processes a batch.
        timers: of the stage; None: it has none, and batches stay whole.
        watermark: timers that are set later stay.
        fire: fires the first timer that is due at a watermark.
    """
    for values, meta in batches:
        if timers is None:
            run(values, meta)
            continue
        # One by one: each element may set a timer that comes before the next.
        for i, (value, time) in enumerate(zip(values, columns(values, meta).times, strict=True)):
            while (due := timers.next_due(watermark)) is not None and due <= time:
                fire(watermark)
            run([value], pick(meta, [i]))
