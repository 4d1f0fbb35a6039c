"""Decides up to where all partitions may be read, so that none is ahead of the others.

Readers that plan a batch first take from every partition the events below one number. Then no
event of a later batch is older than one of an earlier batch, and a watermark needs no slack.
`aligned` is pure: takes what the engines said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from headrace.lab.data_engine.client import EngineClient, EngineStatus
from headrace.lab.data_engine.launch import Feed


def aligned(
    feed: Feed, statuses: Sequence[EngineStatus], start: Sequence[int], most: int
) -> list[int]:
    """Give the offsets at which a batch ends.

    Args:
        feed: how events are dealt out.
        statuses: of the engines, in the order of the partitions.
        start: the offsets at which the batch begins.
        most: events of the batch, of all partitions.
    """
    places = [feed.place(partition) for partition in range(len(statuses))]
    going = [
        place.number(status.made)
        for place, status in zip(places, statuses, strict=True)
        if not status.ended
    ]
    until = min(going) if going else max(
        place.number(status.total) for place, status in zip(places, statuses, strict=True)
    )
    until = min(until, sum(start) + most)
    return [
        max(first, min(status.made, place.offset_at(until)))
        for first, place, status in zip(start, places, statuses, strict=True)
    ]


def await_taken(feed: Feed, is_alive: Callable[[], bool], pause: float = 0.05) -> None:
    """Wait until the engines have made all their events and every one was taken.

    Args:
        feed: where the engines are.
        is_alive: whether the reader still runs; one that has failed is not waited for.
        pause: seconds between two looks.
    """
    with ExitStack() as stack:
        clients = [stack.enter_context(EngineClient(address)) for address in feed.addresses]
        while is_alive():
            statuses = [client.status() for client in clients]
            if all(s.ended and s.started is not None and s.pulled >= s.total for s in statuses):
                return
            time.sleep(pause)
