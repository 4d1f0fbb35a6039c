from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.transforms.core import RestrictionProvider

from headrace.compiler.analyse import AnalysedGraph, analyse
from headrace.compiler.ingest import ingest
from headrace.plan.ids import OperatorId
from headrace.plan.operators import Role
from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State
from tests.compiler import snippets


def analysed(*transforms: beam.PTransform) -> AnalysedGraph:
    pipeline = beam.Pipeline()
    source = pipeline | "pairs" >> beam.Create([("a", 1)])
    for i, transform in enumerate(transforms):
        source | f"t{i}" >> transform
    return analyse(ingest(pipeline.to_runner_api()))


def test_a_grouping_has_keyed_state_and_hands_the_key_on() -> None:
    graph = analysed(beam.GroupByKey(), beam.CombinePerKey(sum))
    for name in ("t0", "t1"):
        operator = graph.operator(OperatorId(name))
        assert operator.role is Role.GROUPING
        assert operator.traits.state is State.KEYED
        assert operator.traits.forwarding is KeyForwarding.FORWARDED
        assert operator.traits.selectivity is Selectivity.MANY
        assert operator.key == ("key:string_utf8",)


def test_state_cells_make_state_keyed() -> None:
    operator = analysed(beam.ParDo(snippets.Stateful())).operator(OperatorId("t0"))
    assert operator.role is Role.STATEFUL
    assert operator.traits.state is State.KEYED
    assert "count" in operator.traits.state_reason and "flush" in operator.traits.state_reason
    assert operator.traits.selectivity is Selectivity.MANY  # its timer may emit
    assert operator.key == ("key:string_utf8",)


class StatefulWithMemory(snippets.Stateful):
    def process(  # type: ignore[override]
        self, element: Any, count: Any = beam.DoFn.StateParam(snippets.Stateful.COUNT)  # noqa: B008
    ) -> Any:
        self.last = element
        yield element


def test_state_cells_do_not_excuse_writes_to_self() -> None:
    operator = analysed(beam.ParDo(StatefulWithMemory())).operator(OperatorId("t0"))
    assert operator.role is Role.STATEFUL
    assert operator.traits.state is State.UNKNOWN
    assert operator.traits.state_reason.startswith("writes self.last in line")
    assert operator.key == ()


class Offsets(RestrictionProvider):  # type: ignore[misc]
    def initial_restriction(self, element: Any) -> Any:
        return OffsetRange(0, 3)

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> Any:
        return restriction.size()


class Splittable(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(Offsets())) -> Any:  # noqa: B008
        if tracker.try_claim(0):
            yield element


def test_a_splittable_dofn_gives_many() -> None:
    operator = analysed(beam.ParDo(Splittable())).operator(OperatorId("t0"))
    assert operator.role is Role.SPLITTABLE
    assert operator.traits.selectivity is Selectivity.MANY


@pytest.mark.parametrize(
    ("transform", "forwarding"),
    [
        (beam.WithKeys(lambda x: 1), KeyForwarding.CHANGED),
        (beam.Values(), KeyForwarding.UNKNOWN),
        (beam.KvSwap(), KeyForwarding.CHANGED),
        (beam.WindowInto(beam.window.FixedWindows(5)), KeyForwarding.FORWARDED),
        (beam.Map(lambda x: x), KeyForwarding.FORWARDED),
        (beam.Reshuffle(), KeyForwarding.FORWARDED),
    ],
    ids=str,
)
def test_transforms_that_come_with_beam_are_read_right(transform: Any, forwarding: Any) -> None:
    graph = analysed(transform)
    operators = [o for o in graph.operators if o.operator_id.startswith("t0")]
    assert len(operators) == 1
    assert operators[0].traits.forwarding is forwarding, operators[0].traits.forwarding_reason
    assert operators[0].traits.state is State.NONE, operators[0].traits.state_reason


class CountingCombine(beam.CombineFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self.calls = 0

    def create_accumulator(self) -> Any:
        return 0

    def add_input(self, accumulator: Any, element: Any) -> Any:
        self.calls += 1
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> Any:
        return sum(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class FairCombine(CountingCombine):
    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element


def test_a_combine_that_writes_into_itself_is_not_keyed() -> None:
    graph = analysed(beam.CombinePerKey(CountingCombine()), beam.CombinePerKey(FairCombine()))
    traits = graph.operator(OperatorId("t0")).traits
    assert traits.state is State.UNKNOWN
    assert traits.state_reason.startswith("writes self.calls in line")
    assert graph.operator(OperatorId("t1")).traits.state is State.KEYED


def test_a_combine_by_a_rolling_function_is_not_deterministic() -> None:
    graph = analysed(
        beam.CombinePerKey(lambda values: random.choice(list(values))), beam.CombinePerKey(max)
    )
    assert graph.operator(OperatorId("t0")).traits.determinism is Determinism.UNKNOWN
    assert graph.operator(OperatorId("t1")).traits.determinism is Determinism.DETERMINISTIC


def test_an_impulse_and_a_flatten_have_their_roles() -> None:
    pipeline = beam.Pipeline()
    a, b = pipeline | "a" >> beam.Impulse(), pipeline | "b" >> beam.Impulse()
    (a, b) | "both" >> beam.Flatten()
    graph = analyse(ingest(pipeline.to_runner_api()))
    assert graph.operator(OperatorId("a")).role is Role.IMPULSE
    assert graph.operator(OperatorId("both")).role is Role.FLATTEN


def test_a_dofn_that_cannot_be_unpickled_is_unknown_in_everything() -> None:
    pipeline = beam.Pipeline()
    pipeline | beam.Create([1]) | "m" >> beam.Map(lambda x: x)
    proto = pipeline.to_runner_api()
    for transform in proto.components.transforms.values():
        if transform.unique_name == "m":
            payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
            payload.do_fn.payload = b"not a pickle"
            transform.spec.payload = payload.SerializeToString()
    found = analyse(ingest(proto)).operator(OperatorId("m")).traits
    assert found.state is State.UNKNOWN
    assert found.forwarding is KeyForwarding.UNKNOWN
    assert "cannot be unpickled" in found.state_reason
