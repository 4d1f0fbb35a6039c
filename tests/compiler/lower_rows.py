"""Elements for generated functions: of several kinds, with values at the ends of their types.

A kind of element has a hint, which is all that the compiler is told, and says how a function reads
each field of it. Wild elements are those that break the promise: other types in their fields, or
another class.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from random import Random as Dice
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp


class Record(NamedTuple):
    """An element with a field of every kind, with and without None."""

    i: int
    j: int
    k: Optional[int]  # noqa: UP045 (as a user of an older Python writes it)
    f: float
    g: Optional[float]  # noqa: UP045
    s: str
    t: Optional[str]  # noqa: UP045
    b: bool
    c: Optional[bool]  # noqa: UP045
    y: bytes


@dataclass
class Data:
    """The same as a dataclass."""

    i: int
    j: int
    k: int | None
    f: float
    g: float | None
    s: str
    t: str | None
    b: bool
    c: bool | None
    y: bytes


class Nested(NamedTuple):
    """The same, one level down."""

    key: tuple[int, str]
    value: Record
    last: int | None


class Pair(NamedTuple):
    """What functions make."""

    x: object
    y: object = 5


@dataclass
class Point:
    """The same as a dataclass."""

    x: object
    y: int = 2


class OfRecord(Record):
    """A subclass: another class than was promised."""


INTS = [
    0, 1, -1, 2, 3, -3, 7, 10, 89, 100, -100, 2**31, 2**32 - 1, -(2**31), 2**53, 2**53 + 1,
    -(2**53) - 1, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 3_037_000_500, 10**18,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1e16, 1e300, -1e300, 5e-324, -5e-324,
    1.7976931348623157e308, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63, -(2.0**63), 9.2e18,
    1e-7, 123456.789, 2.675, 0.49999999999999994, 4503599627370495.5, 2.2250738585072014e-308,
]  # fmt: skip
TEXTS = [
    "", "a", "A", "abc", "Straße", "ΑΣ", "ﬁ", "İ", "i̇", "\u0130x",
    "12", "-7", " 3 ", "1_000", "٣", "²",
    "9223372036854775807", "9223372036854775808", "1e5", "nan", "-inf", "0x1f", "a,b,c", ",",
    "\x00", "\n", "a b", "\u2028", "😀", "e\u0301", "None", "True", "%s", "{}", "\x1f", "\u200b",
    "a\x00b", "aaa", ",,", "\ufeff", "ǅ", "Ⅷ", "½",
]  # fmt: skip
BYTES = [b"", b"a", b"\xff", b"abc", "ß".encode(), b"\x00", b"12", b"a,b"]
ROWS_PER_FUNCTION = 24


def _any_int(dice: Dice) -> int:
    return dice.getrandbits(64) - 2**63 if dice.random() < 0.5 else dice.randint(-1000, 1000)


def _any_float(dice: Dice) -> float:
    if dice.random() < 0.5:
        (made,) = struct.unpack("d", dice.randbytes(8))
        return float(made)
    return dice.randint(-(10**6), 10**6) / dice.choice([1, 3, 8, 100])


def _any_text(dice: Dice) -> str:
    letters = "aAbBzZ 09,-_.%{}ßİΣςéﬁ٣\x00\n\t\u2028😀"
    return "".join(dice.choice(letters) for _ in range(dice.randint(0, 8)))


class Values:
    """Where the fields of a batch come from: its own choice of the ends, and anything else.

    A batch of few small numbers has other bounds than one that goes to the ends of 64 bits, and a
    batch of letters of ASCII takes other ways than one with a single other letter.
    """

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._ints = self._some(INTS)
        self._floats = self._some(FLOATS)
        self._texts = self._some(TEXTS)
        self._bytes = self._some(BYTES)
        self._other = dice.choice([0.0, 0.0, 0.3])
        self._none = dice.choice([0.0, 0.25, 0.25, 1.0])

    def _some(self, values: list[Any]) -> list[Any]:
        if self._dice.random() < 0.5:
            return values
        return self._dice.sample(values, self._dice.randint(1, 6))

    def integer(self) -> int:
        dice = self._dice
        return _any_int(dice) if dice.random() < self._other else int(dice.choice(self._ints))

    def small(self) -> int:
        return int(self._dice.choice(INTS[:14]))

    def real(self) -> float:
        dice = self._dice
        return _any_float(dice) if dice.random() < self._other else float(dice.choice(self._floats))

    def text(self) -> str:
        dice = self._dice
        return _any_text(dice) if dice.random() < self._other else str(dice.choice(self._texts))

    def maybe(self, made: Callable[[], Any]) -> Any:
        return None if self._dice.random() < self._none else made()

    def truth(self) -> bool:
        return self._dice.random() < 0.5

    def record(self) -> Record:
        return Record(
            self.integer(), self.small(), self.maybe(self.integer), self.real(),
            self.maybe(self.real), self.text(), self.maybe(self.text), self.truth(),
            self.maybe(self.truth), self._dice.choice(self._bytes),
        )  # fmt: skip


# Kinds of elements --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of element.

    Args:
        name: of it.
        hint: what the compiler is told.
        made: makes one.
        fields: how a function of `r` reads the fields of a `Record`.
    """

    name: str
    hint: Any
    made: Callable[[Values], Any]
    fields: dict[str, str]

    def rows(self, seed: int, size: int | None = None) -> list[Any]:
        """Elements, the same for the same seed."""
        dice = Dice(seed)
        values = Values(dice)
        count = dice.choice([0, 1, 2, *[ROWS_PER_FUNCTION] * 9]) if size is None else size
        return [self.made(values) for _ in range(count)]


