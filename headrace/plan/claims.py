"""What the plan builds on of one operator, in the form in which a run can check it.

Takes an operator with its traits, gives `Claims`. Frozen data that travels with a stage; who checks
it is the worker. Knows nothing of Beam.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.plan.operators import Operator, Role
from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What the plan builds on; each with the reason that `explain` gives."""

    step: str
    most: int | None  # outputs of one call; None: any number
    least: int
    selectivity_reason: str
    keeps_key: str  # why; empty: not claimed
    keeps_nothing: str
    deterministic: str


def claims_of(operator: Operator) -> Claims | None:
    """Give what is claimed of an operator; None: nothing that a call could show."""
    traits = operator.traits
    one = traits.selectivity is Selectivity.EXACTLY_ONE
    few = one or traits.selectivity is Selectivity.AT_MOST_ONE
    keeps_key = traits.forwarding is KeyForwarding.FORWARDED
    keeps_nothing = traits.state is not State.UNKNOWN
    again = traits.determinism is Determinism.DETERMINISTIC and traits.state is State.NONE
    if operator.role is Role.SPLITTABLE or not (few or keeps_key or keeps_nothing or again):
        return None
    return Claims(
        step=operator.operator_id,
        most=1 if few else None,
        least=int(one),
        selectivity_reason=traits.selectivity_reason,
        keeps_key=traits.forwarding_reason if keeps_key else "",
        keeps_nothing=traits.state_reason if keeps_nothing else "",
        deterministic=traits.determinism_reason if again else "",
    )
