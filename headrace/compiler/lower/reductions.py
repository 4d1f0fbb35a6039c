"""Lowers a step behind a GroupByKey that asks of its values only what they add up to.

`sum(values)`, `min(values)`, `max(values)` and `len(list(values))` are numbers that columns have of
each group; with them in the place of the values, such a function is one like any other. Followed
are groups of ints. A function that does anything else with the values is left to objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.compiler.lower.build import Unlowerable
from headrace.plan.expressions import Expression, Leaf, nodes
from headrace.plan.joins import REDUCED
from headrace.plan.shapes import INT, OTHER

#: No leaf of an element, nor of a field that a DoFn keeps.
_PLACE = -1_000_000


@dataclass(frozen=True, slots=True)
class GroupValues(Leaf):
    """The values of a group, of which only what they add up to can be used."""

    start: int = 0  # the leaf of the first of `REDUCED`
    is_list: bool = False

    def reduced(self, which: str) -> Leaf:
        """One of the numbers that stand for the values."""
        name = {"least": "min", "greatest": "max", "count": "len"}.get(which, which)
        return Leaf(self.start + REDUCED.index(which), INT, f"{name}({self})")


def values_from(start: int) -> GroupValues:
    """The values of a group for which the leaves from one on stand."""
    return GroupValues(_PLACE, OTHER, "values", start)


def reduction(target: object, args: Sequence[object]) -> Expression | None:
    """What a function of Python's own gives for the values of a group; None: it is not known."""
    (values,) = args if len(args) == 1 else (None,)
    if not isinstance(values, GroupValues):
        return None
    if target is list:
        return replace(values, is_list=True)
    if target is len and values.is_list:  # else they need not be a list, and have no length
        return values.reduced("count")
    which = next((name for f, name in _KNOWN if f is target), None)
    return None if which is None else values.reduced(which)


_KNOWN = ((sum, "sum"), (min, "least"), (max, "greatest"))


def refuse_values(roots: Iterable[Expression]) -> None:
    """Refuse a function in which the values themselves are left."""
    if any(isinstance(node, GroupValues) for root in roots for node in nodes(root)):
        msg = "uses the values of its groups as they are"
        raise Unlowerable(msg)
