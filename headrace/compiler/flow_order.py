"""Puts fused stages in the order of the flow: what fills a buffer comes before what reads it.

Takes Beam's fused stages, gives them in order, or says that there is none: Beam's fusion looks at a
stage and a ParDo at a time, and may make two stages that wait for side inputs of each other. Beam's
own sort does not serve. It does not see such a circle, and it may take a stage that reads a
collection for the one that makes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any

from headrace.compiler.depths import node_of


def in_flow_order(stages: Iterable[Any]) -> list[Any] | None:
    """Order the stages; None if some of them wait for each other."""
    nodes = [node_of(stage) for stage in stages]
    writers: dict[str, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for _, buffer in node.writes:
            writers[buffer].append(number)
    flow: TopologicalSorter[int] = TopologicalSorter()
    for number, node in enumerate(nodes):
        buffers = [b for _, b in node.reads] + [b for _, b, _, _ in node.sides]
        flow.add(number, *(writer for buffer in buffers for writer in writers[buffer]))
    try:
        return [nodes[number].beam_stage for number in flow.static_order()]
    except CycleError:
        return None
