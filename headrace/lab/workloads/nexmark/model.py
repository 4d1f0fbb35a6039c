"""The three records of NEXMark, and their forms: JSON, Beam's binary form, size and hash.

Records are named tuples of int and str; times are milliseconds since 1970, prices are cents. Knows
nothing of how records are made or what is asked about them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate, repeat
from json.encoder import encode_basestring as _quoted
from operator import itemgetter, mul
from typing import Any, NamedTuple, get_type_hints


class Person(NamedTuple):
    """Somebody who sells or bids."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


class Auction(NamedTuple):
    """An item on sale."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int  # bids at or after it do not count
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """An offer for an item."""

    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


Record = Person | Auction | Bid
#: The kinds of record; the place is the tag of the binary form and the `kind` of a batch.
KINDS: tuple[type[Any], ...] = (Person, Auction, Bid)

_TIMES = {"date_time", "expires"}
_BIAS = 2**63  # what an instant's milliseconds are moved by, so that their bytes sort
_LONG = range(-(2**63), 2**63)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


_JSON_NAMES = {kind: tuple(map(_camel, kind._fields)) for kind in KINDS}
_TYPES = {kind: tuple(get_type_hints(kind).values()) for kind in KINDS}
_PICK = {kind: itemgetter(*names) for kind, names in _JSON_NAMES.items()}


# --- JSON


def to_json(record: Record) -> str:
    r"""Write a record as Beam does: names in camel case, no spaces.

    >>> to_json(Bid(1000, 1001, 250, 1436918400000, "a\\b"))
    '{"auction":1000,"bidder":1001,"price":250,"dateTime":1436918400000,"extra":"a\\\\b"}'
    """
    if type(record) is Bid:
        return (
            f'{{"auction":{record.auction},"bidder":{record.bidder},"price":{record.price},'
            f'"dateTime":{record.date_time},"extra":{_quoted(record.extra)}}}'
        )
    names = _JSON_NAMES[type(record)]
    fields = [
        f'"{name}":{_quoted(value) if type(value) is str else value}'
        for name, value in zip(names, record, strict=True)
    ]
    return "{" + ",".join(fields) + "}"


def from_json(line: str) -> Record:
    """Read a record from any JSON text of it: fields in any order, spaces where JSON allows them.

    Raises:
        ValueError: the text is no JSON, or no record; says which field is wrong.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as e:
        msg = f"not JSON: {e}"
        raise ValueError(msg) from None
    if type(fields) is not dict:
        msg = f"not a record but a JSON {type(fields).__name__}: a record is an object of fields"
        raise ValueError(msg)
    kind = Person if "name" in fields else Auction if "itemName" in fields else Bid
    try:
        values = _PICK[kind](fields)
    except KeyError:
        raise ValueError(_fault(kind, fields)) from None
    if tuple(map(type, values)) != _TYPES[kind] or len(fields) != len(values):
        raise ValueError(_fault(kind, fields))
    for value in values:
        if type(value) is int and value not in _LONG:
            msg = f"{value} does not fit into 64 bits"
            raise ValueError(msg)
    return tuple.__new__(kind, values)  # type: ignore[return-value]


def _fault(kind: type[Any], fields: dict[str, Any]) -> str:
    names = _JSON_NAMES[kind]
    what = "an auction" if kind is Auction else f"a {kind.__name__.lower()}"
    for name, wanted in zip(names, _TYPES[kind], strict=True):
        if name not in fields:
            return f"the field {name} is missing: taken for {what}, which has {', '.join(names)}"
        if type(fields[name]) is not wanted:
            wish = "a whole number" if wanted is int else "a string"
            return f"the field {name} of {what} must be {wish}, not {fields[name]!r:.80}"
    unknown = next(name for name in fields if name not in names)
    return f"{what} has no field {unknown}; it has {', '.join(names)}"


# --- hash


_MASK = 2**32 - 1
_POWERS = list(accumulate(repeat(31, 1023), lambda power, base: power * base & _MASK, initial=1))
#: Length of a string -> the powers of 31 by which its characters are weighed.
_DOWN: dict[int, list[int]] = {}


