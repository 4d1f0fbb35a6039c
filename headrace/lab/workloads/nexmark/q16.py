"""NEXMark 16, reshuffle: do all events come through an exchange at random?

Takes persons, auctions and bids. Gives (event): the JSON text of the record. Events go through an
exchange with `num_key_buckets` random keys; times and windows stay as they are.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import to_json


def row(text: str) -> tuple[str]:
    """Make a row."""
    return (text,)


class ExchangeAtRandom(beam.PTransform):  # type: ignore[misc]
    """Events to their JSON texts."""

    def __init__(self, buckets: int) -> None:
        super().__init__()
        self._buckets = buckets

    def expand(self, events: Any) -> Any:
        """Write as text, which travels faster than a record, and exchange."""
        return (
            events
            | "Text" >> beam.Map(to_json).with_output_types(str)
            | "Exchange" >> beam.Reshuffle(num_buckets=self._buckets)
            | "Row" >> beam.Map(row).with_output_types(tuple[str])
        )


def build(settings: Any) -> ExchangeAtRandom:
    """Make the pipeline from events to rows."""
    return ExchangeAtRandom(settings.num_key_buckets)


WORKLOAD = question(
    "q16",
    "Reshuffle: do all events come through an exchange at random?",
    ("event",),
    build,
    stateless=True,
)
