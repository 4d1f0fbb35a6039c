"""Makes what must run on one shard, and what may run on many again after it, roots of stages.

Before:  a -> Counter -> b fused into one stage
After:   a | Counter | b, with a merge before the counter and a split after it

In an ordered run an operator whose state cannot be cut by keys sees all elements, in order, on one
shard. What follows it is dealt out to the shards again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any


def root_sequential(names: Collection[str]) -> Callable[[Iterable[Any], Any], Iterator[Any]]:
    """Build the pass; `names` are the transforms that begin stages."""

    def root_sequential_pass(stages: Iterable[Any], _context: Any) -> Iterator[Any]:
        for stage in stages:
            if any(transform.unique_name in names for transform in stage.transforms):
                stage.forced_root = True
            yield stage

    return root_sequential_pass
