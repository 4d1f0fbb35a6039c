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

from headrace.plan.shapes import INT, DictShape, FixedList, Shape, TupleShape, width

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
    """A tuple, list, dict or record of these."""

    items: tuple[Expression, ...]
    shape: Shape

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.items))
        if isinstance(self.shape, FixedList):
            return f"[{inside}]"
        if isinstance(self.shape, DictShape):
            pairs = zip(self.shape.names, self.items, strict=True)
            return f"{{{', '.join(f'{name!r}: {item}' for name, item in pairs)}}}"
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
    micros: Expression | None = None  # the time it gives its output; None: the element's

    @property
    def result(self) -> Shape:
        """The shape of the outputs."""
        return self.shape if self.gives is None else self.gives.shape

    @property
    def reads(self) -> tuple[int, ...]:
        """The leaves of the element that are looked at or handed on."""
        if self.gives is None:
            return tuple(range(width(self.shape)))
        return tuple(sorted({n.place for r in self.roots for n in nodes(r) if isinstance(n, Leaf)}))

    @property
    def roots(self) -> tuple[Expression, ...]:
        """All that is computed."""
        return tuple(r for r in (self.gives, self.keeps, self.micros) if r is not None)

    def __str__(self) -> str:
        given = "element" if self.gives is None else str(self.gives)
        if self.micros is not None:
            given = f"{given} at microsecond {self.micros}"
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
    return _Copies(by).of(node)


def once_each(lowered: Lowered) -> Lowered:
    """The same, in which what is written twice is one node: who computes a node does it once."""
    copies = _Copies(0)
    return replace(
        lowered,
        gives=None if lowered.gives is None else copies.of(lowered.gives),
        keeps=None if lowered.keeps is None else copies.of(lowered.keeps),
        micros=None if lowered.micros is None else copies.of(lowered.micros),
    )


class _Copies:
    """Copies of trees; equal parts of them are one node."""

    def __init__(self, by: int) -> None:
        self._by = by  # so many places further on are their leaves
        self._of: dict[int, Expression] = {}  # by the id of what was copied
        self._made: dict[object, Expression] = {}

    def of(self, node: Expression) -> Expression:
        """The copy of a tree."""
        found = self._of.get(id(node))
        if found is not None:
            return found
        changed: dict[str, object] = {}
        parts: list[object] = [type(node)]  # the ids of what is below it, and what else it is
        for each in fields(node):
            value = getattr(node, each.name)
            if isinstance(value, _NODES):
                value = changed[each.name] = self.of(value)
                parts.append(id(value))
            elif isinstance(value, tuple) and value and all(isinstance(v, _NODES) for v in value):
                value = changed[each.name] = tuple(map(self.of, value))
                parts.append(tuple(map(id, value)))
            elif isinstance(node, Leaf) and each.name == "place":
                changed["place"] = node.place + self._by
                parts.append(changed["place"])
            elif each.compare:
                parts.append((type(value), value))
        made = replace(node, **changed)  # type: ignore[arg-type]
        made = self._of[id(node)] = self._made.setdefault(tuple(parts), made)
        return made


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
