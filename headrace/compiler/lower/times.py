"""Reads `TimestampedValue(value, seconds)`: an output and the time that it is given.

What a call of it makes is known by a shape of its own; only where it is the output itself, or one
of the two sides of a choice, is it taken apart again. Anything else that holds one is refused.
"""

from __future__ import annotations

from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable, constant, kind_of
from headrace.plan.expressions import Expression, Operation, nodes
from headrace.plan.shapes import INT, ClassFound, RecordShape, ScalarKind, Shape

#: The names of its fields can be written in no text: what Python gives for them is another thing.
_STAMPED = RecordShape(
    "TimestampedValue", ("the value", "its microseconds"), (INT, INT), ClassFound.PICKLED
)
_MICROS = 1_000_000


def stamped(value: Expression, seconds: Expression) -> Expression:
    """What a call gives. Beam multiplies the seconds, and cuts off what is less than a micro."""
    kind = kind_of(seconds)
    if kind not in (ScalarKind.INT, ScalarKind.FLOAT):
        msg = f"gives an output the time {seconds.shape}"
        raise Unlowerable(msg)
    micros = build.binary(Operation.MULTIPLY, seconds, constant(_MICROS))
    if kind is ScalarKind.FLOAT:
        micros = build.call("int", (micros,))
    return build.construct((value, micros), _STAMPED)


def unstamped(given: Expression) -> tuple[Expression, Expression | None]:
    """An output, and the microsecond that it is given; None: it keeps the time of its element."""
    micros: Expression | None = None
    if _is_stamped(given.shape):
        opened = build.opened(given)
        assert opened is not None
        checks, made = opened
        given, micros = build.checked(checks, made.items[0]), made.items[1]
    refuse_stamped(given, *(() if micros is None else (micros,)))
    return given, micros


def refuse_stamped(*roots: Expression) -> None:
    """See that no time is given to something else than an output."""
    if any(_is_stamped(node.shape) for root in roots for node in nodes(root)):
        msg = "uses a TimestampedValue as a value"
        raise Unlowerable(msg)


def _is_stamped(shape: Shape) -> bool:
    return isinstance(shape, RecordShape) and shape.names == _STAMPED.names
