from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.io import BoundedOutOfOrderness, Monotonic
from headrace.io.watermarks import policy_of
from headrace.plan.clocks import SourceClock


def test_seconds_become_microseconds() -> None:
    policy = BoundedOutOfOrderness(1.5, idle_after=60, max_ahead=0)
    assert policy.clock() == SourceClock(delay=1_500_000, idle_after=60_000_000, max_ahead=0)
    assert Monotonic(idle_after=0.000_001).clock() == SourceClock(idle_after=1)


def test_a_number_is_a_bound_in_seconds() -> None:
    assert policy_of(2.5) == BoundedOutOfOrderness(2.5)
    assert policy_of(0) == BoundedOutOfOrderness(0)
    given = Monotonic(max_ahead=1)
    assert policy_of(given) is given


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "5", None, True])
def test_a_bound_outside_its_domain_is_refused_by_name(wrong: Any) -> None:
    told = rf"BoundedOutOfOrderness: seconds={wrong!r} is no finite number of seconds, zero or more"
    with pytest.raises(OptionError, match=told):
        BoundedOutOfOrderness(wrong)


@pytest.mark.parametrize("policy", [Monotonic, lambda **k: BoundedOutOfOrderness(1, **k)])
def test_limits_outside_their_domains_are_refused_by_name(policy: Any) -> None:
    with pytest.raises(OptionError, match="idle_after=0 is no finite .* more than zero"):
        policy(idle_after=0)
    with pytest.raises(OptionError, match="max_ahead=-0.1 is no finite .* zero or more"):
        policy(max_ahead=-0.1)
    policy(max_ahead=0)


@pytest.mark.parametrize("wrong", ["5 seconds", True, SourceClock()])
def test_what_is_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="is no policy; give BoundedOutOfOrderness"):
        policy_of(wrong)


def test_a_policy_does_not_change() -> None:
    policy = BoundedOutOfOrderness(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.seconds = 2  # type: ignore[misc]
