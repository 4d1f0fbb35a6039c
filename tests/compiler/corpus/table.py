"""How an entry of the corpus is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State

STATES = {"none": State.NONE, "keyed": State.KEYED, "keeps": State.UNKNOWN}
OUTPUTS = {
    "one": Selectivity.EXACTLY_ONE,
    "atmost": Selectivity.AT_MOST_ONE,
    "many": Selectivity.MANY,
    "free": Selectivity.UNKNOWN,
}
KEYS = {"fwd": KeyForwarding.FORWARDED, "other": KeyForwarding.CHANGED}
REPEATS = {"same": Determinism.DETERMINISTIC, "varies": Determinism.UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A step of a pipeline, and what is true of it."""

    name: str
    step: Any  # a PTransform
    state: State
    outputs: Selectivity
    key: KeyForwarding
    repeats: Determinism
    elements: tuple[Any, ...]  # what it is run on; empty: it cannot be run here


def case(name: str, step: Any, says: str, *elements: Any) -> Case:
    """Write an entry: four words for state, outputs, key and repetition, then elements."""
    state, outputs, key, repeats = says.split()
    return Case(
        name=name, step=step, state=STATES[state], outputs=OUTPUTS[outputs], key=KEYS[key],
        repeats=REPEATS[repeats], elements=elements,
    )
