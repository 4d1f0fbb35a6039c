"""What columns compute of a step that gives many outputs for an element, or none.

Beside `Lowered`, a function with at most one output: a range of numbers of which each gives an
output, and a DoFn that does nothing but fold its elements into numbers it keeps. Frozen data over
expressions; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.plan.combines import Fold
from headrace.plan.expressions import Checked, Construct, Lowered
from headrace.plan.shapes import INT, Shape, TupleShape


def with_number(element: Shape) -> TupleShape:
    """The shape of a number of a range beside the element that the range was made for."""
    return TupleShape((INT, element))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """A function that goes through `range(...)` and gives at most one output for each number."""

    bounds: Lowered  # start, stop and step, of the element
    body: Lowered  # of the shape `with_number` of the element: the output
    atomic: bool  # an element whose last number raises has no output at all: it returns a list

    @property
    def shape(self) -> Shape:
        """The shape of the elements."""
        return self.bounds.shape

    @property
    def result(self) -> Shape:
        """The shape of the outputs."""
        return self.body.result

    def __str__(self) -> str:
        gives = self.bounds.gives
        made = gives.value if isinstance(gives, Checked) else gives
        assert isinstance(made, Construct)
        start, stop, step = made.items
        return f"{self.body} for each number of range({start}, {stop}, {step})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """A DoFn without outputs whose `process` folds its element into whole numbers of its own."""

    names: tuple[str, ...]  # of the attributes
    folds: tuple[Fold, ...]  # for each of them
    feeds: Lowered  # a tuple: for each of them, what an element brings

    @property
    def shape(self) -> Shape:
        """The shape of the elements."""
        return self.feeds.shape

    @property
    def result(self) -> None:
        """The shape of the outputs: there are none."""
        return

    def __str__(self) -> str:
        gives = self.feeds.gives
        made = gives.value if isinstance(gives, Checked) else gives
        assert isinstance(made, Construct)
        parts = zip(self.names, self.folds, made.items, strict=True)
        return ", ".join(f"{name}: {fold.value} of {feed}" for name, fold, feed in parts)


#: What columns know of a step.
LoweredStep: TypeAlias = Lowered | Ranged | Folding