_NAMES = Record._fields
_TYPES: list[Any] = [
    int, int, Optional[int], float, Optional[float], str, Optional[str], bool, Optional[bool],  # noqa: UP045 (as Beam reads them)
    bytes,
]  # fmt: skip
_HINTS = list(zip(_NAMES, _TYPES, strict=True))
_OF_SCHEMA: Any = RowTypeConstraint.from_fields(_HINTS)  # rows as a coder of rows makes them
_OF_INT = {
    "i": "r", "j": "r", "k": "(r if r > 2 else None)", "f": "(r / 4)", "g": "float(r)",
    "s": "str(r)", "t": "f'{r:x}'", "b": "(r > 0)", "c": "(r == 1)", "y": "str(r).encode()",
}  # fmt: skip
_OF_FLOAT = {
    **_OF_INT, "i": "int(r)", "j": "round(r)", "f": "r", "g": "r", "t": "str(r)[1:]",
}  # fmt: skip
_OF_TEXT = {
    "i": "len(r)", "j": "r.find('a')", "k": "(len(r) if r else None)", "f": "float(len(r))",
    "g": "(len(r) / 2)", "s": "r", "t": "(r or None)", "b": "r.isdigit()", "c": "(r == 'a')",
    "y": "r.encode()",
}  # fmt: skip

KINDS = {
    kind.name: kind
    for kind in (
        Kind("record", Record, Values.record, {n: f"r.{n}" for n in _NAMES}),
        Kind("dataclass", Data, lambda v: Data(*v.record()), {n: f"r.{n}" for n in _NAMES}),
        Kind(
            "row", RowTypeConstraint(_HINTS, beam.Row), lambda v: beam.Row(**v.record()._asdict()),
            {n: f"r.{n}" for n in _NAMES},
        ),
        Kind(
            "schema", _OF_SCHEMA, lambda v: _OF_SCHEMA.user_type(*v.record()),
            {n: f"r.{n}" for n in _NAMES},
        ),
        Kind(
            "tuple", tuple[tuple(_TYPES)], lambda v: tuple(v.record()),  # type: ignore[misc]
            {n: f"r[{place}]" for place, n in enumerate(_NAMES)},
        ),
        Kind(
            "nested", Nested,
            lambda v: Nested((v.integer(), v.text()), v.record(), v.maybe(v.integer)),
            {**{n: f"r.value.{n}" for n in _NAMES}, "i": "r.key[0]", "s": "r[0][1]", "k": "r.last"},
        ),
        Kind("int", int, Values.integer, _OF_INT),
        Kind("float", float, Values.real, _OF_FLOAT),
        Kind("str", str, Values.text, _OF_TEXT),
        Kind("optional int", Optional[int], lambda v: v.maybe(v.integer), _OF_INT),  # noqa: UP045
    )
}  # fmt: skip
#: How often each kind is asked for.
WEIGHTS = [8, 2, 1, 3, 4, 2, 1, 1, 1, 1]


# What breaks the promise --------------------------------------------------------------------------


class MyInt(int):
    """An int with ideas of its own."""

    def __add__(self, other: int) -> int:
        return 42


class MyText(str):
    """A text with ideas of its own."""

    __slots__ = ()

    def upper(self) -> str:
        return "mine"


class MyFloat(float):
    """A float with ideas of its own."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = float.__hash__


class MyBytes(bytes):
    """Bytes of another class."""


class Colour(IntEnum):
    """An int with a name."""

    RED = 1


WILD: list[Any] = [
    True, False, 0, 1, -1, 2**63, -(2**63) - 1, 10**30, 0.0, -0.0, 1.0, math.nan, math.inf, 2.5,
    np.int64(3), np.int32(-1), np.uint64(2**64 - 1), np.uint8(200), np.float64(0.5),
    np.float32(0.1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), MyInt(7), MyText("a"),
    MyFloat(1.5), MyBytes(b"a"), Colour.RED, "", "a", "12", "\ud800", "a\udfffb", "\ud83d", b"",
    b"a", bytearray(b"a"), Decimal("1.5"), Decimal("NaN"), Fraction(1, 3), 1 + 2j, None, [], {}, (),
    (1,), {"a": 1}, frozenset({1}), object(), datetime(2026, 1, 1, tzinfo=UTC), Timestamp(3),
    NotImplemented, int, range(3),
]  # fmt: skip


def wild_rows(kind: Kind, seed: int, size: int = 12) -> list[Any]:
    """Elements that are not what the hint says; some may be so all the same."""
    dice = Dice(seed ^ 0x5EED)
    values = Values(dice)
    return [_wild(kind, dice, values) for _ in range(size)]


def _wild(kind: Kind, dice: Dice, values: Values) -> Any:
    if dice.random() < 0.1:
        return dice.choice(WILD)
    if kind.name in ("int", "float", "str", "optional int"):
        return dice.choice(WILD)
    record = values.record()._replace(**{dice.choice(_NAMES): dice.choice(WILD)})
    form = dice.randint(0, 9)
    if form == 0:
        return OfRecord(*record)
    if form == 1:
        return tuple(record)[: dice.randint(0, 9)]
    if form == 2:
        return beam.Row(**dict(reversed(record._asdict().items())))
    if form == 3:
        made = Data(*values.record())
        made.more = 1  # type: ignore[attr-defined]
        return made
    if form == 4:
        return list(record)
    if kind.name == "nested":
        key = (values.integer(), dice.choice(WILD))
        inner: Any = dice.choice([record, tuple(record), record._replace(i=True)])
        return Nested(key, inner, 3)
    if kind.name == "tuple":
        return tuple(record)
    if kind.name == "row":
        return beam.Row(**record._asdict())
    made_of = {"record": Record, "dataclass": Data}.get(kind.name, _OF_SCHEMA.user_type)
    return made_of(*record)
