"""Says which pairs of key and value may travel in bulk to a grouping.

Takes the coders of key and value, and pairs; gives them apart, with what they weigh. Keys are
faithful then and values plain, see `plain_values`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from headrace.worker.batched.plain_values import (
    FAITHFUL,
    PLAIN,
    list_check,
    scalar_types,
    tuple_check,
)
from headrace.worker.batched.weights import HEAVY_BYTES, weight
from headrace.worker.beam_types import Coder, Key, Value


class Apart(NamedTuple):
    """The keys and values of a batch of pairs that may travel in bulk."""

    keys: Sequence[Key]
    values: Sequence[Value]
    size: int  # about how many bytes of text they hold


class PlainPairs:
    """Looks at pairs by the types that their coders give back as they came.

    Lists are copied, as their maker may change them. A heavy pair does not go in bulk: it would be
    copied with all the others.
    """

    def __init__(self, key_coder: Coder, value_coder: Coder) -> None:
        self.key_types = scalar_types(key_coder) & FAITHFUL
        self.key_tuple = tuple_check(key_coder, FAITHFUL)
        self.value_types = scalar_types(value_coder)
        self.value_tuple = tuple_check(value_coder, PLAIN)
        self.value_list = list_check(value_coder)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.key_types or self.key_tuple)

    def all_of(self, values: list[Value]) -> Apart | None:
        """Give a batch if all of it may travel in bulk, found out by types alone; else None."""
        try:
            keys, found = zip(*values, strict=True)
        except (TypeError, ValueError):
            return None  # not pairs; who takes them one by one says so
        size = weight(keys) + weight(found)
        if size >= HEAVY_BYTES and max(weight((value,)) for value in values) >= HEAVY_BYTES:
            return None
        if not self.key_types.issuperset(map(type, keys)):
            only = set(map(type, keys)) == {tuple}
            if not only or self.key_tuple is None or not all(map(self.key_tuple, keys)):
                return None
        kinds = set(map(type, found))
        if kinds <= self.value_types:
            return Apart(keys, found, size)
        if kinds == {tuple} and self.value_tuple is not None:
            return Apart(keys, found, size) if all(map(self.value_tuple, found)) else None
        if kinds == {list} and self.value_list:
            if PLAIN.issuperset(map(type, chain.from_iterable(found))):
                return Apart(keys, list(map(list.copy, found)), size)
        return None

    def one(self, pair: Value) -> Value:
        """Give a pair of which `weight` says that it is light, if it may travel in bulk."""
        key, value = pair
        kind = type(key)
        if not (
            kind in self.key_types
            or (kind is tuple and self.key_tuple is not None and self.key_tuple(key))
        ):
            return None
        kind = type(value)
        if kind in self.value_types:
            return pair
        if kind is tuple and self.value_tuple is not None and self.value_tuple(value):
            return pair
        if kind is list and self.value_list and PLAIN.issuperset(map(type, value)):
            return key, value[:]
        return None
