"""What a function computes from one element, as a tree that can be computed on columns.

Frozen nodes over the leaves of the element's shape; each knows the shape of its value. The meaning
of every node is Python's, to the type of the result and to the exception: whoever computes on
columns hands a row for which he could differ back to the user's own function. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TypeAlias, get_args

from headrace.plan.shapes import INT, Shape, TupleShape, width

#: What a function can be told of a window: its start and end in microseconds.
WINDOW = TupleShape((INT, INT))

ConstantValue: TypeAlias = bool | int | float | str | bytes | None


class Operation(Enum):
    """An operator with one or two operands."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR_DIVIDE = "//"
    REMAINDER = "%"
    POWER = "**"
    AND_BITS = "&"
    OR_BITS = "|"
    XOR_BITS = "^"
    SHIFT_LEFT = "<<"
    SHIFT_RIGHT = ">>"
    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


COMPARISONS = frozenset(
    {Operation.EQUAL, Operation.NOT_EQUAL, Operation.LESS, Operation.LESS_EQUAL}
    | {Operation.GREATER, Operation.GREATER_EQUAL}
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the element."""

    place: int
    shape: Shape
    name: str = field(default="", compare=False)  # as the user wrote it

    def __str__(self) -> str:
        return self.name or f"leaf {self.place}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is the same for all elements."""

    value: ConstantValue
    shape: Shape
    text: str  # its repr: what tells 0.0 from -0.0 when two constants are compared

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and an operator between them."""

    operation: Operation
    left: Expression
    right: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"({self.left} {self.operation.value} {self.right})"


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x` of a number."""

    operand: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"-{self.operand}"


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`, and the truth of x where it is not negated."""

    operand: Expression
    shape: Shape
    negated: bool = True

    def __str__(self) -> str:
        return f"not {self.operand}" if self.negated else f"bool({self.operand})"


@dataclass(frozen=True, slots=True)
class IsNone:
    """`x is None`."""

    operand: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"{self.operand} is None"


@dataclass(frozen=True, slots=True)
class Either:
    """`a and b`, `a or b`: one of the operands, the second evaluated only where it is needed."""

    is_and: bool
    left: Expression
    right: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"({self.left} {'and' if self.is_and else 'or'} {self.right})"


@dataclass(frozen=True, slots=True)
class Choose:
    """`then if test else otherwise`; only one of them is evaluated."""

    test: Expression
    then: Expression
    otherwise: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"({self.then} if {self.test} else {self.otherwise})"


@dataclass(frozen=True, slots=True)
class Member:
    """`x in {constants}`."""

    operand: Expression
    values: tuple[Constant, ...]
    shape: Shape

    def __str__(self) -> str:
        return f"{self.operand} in {{{_some(self.values)}}}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """`{constants}[x]`, or `.get(x, default)`."""

    operand: Expression
    keys: tuple[Constant, ...]
    values: tuple[Constant, ...]
    default: Expression | None  # None: a key that is not there is an error
    shape: Shape

    def __str__(self) -> str:
        table = f"{{{_some(self.keys)}}}"
        if self.default is None:
            return f"{table}[{self.operand}]"
        return f"{table}.get({self.operand}, {self.default})"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `headrace.plan.functions`."""

    function: str
    arguments: tuple[Expression, ...]
    shape: Shape

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Construct:
    """A tuple or record of these."""

    items: tuple[Expression, ...]
    shape: Shape

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.items))
        name = getattr(self.shape, "name", "")
        return f"{name}({inside}{',' if not name and len(self.items) == 1 else ''})"


@dataclass(frozen=True, slots=True)
class Checked:
    """A value, after others that were evaluated before it: they can raise, and are not used."""

    before: tuple[Expression, ...]
    value: Expression
    shape: Shape

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.before))}; {self.value}]"


@dataclass(frozen=True, slots=True)
class Raises:
    """An end without a value: who comes here raises, or is for the user's function to compute."""

    shape: Shape

    def __str__(self) -> str:
        return "raises"


Expression: TypeAlias = (
    Leaf | Constant | Binary | Negative | Not | IsNone | Either | Choose | Member | Lookup | Call
    | Construct | Checked | Raises
)  # fmt: skip
_NODES = get_args(Expression)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A function of one element, with at most one output for it."""

    shape: Shape  # of the element, or of (element, WINDOW) where it asks for the window
    gives: Expression | None  # the output; None: the element itself
    keeps: Expression | None = None  # there is an output where this is true; None: always
    window: bool = False  # whether it asks for the window of the element

    @property
    def result(self) -> Shape:
        """The shape of the outputs."""
        return self.shape if self.gives is None else self.gives.shape

    @property
    def reads(self) -> tuple[int, ...]:
        """The leaves of the element that are looked at or handed on."""
        if self.gives is None:
            return tuple(range(width(self.shape)))
        roots = (self.gives,) if self.keeps is None else (self.gives, self.keeps)
        return tuple(sorted({n.place for r in roots for n in nodes(r) if isinstance(n, Leaf)}))

    def __str__(self) -> str:
        given = "element" if self.gives is None else str(self.gives)
        return given if self.keeps is None else f"{given} if {self.keeps}"


def operands(node: Expression) -> tuple[Expression, ...]:
    """The expressions right below a node."""
    match node:
        case Leaf() | Constant() | Raises():
            return ()
        case Binary(left=left, right=right) | Either(left=left, right=right):
            return (left, right)
        case Negative(operand=inner) | Not(operand=inner) | IsNone(operand=inner):
            return (inner,)
        case Member(operand=inner):
            return (inner,)
        case Lookup(operand=inner, default=default):
            return (inner,) if default is None else (inner, default)
        case Choose(test=test, then=then, otherwise=otherwise):
            return (test, then, otherwise)
        case Call(arguments=found) | Construct(items=found):
            return found
        case Checked(before=before, value=value):
            return (*before, value)


def moved(node: Expression, by: int) -> Expression:
    """The same expression over leaves whose places are so many further on."""
    if isinstance(node, Leaf):
        return replace(node, place=node.place + by)
    changed: dict[str, object] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, _NODES):
            changed[each.name] = moved(value, by)
        elif isinstance(value, tuple) and value and all(isinstance(v, _NODES) for v in value):
            changed[each.name] = tuple(moved(v, by) for v in value)
    return replace(node, **changed)  # type: ignore[arg-type]


def nodes(root: Expression) -> Iterator[Expression]:
    """All nodes of a tree; one that is used twice comes once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(operands(node))


def _some(constants: tuple[Constant, ...]) -> str:
    shown = ", ".join(map(str, constants[:4]))
    return shown if len(constants) <= 4 else f"{shown}, ... {len(constants)} in all"
