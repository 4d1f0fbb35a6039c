"""Proves that a function hands the key of a key-value pair on unchanged.

Takes the syntax tree of a function and what its parameters are, gives a key forwarding with its
reason. Every output must be known to be a pair with the element's key; one that is not known makes
the answer UNKNOWN, one that is certainly something else makes it CHANGED.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.compiler.code.names import Names, spelled
from headrace.compiler.code.prover import Prover
from headrace.compiler.code.source import FunctionNode
from headrace.compiler.code.subject import Emits
from headrace.compiler.code.values import Value, carries, is_other
from headrace.plan.traits import KeyForwarding

_Verdict = tuple[KeyForwarding, str]


def forwards_key(
    node: FunctionNode, roles: Mapping[str, Value], emits: Emits, names: Names
) -> _Verdict:
    """Whether each output carries the key of the element it came from.

    Args:
        node: the function.
        roles: what its parameters are; those of which nothing is known are left out.
        emits: how the result becomes output.
        names: what its names stand for.
    """
    if emits is Emits.PREDICATE:
        return KeyForwarding.FORWARDED, "a filter hands elements on as they are"
    worst: _Verdict = KeyForwarding.FORWARDED, "every output carries the key it came with"
    for output in Prover(node, roles, names).outputs(emits):
        where = f"{spelled(output.shown)} in line {getattr(output.shown, 'lineno', 0)}"
        if carries(output.value):
            continue
        if is_other(output.value):
            return KeyForwarding.CHANGED, f"gives {where}"
        worst = KeyForwarding.UNKNOWN, f"the key of {where} is not known"
    return worst
