"""A cell of a notebook that is run again builds the same pipeline, whatever number it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.userstate import CombiningValueStateSpec

from headrace.compiler.compile import compile_pipeline
from headrace.compiler.proto.cell_numbers import drop_cells, names_without_cells
from headrace.engine.checkpoint.identity import Description, describe, difference
from headrace.plan.ids import StageId


class Count(beam.DoFn):  # type: ignore[misc]
    SEEN = CombiningValueStateSpec("seen", sum)

    def process(
        self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008 (Beam's way)
    ) -> Any:
        seen.add(1)
        yield pair[0], seen.read()


def described(cells: Sequence[int], line: int = 1) -> Description:
    """Build what Beam builds when the three steps stand in the given cells."""
    read, key, count = cells
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | f"[{read}]: words" >> TestStream().advance_watermark_to_infinity()
        | f"[{key}]: Map(<lambda at {7 * line}.py:{line}>)" >> beam.Map(lambda word: (word, 1))
        | f"[{count}]: count" >> beam.ParDo(Count())
    )
    proto = pipeline.to_runner_api()
    drop_cells(proto)
    plan = compile_pipeline(proto, shards=1, name="cells", streaming=True)
    state = {StageId(stage): cells for stage, cells in plan.facts.state.items()}
    return describe(
        plan, coders=plan.facts.coders, windowings=plan.facts.windowings, state=state
    )


def test_a_pipeline_is_the_same_after_its_cells_were_run_again() -> None:
    """The coder of an untyped key holds the step's name too: Beam wants it for its messages."""
    assert difference(described([2, 3, 3]), described([12, 13, 14])) == []


def test_an_edited_cell_does_not_rename_its_unnamed_functions() -> None:
    assert difference(described([2, 3, 3], line=1), described([2, 4, 4], line=2)) == []


def test_no_name_in_a_plan_holds_a_number_of_a_cell() -> None:
    stages = described([2, 3, 4]).stages
    assert not [step for stage in stages for step in stage.operators if "]: " in step]


def test_steps_of_two_cells_with_one_name_stay_two_steps_in_the_order_of_the_cells() -> None:
    pipeline = beam.Pipeline()
    begun = pipeline | "[1]: begin" >> beam.Create([1])
    begun | "[10]: double" >> beam.Map(lambda x: 2 * x)
    begun | "[9]: double" >> beam.Map(lambda x: 2 * x)
    proto = pipeline.to_runner_api()
    renamed = drop_cells(proto)
    assert renamed["[9]: double"] == "double"
    assert renamed["[10]: double"] == "double (2)"
    names = [transform.unique_name for transform in proto.components.transforms.values()]
    assert len(names) == len(set(names))
    assert "begin/Impulse" in names


@pytest.mark.parametrize("label", ["[a]: step", "[1]:step", "step [1]: x", "[1]: ", "1: step"])
def test_a_text_of_the_users_own_stays_as_it_is(label: str) -> None:
    assert names_without_cells([label]) == {}


def test_a_name_that_another_step_has_is_not_given_twice() -> None:
    assert names_without_cells(["win", "[3]: win"]) == {"[3]: win": "win (2)"}
