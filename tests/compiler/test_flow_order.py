"""Stages come in the order of the flow, whatever the order in which fusion leaves them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.flow_order import in_flow_order
from headrace.testing import Collected, LocalRunner


def stage(name: str, reads: str, *, side: str = "", writes: str = "") -> Any:
    """A stage with one ParDo, and a collection of the buffer's name at each of its ends."""
    spec = beam_pb.FunctionSpec
    made = [
        beam_pb.PTransform(
            unique_name=f"{name}/Read", outputs={"out": reads},
            spec=spec(urn=bundle_processor.DATA_INPUT_URN, payload=f"materialize:{reads}".encode()),
        )
    ]
    payload = beam_pb.ParDoPayload()
    if side:
        payload.side_inputs["side"].access_pattern.urn = "beam:side_input:iterable:v1"
    made.append(
        beam_pb.PTransform(
            unique_name=name, inputs={"in": reads} | ({"side": side} if side else {}),
            outputs={"out": writes} if writes else {},
            spec=spec(urn="beam:transform:pardo:v1", payload=payload.SerializeToString()),
        )
    )
    if writes:
        written = spec(
            urn=bundle_processor.DATA_OUTPUT_URN, payload=f"materialize:{writes}".encode()
        )
        made.append(
            beam_pb.PTransform(unique_name=f"{name}/Write", inputs={"in": writes}, spec=written)
        )
    return translations.Stage(name, made)


STAGES = [
    stage("makes keys", "start", writes="keys"),
    stage("needs keys", "other", side="keys", writes="pairs"),
    stage("reads keys", "keys", side="pairs"),
]


@pytest.mark.parametrize("given", list(permutations(range(3))), ids=str)
def test_a_stage_comes_behind_all_that_it_reads(given: tuple[int, ...]) -> None:
    """The third reads what the first makes: to wait for the third does not do for the second."""
    ordered = in_flow_order([STAGES[number] for number in given])
    assert ordered is not None
    assert [found.name for found in ordered] == ["makes keys", "needs keys", "reads keys"]


def test_stages_that_wait_for_each_other_have_no_order() -> None:
    left = stage("left", "start", side="b", writes="a")
    right = stage("right", "start", side="a", writes="b")
    assert in_flow_order([left, right]) is None


def beside(number: int, others: list[int]) -> tuple[int, int]:
    return number, sum(others)


@pytest.mark.parametrize("shards", [1, 3])
def test_two_collections_may_be_side_inputs_of_each_others_steps(shards: int) -> None:
    into = Collected()
    options = PipelineOptions([f"--shards={shards}"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        ones = p | "Ones" >> beam.Create([1, 2])
        tens = p | "Tens" >> beam.Create([10, 20])
        first = ones | "Ones beside" >> beam.Map(beside, beam.pvalue.AsList(tens))
        second = tens | "Tens beside" >> beam.Map(beside, beam.pvalue.AsList(ones))
        _ = (first, second) | beam.Flatten() | into.sink("number long, others long")
    assert into.rows == [(1, 30), (2, 30), (10, 3), (20, 3)]
