"""The text of a plan that was written by hand, with the text written by hand as well."""

from __future__ import annotations

from dataclasses import replace

from headrace.plan.draw import colour, dot, svg
from headrace.plan.explain import explain, region_numbers
from headrace.plan.ids import ChannelId, CollectionId, OperatorId, RegionId, StageId
from headrace.plan.operators import Operator, Role
from headrace.plan.regions import Joint, OrderingStrategy, Region
from headrace.plan.supersteps import Channel, ChannelKind, Plan, Stage, Superstep
from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State, Traits

A, SUM, B = OperatorId("A"), OperatorId("Sum"), OperatorId("B")
LEFT, RIGHT = StageId("left"), StageId("right")


def stage(stage_id: StageId, superstep: int, *operators: str) -> Stage:
    return Stage(
        stage_id=stage_id,
        name=stage_id,
        operators=tuple(OperatorId(o) for o in operators),
        superstep=superstep,
        reads=(),
        writes=(),
        side_inputs=(),
        transforms=b"",
    )


def plan() -> Plan:
    known = Traits(
        state=State.NONE,
        state_reason="r1",
        selectivity=Selectivity.EXACTLY_ONE,
        selectivity_reason="r2",
        forwarding=KeyForwarding.FORWARDED,
        forwarding_reason="r3",
        determinism=Determinism.DETERMINISTIC,
        determinism_reason="r4",
    )
    return Plan(
        name="small",
        shards=2,
        supersteps=(
            Superstep(index=0, stages=(stage(LEFT, 0, "Sum/Precombine", "A"),)),
            Superstep(index=1, stages=(stage(RIGHT, 1, "Sum/ExtractOutputs", "Sum/Merge", "B"),)),
        ),
        channels=(
            Channel(
                channel_id=ChannelId("c0"),
                kind=ChannelKind.SOURCE,
                source_stages=(),
                target_stages=(LEFT,),
                label="Start",
                reason="it starts",
            ),
            Channel(
                channel_id=ChannelId("c1"),
                kind=ChannelKind.GROUP,
                source_stages=(LEFT,),
                target_stages=(RIGHT,),
                label="ref_AppliedPTransform_Sum_12",
                reason="of the key",
            ),
        ),
        operators=(
            Operator(operator_id=A, urn="u", role=Role.ELEMENTWISE, inputs=(), traits=known),
            Operator(
                operator_id=SUM,
                urn="u",
                role=Role.GROUPING,
                inputs=(CollectionId("A"),),
                key=("k",),
                traits=replace(known, state=State.KEYED),
            ),
        ),
        regions=(
            Region(
                region_id=RegionId("A"),
                operators=(A,),
                key=(),
                first_joint=None,
                last_joint=None,
                strategy=OrderingStrategy.NONE_NOT_PARALLEL,
                reasons=("not parallel: of two ways in",),
            ),
            Region(
                region_id=RegionId("Sum"),
                operators=(SUM,),
                key=("k",),
                first_joint=Joint.SPLIT,
                last_joint=Joint.MERGE,
                strategy=OrderingStrategy.SEQUENCE,
                reasons=("keyed",),
            ),
        ),
        components=b"",
        fingerprint="f00d",
    )


EXPECTED = """\
plan small: 2 shards, 2 supersteps
fingerprint f00d

superstep 0
  stage 0.0
    A
    Sum/Precombine
    <= source: Start
       because it starts
    => 1.0 by key, grouped: Sum
       because of the key

superstep 1
  stage 1.0
    Sum/Merge
    Sum/ExtractOutputs
    B

regions: what may run on many shards and still give what one shard would, in its order
(without that order every step runs on all 2 shards)
  1. keeps its order on one shard only
       A
     because of two ways in
  2. parallel: split by k -> merge
     order: sequence numbers
       Sum
     keyed

operators: what is known of each, and why
  A
    state       none          r1
    outputs     exactly_one   r2
    key         forwarded     r3
    repeatable  deterministic r4
  Sum
    state       keyed         r1
    outputs     exactly_one   r2
    key         forwarded     r3
    repeatable  deterministic r4
"""


def test_a_plan_reads_as_written_by_hand() -> None:
    assert explain(plan(), regions=True) == EXPECTED


def test_regions_of_the_ordered_mode_are_told_only_if_asked_for() -> None:
    assert explain(plan()) == EXPECTED.partition("\nregions:")[0]
    assert "<title>" in svg(plan(), regions=True)
    assert "one shard only" not in svg(plan())


def test_parts_of_a_lifted_combine_belong_to_its_region() -> None:
    numbers = region_numbers(plan())
    assert numbers == {SUM: 2, "Sum/Precombine": 2, "Sum/Merge": 2, "Sum/ExtractOutputs": 2}


def test_pictures_colour_parallel_regions_only() -> None:
    drawn = svg(plan(), regions=True)
    assert drawn.count(f'fill="{colour(2)}"') == 3
    assert drawn.count(f'fill="{colour(None)}"') == 2  # A and B
    assert colour(2) != colour(None) != colour(1)
    assert '"0.0" -> "1.0" [label="by key, grouped: Sum"]' in dot(plan())


def test_names_with_markup_are_escaped() -> None:
    odd = replace(
        plan(),
        supersteps=(
            Superstep(index=0, stages=(stage(LEFT, 0, 'Map(<lambda> & "x")'),)),
            Superstep(index=1, stages=(stage(RIGHT, 1),)),
        ),
    )
    assert "Map(&lt;lambda&gt; &amp; &quot;x&quot;)" in svg(odd)
    assert "<lambda>" not in dot(odd)
