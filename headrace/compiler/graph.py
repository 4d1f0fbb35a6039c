"""The logical graph of a pipeline: operators in the order of the flow, and the walks over them.

Immutable. Holds Beam's protos as they came; a pass that changes something builds a new graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb

from headrace.plan.ids import CollectionId, OperatorId


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A PCollection."""

    collection_id: CollectionId
    producer: OperatorId
    coder: str  # fingerprint of the whole coder, by value
    key_coder: str  # fingerprint of the key's coder; empty when the elements are no pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A transform that is an operator."""

    operator_id: OperatorId
    transform_id: str  # its id inside the pipeline proto
    urn: str
    transform: beam_pb.PTransform
    scopes: tuple[str, ...]  # URNs of the composites around it, outermost first
    inputs: tuple[CollectionId, ...]  # main inputs, ordered by tag
    side_inputs: tuple[CollectionId, ...]  # ordered by tag
    outputs: tuple[CollectionId, ...]  # ordered by tag


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators in topological order and the collections between them."""

    nodes: tuple[Node, ...]
    collections: Mapping[CollectionId, Collection]
    _by_id: Mapping[OperatorId, Node] = field(init=False, repr=False, compare=False)
    _readers: Mapping[CollectionId, tuple[OperatorId, ...]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        readers: dict[CollectionId, list[OperatorId]] = {c: [] for c in self.collections}
        for node in self.nodes:
            for collection in (*node.inputs, *node.side_inputs):
                readers[collection].append(node.operator_id)
        object.__setattr__(self, "collections", MappingProxyType(dict(self.collections)))
        object.__setattr__(self, "_by_id", {n.operator_id: n for n in self.nodes})
        object.__setattr__(self, "_readers", {c: tuple(r) for c, r in readers.items()})

    def node(self, operator_id: OperatorId) -> Node:
        """The operator of that name."""
        return self._by_id[operator_id]

    def readers(self, collection: CollectionId) -> tuple[OperatorId, ...]:
        """Who reads a collection, as main or as side input, in topological order."""
        return self._readers[collection]

    def predecessors(self, operator_id: OperatorId) -> tuple[OperatorId, ...]:
        """Who makes the main inputs."""
        node = self.node(operator_id)
        return tuple(self.collections[c].producer for c in node.inputs)

    def successors(self, operator_id: OperatorId) -> tuple[OperatorId, ...]:
        """Who reads the outputs, as main or side input; twice if it reads two of them."""
        node = self.node(operator_id)
        return tuple(reader for c in node.outputs for reader in self.readers(c))

    def edges(self) -> Iterator[tuple[OperatorId, CollectionId, OperatorId]]:
        """Every (producer, collection, reader), in topological order of the producers."""
        for node in self.nodes:
            for collection in node.outputs:
                for reader in self.readers(collection):
                    yield node.operator_id, collection, reader

    def upstream(self, start: OperatorId) -> Iterator[Node]:
        """All operators that main-input data of `start` may have come through, nearest first."""
        seen: set[OperatorId] = set()
        waiting = list(self.predecessors(start))
        while waiting:
            operator_id = waiting.pop(0)
            if operator_id not in seen:
                seen.add(operator_id)
                yield self.node(operator_id)
                waiting.extend(self.predecessors(operator_id))


def topological(nodes: Iterable[Node], producer: Mapping[CollectionId, OperatorId]) -> list[Node]:
    """The nodes so that producers come before readers; otherwise the given order is kept."""
    pending = {n.operator_id: n for n in nodes}
    ordered: list[Node] = []
    state: dict[OperatorId, bool] = {}  # False while its inputs are being placed, True when placed

    for root in list(pending):
        stack = [root]
        while stack:
            current = stack[-1]
            if state.get(current):
                stack.pop()
                continue
            state[current] = False
            node = pending[current]
            reads = (producer[c] for c in (*node.inputs, *node.side_inputs))
            owed = [p for p in reads if not state.get(p)]
            if any(p in state for p in owed):
                msg = f"the pipeline has a cycle through {current}"
                raise ValueError(msg)
            if owed:
                stack.extend(reversed(owed))
            else:
                ordered.append(node)
                state[current] = True
                stack.pop()
    return ordered
