"""How fast a lowered function is on columns, the kernel alone: `headrace lab run kernel`.

One process, CPU time, 100,000 bids a batch; beside it the same function on objects that are there
already. What a source, a sink or an exchange cost is not in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from headrace.compiler.lower.one_step import NotLowered, lower
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import of_arrow

BIDS = 100_000
SECONDS = 0.5


class Bid(NamedTuple):
    """A bid, as NEXMark has it."""

    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


CASES = {
    "project": beam.Map(lambda b: (b.auction, b.price * 89 // 100)),
    "filter": beam.Filter(lambda b: b.auction % 123 == 0 and b.price > 100),
    "choose": beam.Map(lambda b: (b.auction, b.price if b.price % 2 == 0 else -b.price)),
    "text": beam.Map(lambda b: (b.extra[:3], len(b.extra))),
    "format": beam.Map(lambda b: f"{b.auction}:{b.price}"),
}


def per_second(call: Callable[[], object]) -> float:
    """Rows in a second of CPU time."""
    call()
    count, began = 0, time.process_time()
    while time.process_time() - began < SECONDS:
        call()
        count += 1
    return count * BIDS / (time.process_time() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each case and print a row."""
    asked = argparse.ArgumentParser(prog="headrace lab run kernel", description=__doc__)
    asked.parse_args(arguments)
    dice = np.random.default_rng(1)
    numbers = [dice.integers(0, most, BIDS) for most in (10_000, 10_000, 10**7, 2**40)]
    texts = pa.array([f"extra-{n % 100}" for n in range(BIDS)])
    shape = shape_of_hint(Bid)
    assert shape is not None
    batch = of_arrow([*map(pa.array, numbers), texts], shape, BIDS)
    assert batch is not None
    objects = list(batch.objects())
    print(f"{'case':<10}{'M rows/s on columns':>22}{'on objects':>14}")
    for name, step in CASES.items():
        lowered = lower(step.fn, shape)
        assert not isinstance(lowered, NotLowered), lowered
        kernel, process = kernel_of(lowered), step.fn.process
        columns = per_second(lambda kernel=kernel: kernel(batch))  # type: ignore[misc]
        plain = per_second(
            lambda process=process: [list(process(b)) for b in objects]  # type: ignore[misc]
        )
        print(f"{name:<10}{columns / 1e6:>22.1f}{plain / 1e6:>14.2f}")
    return 0
