"""Rows that hold many keys: columns, the first of which says where each entry belongs.

Gives and reads the values of such rows, their names, and what of a row is one shard's. Knows
nothing of what the other columns mean.
"""

from __future__ import annotations

import marshal
import uuid
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from headrace.errors import StateError
from headrace.state.layout import Kind, head, stamp

_ID_BYTES = 16
#: The four bytes where other kinds have a key group: entries have key groups of their own.
_NO_KEY_GROUP = bytes(4)
_MARSHAL_VERSION = 2


def fresh_name(kind: Kind, stage: int, time: int) -> bytes:
    """Give a name that no other row has."""
    return head(kind, stage) + stamp(time) + _NO_KEY_GROUP + uuid.uuid4().bytes


def pack(key_groups: list[int], *columns: Sequence[Any]) -> bytes:
    """Give the value of a row: a key group per entry, and columns of as many plain values."""
    whole: Any = (key_groups, *columns)
    return marshal.dumps(whole, _MARSHAL_VERSION)


def unpack(value: bytes) -> tuple[list[Any], ...]:
    """Give the columns behind the key groups."""
    return unpack_whole(value)[1:]


def unpack_whole(value: bytes) -> tuple[list[Any], ...]:
    """Give all columns, the key groups first."""
    return _load(value)


def own_part(
    name: bytes, value: bytes, old: int, shard: int, shards: int
) -> Iterator[tuple[bytes, bytes]]:
    """Give the row that holds what of a row is one new shard's, if anything is.

    The new name says from which old shard the row came: two old shards may hold parts of one row.
    """
    columns = _load(value)
    mine = [i for i, key_group in enumerate(columns[0]) if key_group % shards == shard]
    if mine:
        hashed = blake2b(name[-_ID_BYTES:] + old.to_bytes(4, "big"), digest_size=_ID_BYTES)
        yield name[:-_ID_BYTES] + hashed.digest(), pack(*([c[i] for i in mine] for c in columns))


def _load(value: bytes) -> tuple[list[Any], ...]:
    try:
        found: tuple[list[Any], ...] = marshal.loads(value)
    except (ValueError, EOFError, TypeError) as error:
        msg = f"a row of many keys cannot be read: {error}"
        raise StateError(msg) from error
    if type(found) is not tuple or not found:
        msg = f"a row of many keys holds a {type(found).__name__}"
        raise StateError(msg)
    return found
