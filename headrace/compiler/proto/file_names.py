"""Finds the files that Beam's own reads and writes name. Takes the proto, gives names.

Beam's file transforms tell their pattern in their display data. What a DoFn opens by itself, and
names that are elements, are known to nobody before the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2 as api

from headrace.plan.datasets import Dataset, Touched, files_at

_PATTERN = "file_pattern"


def files_named(proto: Any) -> Touched:
    """Give the files of a pipeline's reads and writes."""
    found: dict[bool, dict[Dataset, None]] = {True: {}, False: {}}
    for transform in proto.components.transforms.values():
        for label in _labels(transform):
            writes = label.namespace.endswith("Sink")
            pattern = label.string_value
            address = pattern if "://" in pattern else os.path.abspath(pattern)
            if (named := files_at(address)) is not None:
                found[writes][named] = None
    return Touched(inputs=tuple(sorted(found[False])), outputs=tuple(sorted(found[True])))


def _labels(transform: Any) -> Iterator[Any]:
    for item in transform.display_data:
        if item.urn == "beam:display_data:labelled:v1":
            label = api.LabelledPayload.FromString(item.payload)
            if label.key == _PATTERN and label.string_value:
                yield label
