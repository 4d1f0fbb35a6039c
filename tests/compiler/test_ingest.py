from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.coders import RowCoder
from apache_beam.runners.pipeline_context import PipelineContext
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.graph import Graph
from headrace.compiler.ingest import CoderFingerprints, ingest
from headrace.plan.ids import CollectionId, OperatorId
from tests.compiler import snippets


def graph_of(pipeline: beam.Pipeline) -> Graph:
    return ingest(pipeline.to_runner_api())


def small() -> Graph:
    pipeline = beam.Pipeline()
    pairs = pipeline | "pairs" >> beam.Create([("a", 1)])
    sums = pairs | "sums" >> beam.CombinePerKey(sum)
    side = pipeline | "side" >> beam.Create([1])
    sums | "join" >> beam.Map(lambda kv, s: kv, beam.pvalue.AsIter(side))
    (pairs, sums) | "both" >> beam.Flatten() | "groups" >> beam.GroupByKey()
    return graph_of(pipeline)


def test_operators_are_leaves_and_whole_groupings() -> None:
    names = [n.operator_id for n in small().nodes]
    assert "sums" in names and "groups" in names and "both" in names
    assert not any(name.startswith(("sums/", "groups/")) for name in names)
    assert "pairs" not in names  # a composite
    assert "pairs/MaybeReshuffle" not in names  # hands its input on
    assert "pairs/Impulse" in names and "pairs/Map(decode)" in names


def test_edges_lead_from_producers_to_readers() -> None:
    graph = small()
    assert graph.predecessors(OperatorId("both")) == ("pairs/Map(decode)", "sums")
    assert graph.successors(OperatorId("sums")) == ("join", "both")
    assert graph.predecessors(OperatorId("join")) == ("sums",)
    assert graph.node(OperatorId("join")).side_inputs == ("side/Map(decode)",)
    assert ("both", "both", "groups") in set(graph.edges())


def test_upstream_meets_every_operator_once() -> None:
    up = [n.operator_id for n in small().upstream(OperatorId("groups"))]
    assert up[0] == "both"
    assert len(up) == len(set(up))
    assert set(up) >= {"both", "sums", "pairs/Map(decode)", "pairs/Impulse"}
    assert "join" not in up


def test_key_coders_are_told_by_value() -> None:
    graph = small()
    keys = {name: c.key_coder for name, c in graph.collections.items()}
    assert keys[CollectionId("pairs/Map(decode)")] == keys[CollectionId("sums")] == "string_utf8"
    assert keys[CollectionId("side/Map(decode)")] == ""


def test_outputs_beside_the_main_one_carry_their_tag() -> None:
    pipeline = beam.Pipeline()
    split = beam.ParDo(snippets.YieldsOnce()).with_outputs("odd", main="even")
    pipeline | beam.Create([1]) | "split" >> split
    assert {c for c in graph_of(pipeline).collections if c.startswith("split")} == {
        "split/ParDo(YieldsOnce)",
        "split/ParDo(YieldsOnce)[odd]",
    }


def test_two_builds_of_a_pipeline_give_the_same_names() -> None:
    first, second = small(), small()
    assert [n.operator_id for n in first.nodes] == [n.operator_id for n in second.nodes]
    assert dict(first.collections) == dict(second.collections)


def test_two_operators_of_one_name_are_refused() -> None:
    proto = beam.Pipeline()
    (proto | "a" >> beam.Impulse(), proto | "b" >> beam.Impulse())
    made = proto.to_runner_api()
    for transform in made.components.transforms.values():
        transform.unique_name = transform.unique_name and "same"
    with pytest.raises(ValueError, match="two operators have the name 'same'"):
        ingest(made)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=10))
def test_producers_come_before_readers_in_any_pipeline(steps: Any) -> None:
    pipeline = beam.Pipeline()
    made = [pipeline | "start" >> beam.Create([(1, 1)])]
    for i, (origin, side) in enumerate(steps):
        source = made[origin % len(made)]
        if side:
            view = beam.pvalue.AsIter(made[-1])
            made.append(source | f"side{i}" >> beam.Map(lambda kv, s: kv, view))
        else:
            made.append((source, made[-1]) | f"flat{i}" >> beam.Flatten())
    graph = graph_of(pipeline)
    place = {n.operator_id: i for i, n in enumerate(graph.nodes)}
    for producer, _, reader in graph.edges():
        assert place[producer] < place[reader]


_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def print_of_rows(kind: type) -> tuple[str, str]:
    """The print of the coder that Beam takes for a class, here and as another process makes it."""
    context = PipelineContext()
    known = context.coders.get_id(RowCoder.from_type_hint(kind, None))
    components = context.to_runner_api()
    here = CoderFingerprints(components).whole(known)
    spec = components.coders[known].spec
    spec.payload, changed = _ID.subn(lambda _: str(uuid.uuid4()).encode(), spec.payload)
    assert changed > 0
    return here, CoderFingerprints(components).whole(known)


class Inner(NamedTuple):
    """A row within a row."""

    size: int


class Outer(NamedTuple):
    """A row with rows at every depth."""

    name: str
    one: Inner
    many: Sequence[Inner]
    named: Mapping[str, Inner]


class Longer(NamedTuple):
    """The same but for a field."""

    name: str
    one: Inner
    many: Sequence[Inner]
    named: Mapping[str, Inner]
    more: int


def test_the_ids_that_beam_draws_for_schemas_are_no_part_of_a_print() -> None:
    here, there = print_of_rows(Outer)
    assert here == there
    assert here != print_of_rows(Longer)[0]
