"""Reads keys and values of user state for people, by the fingerprints of their coders.

Takes bytes and the print of a coder, as a checkpoint's description keeps it, gives Python values.
Only coders whose format is public are read, and nothing is ever unpickled: where a value is an
object of the user's classes, it is not shown.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable
from typing import Any

from apache_beam.coders import FastPrimitivesCoder
from apache_beam.runners.pipeline_context import PipelineContext

from headrace.engine.checkpoint.identity import StageFacts
from headrace.state.layout import Kind, kind_of, rest_of


class _Code:
    """The first byte of a value in Beam's coder for plain Python values."""

    NONE, INT, FLOAT, BYTES, TEXT, LIST, TUPLE, DICT, SET, BOOL = range(10)


#: Kinds whose rows belong to a key of a stateful ParDo: step, key and window follow the key group.
OWNED = frozenset({
    Kind.CELL, Kind.TIMER, Kind.TIMER_EVENT, Kind.TIMER_CLOCK, Kind.TIMER_HOLD, Kind.EXPIRY,
})  # fmt: skip
_STEP_BYTES = 8
_DIGESTED = 0xFF  # of `layout.part`: only a digest stands there
_COUNT_BYTES = 4  # before the bytes of a cell
_COLLECTIONS: dict[int, Callable[[list[Any]], Any]] = {
    _Code.LIST: list, _Code.TUPLE: tuple, _Code.SET: set,
}


class UnknownFormatError(ValueError):
    """These bytes are not of a format that is read here."""


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            msg = "it ends too early"
            raise UnknownFormatError(msg)
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        """Read a 64-bit number, seven bits a byte, the low ones first."""
        found = shift = 0
        while shift < 70:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                found &= (1 << 64) - 1
                return found - (1 << 64) if found >> 63 else found
            shift += 7
        msg = "a number is too long"
        raise UnknownFormatError(msg)

    def piece(self) -> bytes:
        """Read bytes whose length stands before them."""
        return self.take(self.varint())

    def double(self) -> float:
        return float(struct.unpack(">d", self.take(8))[0])


def values(print_: str, data: bytes) -> list[Any]:
    r"""Read values that stand one behind the other.

    >>> values("varint", b"\x05\x96\x01"), values("kv<string_utf8,bool>", b"\x02ok\x01")
    ([5, 150], [('ok', True)])
    """
    source, found = _Bytes(data), []
    while source.left:
        found.append(_read(print_, source))
    return found


def _read(print_: str, source: _Bytes) -> Any:
    name, _, inner = print_.partition("<")
    parts = _split(inner.removesuffix(">"))
    match name:
        case "varint":
            return source.varint()
        case "bool":
            return bool(source.byte())
        case "double":
            return source.double()
        case "bytes":
            return source.piece()
        case "string_utf8":
            return _text(source.piece())
        case "kv":
            return tuple(_read(part, source) for part in parts)
        case "nullable":
            return _read(parts[0], source) if source.byte() else None
        case "iterable":
            count = int.from_bytes(source.take(4), "big", signed=True)
            return [_read(parts[0], source) for _ in range(count)]
        case _ if print_ == _fast():
            return _primitive(source)
        case _:
            msg = f"the format of {print_} is not known here"
            raise UnknownFormatError(msg)


@functools.cache
def _fast() -> str:
    """Give the print of the coder that Beam takes where a type says nothing."""
    spec = FastPrimitivesCoder().to_runner_api(PipelineContext()).spec
    return f"pickled_python#{hashlib.sha256(spec.payload).hexdigest()[:8]}"


def _primitive(source: _Bytes) -> Any:
    code = source.byte()
    if code in _COLLECTIONS:
        return _COLLECTIONS[code]([_primitive(source) for _ in range(source.varint())])
    match code:
        case _Code.NONE:
            return None
        case _Code.INT:
            return source.varint()
        case _Code.FLOAT:
            return source.double()
        case _Code.BYTES:
            return source.piece()
        case _Code.TEXT:
            return _text(source.piece())
        case _Code.BOOL:
            return bool(source.byte())
        case _Code.DICT:
            pairs = [(_primitive(source), _primitive(source)) for _ in range(source.varint())]
            return dict(pairs)
        case _:
            msg = "this is an object of a class"
            raise UnknownFormatError(msg)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        msg = "this is no text"
        raise UnknownFormatError(msg) from error


def _split(inner: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    found, depth = [""], 0
    for letter in inner:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def described(stage: StageFacts, name: bytes, value: bytes) -> str:
    """Say in words which key a row belongs to and what it holds; empty if that cannot be read."""
    if kind_of(name) not in OWNED:
        return ""
    try:
        source = _Bytes(rest_of(name)[_STEP_BYTES:])
        key = _part(source)
        words = f"key {_one(stage.state.get('key coder', ''), key)!r}"
        _part(source)  # the window
        if kind_of(name) is not Kind.CELL:
            return words
        cell = _text(_part(source))
        words += f"  cell {cell}"
        whole = not source.left and value[:_COUNT_BYTES] == bytes(_COUNT_BYTES)
    except UnknownFormatError:
        return ""
    if not whole:
        return words + " (part of it)"
    try:
        kind, _, inner = stage.state.get(f"cell {cell}", "").partition("<")
        if kind.startswith("ordered_list"):
            return words  # it is kept as a list of what was done to it
        return f"{words} = {_plain(values(inner.removesuffix('>'), value[_COUNT_BYTES:]))}"
    except (UnknownFormatError, TypeError):
        return words


def _part(source: _Bytes) -> bytes:
    length = source.byte()
    if length == _DIGESTED:
        msg = "only a digest stands there"
        raise UnknownFormatError(msg)
    return source.take(length)


def _one(print_: str, data: bytes) -> Any:
    found = values(print_, data)
    if len(found) != 1:
        msg = "this is not one value"
        raise UnknownFormatError(msg)
    return found[0]


def _plain(found: list[Any]) -> str:
    return repr(found[0]) if len(found) == 1 else repr(found)
