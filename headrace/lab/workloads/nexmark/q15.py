"""NEXMark 15, portability in batch: do all events come through a grouping by random keys?

Takes persons, auctions and bids. Gives (event): the JSON text of the record. Each event gets a
random key of `num_key_buckets`, all are grouped and taken apart again; then the share
`pardo_cpu_factor` of them is written to bytes and read back once more. Only for bounded input:
there is no window.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from headrace.lab.workload import Mode
from headrace.lab.workloads.nexmark.coder import decode, encode
from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Record, to_json


def at_random(buckets: int) -> Callable[[Record], tuple[int, bytes]]:
    """Give the function that puts an event, as bytes, under a random key."""

    def put(event: Record) -> tuple[int, bytes]:
        return random.randrange(buckets), encode(event)

    return put


def values(group: tuple[int, Iterable[bytes]]) -> Iterable[bytes]:
    """Take a group apart."""
    return group[1]


def worked_on(share: float) -> Callable[[bytes], tuple[str]]:
    """Give the function that reads an event, with more work for some."""

    def work(data: bytes) -> tuple[str]:
        event = decode(data)
        if random.random() < share:
            event = decode(encode(event))
        return (to_json(event),)

    return work


class GroupAtRandom(beam.PTransform):  # type: ignore[misc]
    """Events to their JSON texts."""

    def __init__(self, buckets: int, share: float) -> None:
        super().__init__()
        self._buckets = buckets
        self._share = share

    def expand(self, events: Any) -> Any:
        """Group, take apart, work."""
        return (
            events
            | "Key" >> beam.Map(at_random(self._buckets)).with_output_types(tuple[int, bytes])
            | "Group" >> beam.GroupByKey()
            | "Ungroup" >> beam.FlatMap(values).with_output_types(bytes)
            | "Work" >> beam.Map(worked_on(self._share)).with_output_types(tuple[str])
        )


def build(settings: Any) -> GroupAtRandom:
    """Make the pipeline from events to rows."""
    return GroupAtRandom(settings.num_key_buckets, settings.pardo_cpu_factor)


WORKLOAD = question(
    "q15",
    "Portability in batch: do all events come through a grouping by random keys?",
    ("event",),
    build,
    modes=(Mode.BATCH,),
)
