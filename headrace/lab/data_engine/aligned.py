"""Decides up to where all partitions may be read, so that none is ahead of the others.

Readers that plan a batch first take from every partition the events below one number. Then no
event of a later batch is older than one of an earlier batch, and a watermark needs no slack.
`aligned` is pure: takes what the engines said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from headrace.lab.data_engine.client import EngineClient, EngineStatus
from headrace.lab.data_engine.launch import Feed
from headrace.lab.data_engine.schedule import I64


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
    shares = [feed.share(partition) for partition in range(len(statuses))]
    going = [
        share.number(status.made)
        for share, status in zip(shares, statuses, strict=True)
        if not status.ended
    ]
    until = min(going) if going else max(
        share.number(status.total) for share, status in zip(shares, statuses, strict=True)
    )
    until = min(until, sum(start) + most)
    return [
        max(first, min(status.made, share.offset_at(until)))
        for first, share, status in zip(start, shares, statuses, strict=True)
    ]


def sent(feed: Feed, statuses: Sequence[EngineStatus]) -> tuple[I64, int]:
    """Give the numbers of the events that were sent, and the last one up to which all were."""
    numbers, ends = [np.zeros(0, dtype=np.int64)], []
    for partition, status in enumerate(statuses):
        share = feed.share(partition)
        offsets = np.arange(status.made, dtype=np.int64)
        turns, rest = np.divmod(offsets, share.block)
        numbers.append((turns * share.partitions + partition) * share.block + rest)
        ends.append(share.number(status.made))
    sent = np.sort(np.concatenate(numbers))
    # Where all partitions went to their end, the next numbers lie past the last event of the run.
    return sent, min([*ends, int(sent[-1]) + 1 if len(sent) else 0]) - 1


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
