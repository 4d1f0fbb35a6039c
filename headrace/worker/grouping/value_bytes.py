"""Lists of values as bytes: plain ones all at once, others by their coder.

A first byte says which. Knows neither keys nor windows.
"""

from __future__ import annotations

import marshal
from itertools import chain

from apache_beam.coders.coder_impl import create_InputStream, create_OutputStream

from headrace.state.store import odd_rows
from headrace.worker.batched.plain_values import PLAIN, list_check, scalar_types, tuple_check
from headrace.worker.beam_types import Coder, Value

_PLAIN = b"p"
_CODED = b"c"
#: Later versions share equal objects, which costs time and finds little in such lists.
_MARSHAL_VERSION = 2


class ValueBytes:
    """Turns the values of one grouping into bytes and back."""

    def __init__(self, value_coder: Coder) -> None:
        self._impl = value_coder.get_impl()
        self._types = scalar_types(value_coder)
        self._tuple = tuple_check(value_coder, PLAIN)
        self._list = list_check(value_coder)

    def encode(self, values: list[Value]) -> bytes:
        """Give the bytes of a list of values."""
        if self.are_plain(values):
            return _PLAIN + marshal.dumps(values, _MARSHAL_VERSION)
        out = create_OutputStream()
        encode = self._impl.encode_to_stream
        for value in values:
            encode(value, out, True)
        return _CODED + bytes(out.get())

    def decode(self, data: bytes) -> list[Value]:
        """Give the values back."""
        kind = data[:1]
        if kind == _PLAIN:
            found: list[Value] = marshal.loads(memoryview(data)[1:])
            return found
        if kind != _CODED:
            msg = f"a row of grouped values begins with {kind!r}"
            raise odd_rows(msg)
        stream = create_InputStream(data[1:])
        decode = self._impl.decode_from_stream
        found = []
        while stream.size() > 0:
            found.append(decode(stream, True))
        return found

    def are_plain(self, values: list[Value]) -> bool:
        """Whether every value is of a type that comes back as it went (see `primitives`)."""
        if self._types.issuperset(map(type, values)):
            return True
        kinds = set(map(type, values))
        if kinds == {tuple} and self._tuple is not None:
            return all(map(self._tuple, values))
        if kinds == {list} and self._list:
            return PLAIN.issuperset(map(type, chain.from_iterable(values)))
        return False
