"""Tasks whose steps are told by hand what they compute, so that they run on columns.

Takes expressions by the names of steps, gives a host for `LocalRunner`. What the compiler would
find in a function stands in the test; whether it finds it is tested elsewhere.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from headrace.io.rows import row_class
from headrace.plan.expressions import (
    Binary,
    Constant,
    Construct,
    Expression,
    Leaf,
    Lowered,
    Operation,
)
from headrace.plan.schema_shapes import shape_of_schema
from headrace.plan.shapes import BOOL, INT, RecordShape, Shape, TupleShape, leaves_of
from headrace.testing import LocalSession
from headrace.testing.ddl import columns_of_words
from headrace.testing.host import LocalHost, WorkerDoor
from headrace.worker.entry import Epoch, SuperstepTask

#: For tests that hold only where steps do run on columns.
on_columns = pytest.mark.not_verifying_traits("the mode turns columns off")
#: For tests that see that a function is not called where columns compute it.
not_called = pytest.mark.not_verifying_columns("the mode calls functions to compare")


def shape_of(words: str) -> RecordShape:
    """Give the shape of the rows of a DataFrame with these columns."""
    made: Any = row_class(columns_of_words(words))
    return shape_of_schema(SCHEMA_REGISTRY.get_schema_by_id(made._beam_schema_id))


def field(shape: RecordShape, name: str) -> Leaf:
    """Give a field of a row."""
    place = shape.names.index(name)
    return Leaf(place, leaves_of(shape)[place], name)


def constant(value: int) -> Constant:
    """Give a whole number."""
    return Constant(value, INT, repr(value))


def whole(operation: Operation, left: Expression, right: Expression) -> Binary:
    """Give an operation on whole numbers."""
    return Binary(operation, left, right, INT)


def compare(operation: Operation, left: Expression, right: Expression) -> Binary:
    """Give a comparison."""
    return Binary(operation, left, right, BOOL)


def in_tuple(*items: Expression) -> Construct:
    """Give a tuple."""
    return Construct(items, TupleShape(tuple(item.shape for item in items)))


def maps(shape: Shape, gives: Expression) -> Lowered:
    """Describe a Map."""
    return Lowered(shape=shape, gives=gives)


def keeps(shape: Shape, condition: Expression) -> Lowered:
    """Describe a Filter."""
    return Lowered(shape=shape, gives=None, keeps=condition)


class LoweringDoor(WorkerDoor):
    """The worker's door, with what was found of the steps of a task put in."""

    def __init__(self, lowered: Mapping[str, Lowered]) -> None:
        self._lowered = lowered

    def superstep(
        self, task: SuperstepTask, shard: int, batches: Iterable[pa.RecordBatch]
    ) -> Any:
        """Run a task of a batch."""
        return super().superstep(self._told(task), shard, batches)

    def epoch(
        self, blob: bytes, epoch: Epoch, shard: int, batches: Iterable[pa.RecordBatch]
    ) -> Any:
        """Run a task of an epoch."""
        told = pickle.dumps(self._told(pickle.loads(blob)))
        return super().epoch(told, epoch, shard, batches)

    def _told(self, task: SuperstepTask) -> SuperstepTask:
        stages = []
        for stage in task.superstep.stages:
            found = tuple(
                (transform_id, lowered)
                for name, lowered in self._lowered.items()
                for transform_id in _transforms_of(stage)
                if transform_id.rpartition("/")[2] == name or f"/{name}/" in f"/{transform_id}/"
            )
            stages.append(replace(stage, lowered=found))
        return replace(task, superstep=replace(task.superstep, stages=tuple(stages)))


def _transforms_of(stage: Any) -> list[str]:
    whole = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
    return [
        transform_id
        for transform_id, proto in whole.transforms.items()
        if proto.spec.urn == "beam:transform:pardo:v1"
    ]


def host_of(session: LocalSession, **lowered: Lowered) -> LocalHost:
    """Give a host where the steps of these names are lowered."""
    return LocalHost(session, LoweringDoor(lowered))

