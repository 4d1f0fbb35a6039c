"""What the elements of a collection are made of: scalars, tuples, records with named fields.

A shape has leaves, its scalars from left to right; a batch of such elements can be one column for
each leaf. Says nothing of where the columns are or who computes them. A shape that comes from a
type hint is a promise: who makes columns of objects looks at each of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from headrace.errors import PlanError


class ScalarKind(Enum):
    """The exact Python type of a scalar; a subclass of it is another kind."""

    BOOL = "bool"
    INT = "int"  # a column of them holds 64 bits; a value that needs more has no column
    FLOAT = "float"
    TEXT = "str"  # a column of them is UTF-8: a lone surrogate has no column
    BYTES = "bytes"
    TIMESTAMP = "Timestamp"  # Beam's, in whole microseconds
    NONE = "None"  # nothing but None
    OTHER = "object"  # anything else: it can be handed on, and nothing is known of it


@dataclass(frozen=True, slots=True)
class ScalarShape:
    """A single value."""

    kind: ScalarKind
    nullable: bool = False  # None may stand in its place

    def __str__(self) -> str:
        marked = self.nullable and self.kind not in (ScalarKind.NONE, ScalarKind.OTHER)
        return f"{self.kind.value}?" if marked else self.kind.value


@dataclass(frozen=True, slots=True)
class TupleShape:
    """A plain tuple of fixed length."""

    items: tuple[Shape, ...]

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.items))
        return f"({inside},)" if len(self.items) == 1 else f"({inside})"


class ClassFound(Enum):
    """How a worker finds the class of a record."""

    PICKLED = "pickled"  # `payload` is the class, as Beam's pickler writes it
    BY_SCHEMA = "by_schema"  # `payload` is a Beam schema: the class is the one that coders make
    DYNAMIC = "dynamic"  # a named tuple that Beam's `GroupBy` makes for the names of its fields
    ROW = "row"  # beam.Row, whose fields are in no class


@dataclass(frozen=True, slots=True)
class RecordShape:
    """A value with named fields: a NamedTuple, a dataclass, a `beam.Row`, a row of a DataFrame."""

    name: str  # of the class, for people
    names: tuple[str, ...]
    items: tuple[Shape, ...]
    found: ClassFound
    payload: bytes = b""
    is_tuple: bool = False  # its fields have numbers too, as those of a NamedTuple have

    def __post_init__(self) -> None:
        if len(self.names) != len(self.items):
            msg = f"record {self.name}: {len(self.names)} names for {len(self.items)} fields"
            raise PlanError(msg)

    def __str__(self) -> str:
        inside = ", ".join(f"{n}: {s}" for n, s in zip(self.names, self.items, strict=True))
        return f"{self.name}({inside})"


@dataclass(frozen=True, slots=True)
class FixedList:
    """A list of a known length: what a combine keeps, and what it is given to merge."""

    items: tuple[Shape, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class DictShape:
    """A dict whose keys are these texts, in this order."""

    names: tuple[str, ...]
    items: tuple[Shape, ...]

    def __str__(self) -> str:
        pairs = zip(self.names, self.items, strict=True)
        return f"{{{', '.join(f'{n!r}: {s}' for n, s in pairs)}}}"


Shape: TypeAlias = ScalarShape | TupleShape | RecordShape | FixedList | DictShape

BOOL = ScalarShape(ScalarKind.BOOL)
INT = ScalarShape(ScalarKind.INT)
FLOAT = ScalarShape(ScalarKind.FLOAT)
TEXT = ScalarShape(ScalarKind.TEXT)
BYTES = ScalarShape(ScalarKind.BYTES)
TIMESTAMP = ScalarShape(ScalarKind.TIMESTAMP)
NONE = ScalarShape(ScalarKind.NONE, nullable=True)
OTHER = ScalarShape(ScalarKind.OTHER, nullable=True)


def leaves_of(shape: Shape) -> tuple[ScalarShape, ...]:
    """The scalars of a shape, from left to right."""
    if isinstance(shape, ScalarShape):
        return (shape,)
    return tuple(leaf for item in shape.items for leaf in leaves_of(item))


def width(shape: Shape) -> int:
    """How many leaves there are."""
    return 1 if isinstance(shape, ScalarShape) else sum(map(width, shape.items))


def offset(shape: TupleShape | RecordShape | FixedList | DictShape, place: int) -> int:
    """The number of the first leaf of an item."""
    return sum(map(width, shape.items[:place]))


def nullable(shape: ScalarShape) -> ScalarShape:
    """The same, or None."""
    return replace(shape, nullable=True)


def certain(shape: Shape) -> Shape:
    """The same, with a value wherever None may stand; of what is not known nothing is said."""
    if isinstance(shape, ScalarShape):
        loose = shape.kind in (ScalarKind.NONE, ScalarKind.OTHER)
        return shape if loose or not shape.nullable else replace(shape, nullable=False)
    return replace(shape, items=tuple(map(certain, shape.items)))


def fits(shape: Shape, wanted: Shape) -> bool:
    """Whether all values of a shape are of another: it may say None where the first does not."""
    return shape == wanted or joined(shape, wanted) == wanted


def joined(a: Shape, b: Shape) -> Shape | None:
    """The shape of what has one or the other; None: no shape has both.

    An int and a float have none, though one can be turned into the other: a column that holds
    both would give another type back than Python does.
    """
    if isinstance(a, ScalarShape) and isinstance(b, ScalarShape):
        if ScalarKind.NONE in (a.kind, b.kind):
            return nullable(b if a.kind is ScalarKind.NONE else a)
        same = a.kind is b.kind
        return replace(a, nullable=a.nullable or b.nullable) if same else None
    if isinstance(a, ScalarShape) or isinstance(b, ScalarShape) or type(a) is not type(b):
        return None
    items = [joined(x, y) for x, y in zip(a.items, b.items, strict=False)]
    found = tuple(item for item in items if item is not None)
    if len(a.items) != len(b.items) or len(found) != len(a.items):
        return None
    made = replace(a, items=found)
    return made if made == replace(b, items=found) else None
