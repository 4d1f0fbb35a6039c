"""Order numbers of what no element caused: panes, timers, elements that waited.

Takes the stage's order and what fires, gives numbers that are the same whatever the shard. See
`headrace.plan.order`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from apache_beam.transforms import window

from headrace.plan.clocks import MAX_TIME
from headrace.plan.order import StageOrder
from headrace.worker.batched.batches import Columns, Meta, columns, numbered
from headrace.worker.beam_types import Value, Window
from headrace.worker.userstate.timers import DueTimer

Encode = Callable[[Value], bytes]


def group_numbers(order: StageOrder, encode: Encode, groups: list[Value], meta: Meta) -> list[int]:
    """Number groups: by the last moment of their window, then by key, then by pane."""
    each = columns(groups, meta)
    return [
        order.fired(
            windows[0].max_timestamp().micros, encode(group[0]), _start(windows[0]), pane.index
        )
        for group, windows, pane in zip(groups, each.windows, each.panes, strict=True)
    ]


def released_numbers(
    order: StageOrder, encode: Encode | None, values: list[Value], meta: Meta
) -> list[int]:
    """Number elements that waited for a side input: by time, then by what they are."""
    assert encode is not None
    each = columns(values, meta)
    return [
        order.fired(time, encode(value), _start(windows[0]), pane.index)
        for value, time, windows, pane in zip(
            values, each.times, each.windows, each.panes, strict=True
        )
    ]


def numbered_by_time(
    order: StageOrder, encode_key: Encode, batches: Iterable[tuple[list[Value], Columns]]
) -> Iterator[tuple[list[Value], Columns]]:
    """Number elements that waited for their turn: by time, then by key, then as they come."""
    last, counts = None, Counter[bytes]()
    for values, meta in batches:
        numbers = []
        for value, time in zip(values, meta.times, strict=True):
            if time != last:
                last, counts = time, Counter[bytes]()
            key = encode_key(value[0])
            numbers.append(order.fired(time, key, counts[key]))
            counts[key] += 1
        yield values, numbered(values, meta, numbers)


def timer_number(order: StageOrder, encode_key: Encode, due: DueTimer) -> int:
    """Number a timer: by its time, then by key; by wall clock ones come last, by key alone."""
    timer = due.timer
    time = timer.fire_timestamp.micros if due.by_event_time else MAX_TIME
    name = f"{due.family}/{timer.dynamic_timer_tag}/{_start(timer.windows[0])}"
    return order.fired(time, encode_key(timer.user_key), zlib.crc32(name.encode()))


def _start(of: Window) -> int:
    if isinstance(of, window.IntervalWindow):
        return int(of.start.micros)
    return zlib.crc32(repr(of).encode())