def string_hash(text: str) -> int:
    """Give Java's hash of a string, without its sign: 0 to 2**32 - 1.

    >>> string_hash("UTC") == 85 * 31**2 + 84 * 31 + 67
    True
    """
    units: Any = text.encode("latin-1") if text.isascii() else memoryview(
        text.encode("utf-16-le", "surrogatepass")
    ).cast("H")
    length = len(units)
    if length > len(_POWERS):
        total = 0
        for unit in units:
            total = (31 * total + unit) & _MASK
        return total
    weights = _DOWN.get(length)
    if weights is None:
        weights = _DOWN[length] = _POWERS[length - 1 :: -1] if length else []
    return int(sum(map(mul, units, weights))) & _MASK


# What an instant's calendar and time zone add to its hash.
_CHRONOLOGY = string_hash("ISO") * 11 + string_hash("UTC")


def _number_hash(value: int) -> int:
    value &= 2**64 - 1
    return (value ^ value >> 32) & _MASK


def _named(record: Record) -> Iterator[tuple[str, Any]]:
    return zip(record._fields, record, strict=True)


def _record_hash(record: Record) -> int:
    total = 1
    for name, value in _named(record):
        if type(value) is str:
            part = string_hash(value)
        else:
            part = _number_hash(value) + (_CHRONOLOGY if name in _TIMES else 0)
        total = (31 * total + part) & _MASK
    return total


def java_hash(record: Record) -> int:
    """Give Java's hash code of the event that holds the record: a signed 32-bit number.

    Query 10 chooses its shards by it.
    """
    total = 1
    for kind in KINDS:
        total = 31 * total + (_record_hash(record) if type(record) is kind else 0)
    total &= _MASK
    return total - 2**32 if total >> 31 else total


# --- the binary form


def _varint(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes((value,))
    value &= 2**64 - 1
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def encode(record: Record) -> bytes:
    """Write an event as the coder that Beam calls HAND does: a tag, then the fields.

    >>> encode(Bid(1000, 1001, 250, 0, "ab")).hex(" ")
    '02 e8 07 e9 07 fa 01 80 00 00 00 00 00 00 00 02 61 62'
    """
    parts = [bytes((KINDS.index(type(record)),))]
    for name, value in _named(record):
        if type(value) is str:
            text = value.encode()
            parts.append(_varint(len(text)) + text)
        elif name in _TIMES:
            parts.append((value + _BIAS).to_bytes(8, "big"))
        else:
            parts.append(_varint(value))
    return b"".join(parts)


def decode(data: bytes) -> Record:
    """Read one event.

    Raises:
        ValueError: the bytes are no event, or more than one.
    """
    records = list(decode_all(data))
    if len(records) != 1:
        msg = f"{len(records)} events where one was expected"
        raise ValueError(msg)
    return records[0]


def decode_all(data: bytes) -> Iterator[Record]:
    """Read events that stand back to back.

    Raises:
        ValueError: the bytes end in the middle of an event, or are none.
    """
    at = 0
    while at < len(data):
        try:
            record, at = _decode_one(data, at)
        except (IndexError, UnicodeDecodeError) as e:
            msg = f"no event at byte {at}: {e}"
            raise ValueError(msg) from None
        yield record


def _decode_one(data: bytes, at: int) -> tuple[Record, int]:
    kind, at = KINDS[data[at]], at + 1
    values: list[Any] = []
    for name, wanted in zip(kind._fields, _TYPES[kind], strict=True):
        if name in _TIMES:
            values.append(int.from_bytes(_cut(data, at, 8), "big") - _BIAS)
            at += 8
            continue
        number, at = _read_varint(data, at)
        if wanted is str:
            values.append(_cut(data, at, number).decode())
            at += number
        else:
            values.append(number - 2**64 if number >> 63 else number)
    return kind(*values), at


def _cut(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        msg = "the bytes end too early"
        raise IndexError(msg)
    return data[at : at + length]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        group = data[at]
        value |= (group & 127) << shift
        at, shift = at + 1, shift + 7
        if group < 128:
            return value & (2**64 - 1), at
