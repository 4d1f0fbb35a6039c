"""Decides up to where all partitions may be read, so that none is ahead of the others.

Readers that plan a batch first take from every partition the events below one number. Then no
event of a later batch is older than one of an earlier batch, and a watermark needs no slack.
Pure: takes what the engines said.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.lab.data_engine.client import EngineStatus
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


def is_read(statuses: Sequence[EngineStatus]) -> bool:
    """Whether everything was made, taken and acknowledged."""
    return all(s.ended and s.acknowledged >= s.total for s in statuses)
