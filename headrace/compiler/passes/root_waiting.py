"""Makes every ParDo with side inputs the root of its own stage, in streaming and where batch must.

Before:  a -> ParDo(side) fused into a's stage
After:   a | ParDo(side), with a boundary between the two

An element whose side input is not there yet is pushed back and tried again in a later epoch. Only
what enters a stage can be pushed back, so the ParDo must be where elements enter.

In batch nothing is pushed back, and the pass runs only where without it stages would wait for side
inputs of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.runners.portability.fn_api_runner import translations


def root_waiting(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Force the boundary."""
    del context
    for stage in stages:
        if any(translations.side_inputs(transform) for transform in stage.transforms):
            stage.forced_root = True
        yield stage
