from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.traits import (
    DECLARED,
    Declaration,
    Determinism,
    KeyForwarding,
    Selectivity,
    State,
    Traits,
    declaration_of,
    traits,
)


def test_nothing_is_known_of_an_operator_at_first() -> None:
    fresh = Traits()
    assert fresh.state is State.UNKNOWN
    assert fresh.selectivity is Selectivity.UNKNOWN
    assert fresh.forwarding is KeyForwarding.UNKNOWN
    assert fresh.determinism is Determinism.UNKNOWN


def test_names_and_members_declare_the_same() -> None:
    @traits(state="keyed", selectivity="many", forwards_key="forwarded", deterministic="unknown")
    def by_name() -> None: ...

    @traits(
        state=State.KEYED,
        selectivity=Selectivity.MANY,
        forwards_key=True,
        deterministic=False,
    )
    def by_member() -> None: ...

    assert declaration_of(by_name) == declaration_of(by_member)


def test_a_name_outside_the_domain_is_refused_with_the_domain() -> None:
    with pytest.raises(ValueError, match="'sometimes'.*'exactly_one', 'at_most_one', 'many'"):
        traits(selectivity="sometimes")
    with pytest.raises(ValueError, match="forwards_key='yes'.*'forwarded', 'changed', 'unknown'"):
        traits(forwards_key="yes")


def test_decorating_only_sets_an_attribute() -> None:
    def f(x: int) -> int:
        return x + 1

    assert traits(state="none")(f) is f
    assert f(1) == 2


def test_a_second_declaration_adds_to_the_first() -> None:
    @traits(state="none")
    @traits(state="keyed", selectivity="many")
    def f() -> None: ...

    assert declaration_of(f) == Declaration(state=State.NONE, selectivity=Selectivity.MANY)


def test_an_object_without_attributes_is_refused() -> None:
    with pytest.raises(TypeError, match="wrap it in a function"):
        traits(state="none")(len)


def test_an_instance_shows_the_declaration_of_its_class() -> None:
    @traits(state="none")
    class Base:
        def process(self) -> None: ...

    class Same(Base): ...

    class Other(Base):
        def process(self) -> None: ...

    assert declaration_of(Base()) == Declaration(state=State.NONE)
    assert declaration_of(Same()) == Declaration(state=State.NONE)
    assert declaration_of(Other()) is None


@given(
    found=st.sampled_from(State),
    said=st.none() | st.sampled_from(State),
    selectivity=st.none() | st.sampled_from(Selectivity),
)
def test_what_is_declared_wins_and_the_rest_stays(found: Any, said: Any, selectivity: Any) -> None:
    before = Traits(state=found, state_reason="found")
    after = before.declared(Declaration(state=said, selectivity=selectivity))
    assert after.state is (said or found)
    assert after.state_reason == (DECLARED if said else "found")
    assert after.selectivity is (selectivity or before.selectivity)
    assert after.forwarding is before.forwarding
