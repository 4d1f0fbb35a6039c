"""Region formation, on graphs drawn by hand.

The first one is the worked example of seed 003's figure 5, as far as its text tells it: names o1 to
o14, keys k and l, "n.p." for operators that cannot be parallel. Beam has no fusion pragma, so the
dependency between o12 and o14 has no counterpart here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.cut_regions import regions_of
from headrace.plan.ids import CollectionId, OperatorId
from headrace.plan.operators import Operator, Role
from headrace.plan.regions import Joint, OrderingStrategy, Region
from headrace.plan.traits import KeyForwarding, Selectivity, State, Traits

ONE, LESS, MANY = Selectivity.EXACTLY_ONE, Selectivity.AT_MOST_ONE, Selectivity.MANY


def op(
    name: str,
    *inputs: str,
    key: str = "",
    selectivity: Selectivity = ONE,
    forwards: bool = True,
    parallel: bool = True,
    role: Role = Role.ELEMENTWISE,
    side: tuple[str, ...] = (),
) -> Operator:
    """An operator that reads the outputs of others; `key` lists one-letter attributes."""
    state = State.KEYED if key else State.NONE
    return Operator(
        operator_id=OperatorId(name),
        urn="",
        role=role,
        inputs=tuple(CollectionId(i) for i in inputs),
        side_inputs=tuple(CollectionId(i) for i in side),
        outputs=(CollectionId(name),),
        key=tuple(key) if parallel else (),
        traits=Traits(
            state=state if parallel else State.UNKNOWN,
            state_reason="" if parallel else "writes self.total in line 12",
            selectivity=selectivity,
            forwarding=KeyForwarding.FORWARDED if forwards else KeyForwarding.CHANGED,
            forwarding_reason="" if forwards else "gives (v, k) in line 3",
        ),
    )


def source(name: str, **kw: object) -> Operator:
    return op(name, role=Role.SOURCE, forwards=False, **kw)  # type: ignore[arg-type]


def cut(*operators: Operator) -> dict[str, Region]:
    return {r.region_id: r for r in regions_of(operators)}


def groups(regions: Iterable[Region]) -> list[tuple[str, ...]]:
    return [r.operators for r in regions if r.parallel]


def test_the_worked_example_of_the_paper() -> None:
    regions = cut(
        op("o0", role=Role.IMPULSE),
        op("o1", "o0"),
        op("o00", role=Role.IMPULSE),
        op("o2", "o00"),
        op("o3", "o2", parallel=False),
        op("o5", "o3"),
        op("o6", "o5", key="k"),
        op("o7", "o6", parallel=False),
        op("o8", "o1", "o7"),
        op("o9", "o8", key="k"),
        op("o10", "o9", key="kl"),
        op("o11", "o10", key="l"),
    )
    # o1 stops before o8, which has two ways in; o2 before o3, which is not parallel; o5 and o6
    # share the key k; o9 and o10 leave o11 out, since k, kl and l have nothing in common. The paper
    # leaves o8 alone, as its mergers have one input; ours merge any number, so o8 begins a region.
    assert groups(regions.values()) == [
        ("o1",),
        ("o2",),
        ("o5", "o6"),
        ("o8", "o9", "o10"),
        ("o11",),
    ]
    assert regions["o5"].key == ("k",)
    assert regions["o8"].key == ("k",)
    assert regions["o11"].key == ("l",)
    assert regions["o1"].reasons[1] == "ends here: o8 has 2 ways in"
    assert regions["o3"].reasons == ("not parallel: writes self.total in line 12",)
    assert "o11 is keyed by {l}, the region by {k}" in regions["o8"].reasons[1]


def test_the_network_example_shuffles_between_server_and_user() -> None:
    # Figure 1: a parallel source by server, an aggregate by user, a filter, a sequential sink.
    regions = cut(
        source("ParSrc"),
        op("Aggregate", "ParSrc", key="u", selectivity=MANY),
        op("Filter", "Aggregate", selectivity=LESS),
        op("FileSink", "Filter", parallel=False),
    )
    assert groups(regions.values()) == [("ParSrc",), ("Aggregate", "Filter")]
    assert regions["ParSrc"].first_joint is Joint.PARALLEL_SOURCE
    assert regions["ParSrc"].last_joint is Joint.SHUFFLE
    assert regions["Aggregate"].first_joint is Joint.SHUFFLE
    assert regions["Aggregate"].last_joint is Joint.MERGE
    assert regions["FileSink"].first_joint is None


@pytest.mark.parametrize(
    ("key", "selectivity", "strategy"),
    [
        ("", ONE, OrderingStrategy.ROUND_ROBIN),
        ("", LESS, OrderingStrategy.SEQUENCE_AND_PULSES),
        ("", MANY, OrderingStrategy.SEQUENCE_SUBINDEX_AND_PULSES),
        ("", Selectivity.UNKNOWN, OrderingStrategy.NONE_NOT_PARALLEL),
        ("k", ONE, OrderingStrategy.SEQUENCE),
        ("k", LESS, OrderingStrategy.SEQUENCE_AND_PULSES),
        ("k", MANY, OrderingStrategy.SEQUENCE_SUBINDEX_AND_PULSES),
        ("k", Selectivity.UNKNOWN, OrderingStrategy.NONE_NOT_PARALLEL),
    ],
)
def test_state_and_selectivity_pick_the_ordering_strategy(
    key: Any, selectivity: Any, strategy: Any
) -> None:
    regions = cut(op("i", role=Role.IMPULSE), op("x", "i", key=key, selectivity=selectivity))
    assert regions["x"].strategy is strategy


def test_unknown_state_is_not_parallel_whatever_the_selectivity() -> None:
    for selectivity in Selectivity:
        regions = cut(
            op("i", role=Role.IMPULSE), op("x", "i", parallel=False, selectivity=selectivity)
        )
        assert not regions["x"].parallel


def test_the_most_open_operator_decides_for_the_region() -> None:
    regions = cut(op("i", role=Role.IMPULSE), op("a", "i"), op("b", "a", selectivity=LESS))
    assert regions["a"].operators == ("a", "b")
    assert regions["a"].strategy is OrderingStrategy.SEQUENCE_AND_PULSES


def test_a_key_that_is_not_handed_on_ends_the_region() -> None:
    regions = cut(
        op("i", role=Role.IMPULSE),
        op("a", "i", forwards=False),
        op("b", "a"),
        op("c", "b", key="k"),
        op("d", "c", forwards=False),
        op("e", "d"),
    )
    assert groups(regions.values()) == [("a", "b"), ("c", "d", "e")]
    assert regions["a"].reasons[1] == (
        "ends here: c needs the key, which a does not hand on: gives (v, k) in line 3"
    )
    assert regions["a"].last_joint is Joint.SHUFFLE
    assert regions["c"].last_joint is Joint.PARALLEL_SINK


def test_an_output_read_twice_ends_the_region_with_a_merge() -> None:
    regions = cut(op("i", role=Role.IMPULSE), op("a", "i"), op("b", "a"), op("c", "a"))
    assert groups(regions.values()) == [("a",), ("b",), ("c",)]
    assert regions["a"].last_joint is Joint.MERGE
    assert regions["b"].first_joint is Joint.SPLIT
    assert "read 2 times" in regions["a"].reasons[1]


def test_a_side_input_is_a_way_out_but_not_a_way_in() -> None:
    regions = cut(
        op("i", role=Role.IMPULSE),
        op("a", "i"),
        op("j", role=Role.IMPULSE),
        op("b", "j", side=("a",)),
    )
    assert groups(regions.values()) == [("a",), ("b",)]
    assert regions["a"].last_joint is Joint.MERGE
    assert "side input" in regions["a"].reasons[1]


def test_two_outputs_that_are_both_read_are_two_ways_out() -> None:
    two = op("a", "i")
    two = Operator(
        operator_id=two.operator_id,
        urn="",
        role=two.role,
        inputs=two.inputs,
        outputs=(CollectionId("a"), CollectionId("a[bad]")),
        traits=two.traits,
    )
    regions = cut(op("i", role=Role.IMPULSE), two, op("b", "a"), op("c", "a[bad]"))
    assert regions["a"].reasons[1] == "ends here: its output is read 2 times"
    assert regions["a"].parallel


def test_a_redistribution_starts_a_region() -> None:
    regions = cut(
        op("i", role=Role.IMPULSE), op("a", "i"), op("r", "a", role=Role.REDISTRIBUTE), op("b", "r")
    )
    assert groups(regions.values()) == [("a",), ("r", "b")]


def test_an_impulse_is_not_parallel() -> None:
    assert not cut(op("i", role=Role.IMPULSE))["i"].parallel


chains = st.lists(
    st.tuples(
        st.sampled_from(["", "k", "l", "kl"]),
        st.sampled_from(Selectivity),
        st.booleans(),
        st.booleans(),
        st.integers(0, 5),
    ),
    max_size=12,
)


@given(chains)
def test_every_region_of_any_tree_is_safe(steps: Any) -> None:
    operators = [op("i", role=Role.IMPULSE)]
    for n, (key, selectivity, forwards, parallel, back) in enumerate(steps):
        before = operators[max(0, len(operators) - 1 - back // 3)].operator_id
        operators.append(
            op(
                f"o{n}",
                before,
                key=key,
                selectivity=selectivity,
                forwards=forwards,
                parallel=parallel,
            )
        )
    by_name = {o.operator_id: o for o in operators}
    regions = regions_of(operators)
    assert sorted(n for r in regions for n in r.operators) == sorted(by_name)
    for region in (r for r in regions if r.parallel):
        members = [by_name[n] for n in region.operators]
        assert all(m.traits.state is not State.UNKNOWN for m in members)
        assert all(m.traits.selectivity is not Selectivity.UNKNOWN for m in members)
        keyed = [m for m in members if m.traits.state is State.KEYED]
        if keyed:
            assert region.key
            assert set(region.key) == set.intersection(*(set(m.key) for m in keyed))
            in_front = members[: members.index(keyed[-1])]
            assert all(m.traits.forwarding is KeyForwarding.FORWARDED for m in in_front)
        for a, b in zip(members, members[1:], strict=False):
            assert b.inputs == a.outputs
