"""Which pipelines may go on with another's state, and what is said of those that may not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.checkpoint.identity import (
    ChannelFacts,
    Description,
    StageFacts,
    describe,
    difference,
)
from headrace.errors import CheckpointError
from headrace.plan.ids import ChannelId, OperatorId, StageId
from headrace.plan.operators import Operator, Role
from headrace.plan.supersteps import Channel, ChannelKind, Plan, Stage, Superstep

PARSE = StageFacts(number=0, name="Parse", superstep=0, operators=("Parse", "Stamp"))
SUM = StageFacts(
    number=1, name="Sum", superstep=1, operators=("Sum", "Format"),
    state={"key coder": "varint", "cell total": "double"},
)
BIDS = ChannelFacts(label="Bids", kind="group", coder="kv", windowing="global")
SIDE = ChannelFacts(label="Rates", kind="broadcast", coder="utf8")
OLD = Description(
    name="auction", fingerprint="f00d", shards=2, stages=(PARSE, SUM), channels=(BIDS, SIDE)
)


def test_a_pipeline_fits_itself() -> None:
    assert difference(OLD, OLD) == []


def test_code_name_and_shards_may_change() -> None:
    new = replace(
        OLD, name="auction2", fingerprint="beef", shards=7,
        stages=(replace(PARSE, name="x"), replace(SUM, operators=("Format", "Sum"))),
    )
    assert difference(OLD, new) == []
    assert new.digest() == OLD.digest()


def test_the_line_of_an_unnamed_lambda_may_change_but_not_its_file() -> None:
    def at(place: str) -> Description:
        step = f"Map(<lambda at {place}>)"
        channel = replace(BIDS, label=step)
        return replace(OLD, stages=(replace(PARSE, operators=(step,)),), channels=(channel,))

    assert difference(at("shop.py:12"), at("shop.py:13")) == []
    assert at("shop.py:12").digest() == at("shop.py:13").digest()
    assert difference(at("shop.py:12"), at("till.py:12")) == [
        "step 'Map(<lambda at till.py>)' is new",
        "step 'Map(<lambda at shop.py>)' is gone",
        "collection 'Map(<lambda at till.py>)' is new",
        "collection 'Map(<lambda at shop.py>)' is gone",
    ]


def test_steps_that_came_or_went_are_named() -> None:
    new = replace(OLD, stages=(replace(PARSE, operators=("Parse", "Clean")), SUM))
    assert difference(OLD, new) == ["step 'Clean' is new", "step 'Stamp' is gone"]


def test_steps_that_moved_together_are_named_together() -> None:
    new = replace(OLD, stages=(PARSE, replace(SUM, number=2, superstep=3)))
    assert difference(OLD, new) == [
        "steps 'Sum', 'Format' moved from stage 1 (superstep 1) to stage 2 (superstep 3)"
    ]


def test_a_step_that_was_copied_into_two_stages_has_moved() -> None:
    new = replace(OLD, stages=(PARSE, replace(SUM, operators=("Sum", "Format", "Stamp"))))
    assert difference(OLD, new) == [
        "step 'Stamp' moved from stage 0 (superstep 0) "
        "to stage 0 (superstep 0) and stage 1 (superstep 1)"
    ]


def test_a_changed_or_missing_cell_is_refused_and_a_new_one_is_not() -> None:
    state = {"key coder": "utf8", "cell seen": "bool"}
    new = replace(OLD, stages=(PARSE, replace(SUM, state=state)))
    assert difference(OLD, new) == [
        "stage 1 (Sum): key coder was varint, is now utf8",
        "stage 1 (Sum): cell total is gone, it was double",
    ]
    more = replace(OLD, stages=(PARSE, replace(SUM, state={**SUM.state, "cell seen": "bool"})))
    assert difference(OLD, more) == []


def test_changed_kinds_coders_and_windowings_are_named() -> None:
    channel = replace(BIDS, kind="local", coder="kv2", windowing="")
    assert difference(OLD, replace(OLD, channels=(channel, SIDE))) == [
        "collection 'Bids': its kind was group, is now local",
        "collection 'Bids': its coder was kv, is now kv2",
        "collection 'Bids': its windowing was global, is now none",
    ]


def test_a_collection_with_another_number_is_refused() -> None:
    """Rows of side inputs are kept under the channel's number."""
    assert difference(OLD, replace(OLD, channels=(SIDE, BIDS))) == [
        "collection 'Bids' moved from channel 0 to channel 1",
        "collection 'Rates' moved from channel 1 to channel 0",
    ]


def test_collections_of_the_same_name_are_told_apart_by_their_order() -> None:
    twice = replace(OLD, channels=(BIDS, BIDS))
    assert difference(twice, twice) == []
    assert difference(twice, replace(OLD, channels=(BIDS,))) == ["collection 'Bids' is gone"]
    changed = replace(OLD, channels=(BIDS, replace(BIDS, coder="x")))
    assert difference(twice, changed) == ["collection 'Bids': its coder was kv, is now x"]


