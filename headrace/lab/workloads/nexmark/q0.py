"""NEXMark 0, pass-through: every event, written to bytes and read back.

Takes persons, auctions and bids. Gives (event): the JSON text of the record.
It asks for nothing: it shows what carrying events costs.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from headrace.lab.workloads.nexmark.coder import decode, encode
from headrace.lab.workloads.nexmark.common import question
from headrace.lab.workloads.nexmark.model import Record, to_json


def there_and_back(event: Record) -> tuple[str]:
    """Write an event to bytes, read it back, and give its JSON text."""
    return (to_json(decode(encode(event))),)


def build(settings: Any) -> beam.PTransform:
    """Make the pipeline from events to rows."""
    del settings
    return beam.Map(there_and_back).with_output_types(tuple[str])


WORKLOAD = question(
    "q0",
    "Pass-through: which events are there?",
    ("event",),
    build,
    stateless=True,
)
