from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import PlanError
from headrace.plan.ids import CollectionId, OperatorId, RegionId
from headrace.plan.operators import Operator, Role
from headrace.plan.regions import Joint, OrderingStrategy, Region
from headrace.plan.traits import State, Traits


def region(**changes: object) -> Region:
    fields: dict[str, object] = {
        "region_id": RegionId("a"),
        "operators": (OperatorId("a"),),
        "key": (),
        "first_joint": Joint.SPLIT,
        "last_joint": Joint.MERGE,
        "strategy": OrderingStrategy.ROUND_ROBIN,
        "reasons": (),
    }
    return Region(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_region_with_fitting_joints_is_accepted() -> None:
    assert region().parallel
    assert not region(
        first_joint=None, last_joint=None, strategy=OrderingStrategy.NONE_NOT_PARALLEL
    ).parallel


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operators": ()}, "region a has no operators"),
        ({"first_joint": Joint.MERGE}, "MERGE"),
        ({"last_joint": Joint.SPLIT}, "SPLIT"),
        ({"first_joint": None}, "None"),
        ({"strategy": OrderingStrategy.NONE_NOT_PARALLEL}, "not parallel"),
    ],
)
def test_a_region_that_makes_no_sense_is_refused(changes: Any, message: Any) -> None:
    with pytest.raises(PlanError, match=message):
        region(**changes)


def test_an_operator_has_a_key_exactly_when_its_state_is_keyed() -> None:
    def operator(state: State, key: tuple[str, ...]) -> Operator:
        return Operator(
            operator_id=OperatorId("o"),
            urn="u",
            role=Role.ELEMENTWISE,
            inputs=(CollectionId("c"),),
            key=key,
            traits=Traits(state=state),
        )

    assert operator(State.KEYED, ("k",)).key == ("k",)
    with pytest.raises(PlanError, match="operator o: state none"):
        operator(State.NONE, ("k",))
    with pytest.raises(PlanError, match="operator o: state keyed"):
        operator(State.KEYED, ())