NAMES = st.sampled_from("abcd")
STAGES = st.lists(
    st.builds(
        lambda steps, superstep, state: (tuple(steps), superstep, state),
        st.lists(NAMES, max_size=2), st.integers(0, 2), st.dictionaries(NAMES, NAMES, max_size=2),
    ),
    max_size=3,
)
CHANNELS = st.lists(
    st.builds(ChannelFacts, label=NAMES, kind=NAMES, coder=NAMES, windowing=NAMES), max_size=3
)


@st.composite
def descriptions(draw: Any) -> Description:
    stages = tuple(
        StageFacts(number=n, name="", superstep=superstep, operators=steps, state=state)
        for n, (steps, superstep, state) in enumerate(draw(STAGES))
    )
    return Description(
        name="p", fingerprint="", shards=1, stages=stages, channels=tuple(draw(CHANNELS))
    )


@given(descriptions(), descriptions())
def test_equal_digests_mean_no_difference(one: Description, other: Description) -> None:
    if one.digest() == other.digest():
        assert difference(one, other) == []
    assert Description.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize(
    "broken", [{}, {**OLD.to_json(), "stages": [{}]}, {**OLD.to_json(), "channels": [{"x": 1}]}]
)
def test_what_describes_no_pipeline_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="does not describe a pipeline"):
        Description.from_json(broken)


def stage(name: str, superstep: int, *operators: str) -> Stage:
    return Stage(
        stage_id=StageId(name), name=name, superstep=superstep, reads=(), writes=(),
        side_inputs=(), transforms=b"", operators=tuple(OperatorId(o) for o in operators),
    )


def test_a_plan_is_described_without_beams_running_numbers() -> None:
    first, second = stage("ref_7", 0, "Read"), stage("ref_9", 1, "Sum/ExtractOutputs", "Sum/Merge")

    def channel(label: str, kind: ChannelKind, **more: Any) -> Channel:
        return Channel(
            channel_id=ChannelId(label), kind=kind, label=label, reason="", coder_id="c1", **more
        )

    ends = {"source_stages": (first.stage_id,), "target_stages": (second.stage_id,)}
    plan = Plan(
        name="p", shards=3, components=b"", fingerprint="f", regions=(),
        supersteps=(Superstep(index=0, stages=(first,)), Superstep(index=1, stages=(second,))),
        operators=tuple(
            Operator(operator_id=OperatorId(o), urn="", role=Role.ELEMENTWISE, inputs=())
            for o in ("Read", "Sum")
        ),
        channels=(
            channel("Sum/Group", ChannelKind.GROUP, windowing_id="w1", **ends),
            channel("ref_PCollection_PCollection_12", ChannelKind.BROADCAST, **ends),
        ),
    )
    found = describe(
        plan, coders={"c1": "kv<varint>"}, windowings={"w1": "fixed 60 s"},
        state={second.stage_id: {"key coder": "varint"}},
    )
    assert found == Description(
        name="p", fingerprint="f", shards=3,
        stages=(
            StageFacts(number=0, name="Read", superstep=0, operators=("Read",)),
            StageFacts(
                number=1, name="Sum/Merge", superstep=1,
                operators=("Sum/Merge", "Sum/ExtractOutputs"), state={"key coder": "varint"},
            ),
        ),
        channels=(
            ChannelFacts(
                label="Sum/Group", kind="group", coder="kv<varint>", windowing="fixed 60 s"
            ),
            ChannelFacts(label="stage 0 to stage 1", kind="broadcast", coder="kv<varint>"),
        ),
    )


def test_another_windowing_is_told_in_words_where_both_have_them() -> None:
    def windowed(text: str, **words: str) -> Description:
        return replace(OLD, channels=(replace(BIDS, windowing=text, words=words), SIDE))

    ten = windowed("fixed#1", windows="fixed windows of 10 s", trigger="DefaultTrigger()")
    twenty = windowed("fixed#2", windows="fixed windows of 20 s", trigger="AfterCount(1)")
    assert difference(ten, twenty) == [
        "collection 'Bids': fixed windows of 10 s became fixed windows of 20 s; its trigger was "
        "DefaultTrigger(), is now AfterCount(1)"
    ]
    assert difference(windowed("fixed#1"), twenty) == [
        "collection 'Bids': its windowing was fixed#1, is now fixed#2"
    ]
    assert ten.digest() == windowed("fixed#1", windows="said otherwise").digest()


def test_another_input_is_told_and_one_that_is_not_known_fits() -> None:
    def reading(text: str) -> Description:
        return replace(OLD, inputs={"Read": text})

    assert difference(reading("FileSource[/a]"), reading("FileSource[/b]")) == [
        "step 'Read' reads FileSource[/b], and the checkpoint counts what was read of "
        "FileSource[/a]"
    ]
    assert difference(OLD, reading("FileSource[/b]")) == []
    assert difference(reading("FileSource[/a]"), OLD) == []
    kept = Description.from_json(json.loads(json.dumps(reading("FileSource[/a]").to_json())))
    assert kept.inputs == {"Read": "FileSource[/a]"}
    old = OLD.to_json()
    del old["inputs"]
    assert Description.from_json(old) == OLD
