"""Pipelines with very many steps compile in reasonable time and run."""

from __future__ import annotations

import time

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.testing.util import assert_that, equal_to

from headrace.compiler.compile import compile_pipeline
from tests.bad_input.harness import spark_pipeline

pytestmark = pytest.mark.timeout(60, func_only=True)


def add_one(number: int) -> int:
    return number + 1


def chain(p: beam.Pipeline, steps: int) -> beam.PCollection:
    numbers = p | beam.Create([0], reshuffle=False)
    for step in range(steps):
        numbers |= f"Step {step}" >> beam.Map(add_one)
    return numbers


def chain_proto(steps: int) -> beam_pb.Pipeline:
    """The same chain, its proto grown by hand: Beam takes half a minute for 2,000 steps."""
    p = beam.Pipeline()
    chain(p, 1)
    proto = p.to_runner_api()
    parts = proto.components
    first_id, first = next(
        (i, t) for i, t in parts.transforms.items() if t.unique_name == "Step 0"
    )
    (root,) = (t for t in parts.transforms.values() if first_id in t.subtransforms)
    (output,) = first.outputs.values()
    for number in range(1, steps):
        previous, made, step = output, f"made {number}", f"step {number}"
        parts.pcollections[made].CopyFrom(parts.pcollections[previous])
        parts.pcollections[made].unique_name = made
        parts.transforms[step].CopyFrom(first)
        parts.transforms[step].unique_name = f"Step {number}"
        for tag in first.inputs:
            parts.transforms[step].inputs[tag] = previous
        for tag in first.outputs:
            parts.transforms[step].outputs[tag] = made
        root.subtransforms.append(step)
        output = made
    return proto


def seconds_to_compile(steps: int) -> float:
    proto = chain_proto(steps)
    start = time.thread_time()  # that of others on the machine says nothing about the compiler
    plan = compile_pipeline(proto, shards=2)
    seconds = time.thread_time() - start
    assert sum(operator.operator_id.startswith("Step ") for operator in plan.operators) == steps
    return seconds


def test_a_chain_of_four_hundred_steps_compiles_in_seconds() -> None:
    assert seconds_to_compile(400) < 10  # 0.4 s on two idle cores


def test_a_chain_of_two_thousand_steps_compiles_in_seconds() -> None:
    assert seconds_to_compile(2_000) < 30


@pytest.mark.spark
def test_a_chain_of_two_hundred_steps_runs() -> None:
    with spark_pipeline(shards=1) as p:
        assert_that(chain(p, 200), equal_to([200]))
