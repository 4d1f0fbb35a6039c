"""Finds which values may travel in bulk, and which keys a dict may group by.

A value is *plain* when it is of an exact immutable built-in type that its coder gives back as it
came: such values are shipped many at a time by `marshal`, with no Python call per element. A key is
*faithful* when Python's equality and the equality of its encoding agree, so that a dict may group
by it; 1, 1.0 and True are equal to Python but three keys to Beam: floats and booleans are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfo

from headrace.worker.beam_types import Coder, Value

FAITHFUL: frozenset[type] = frozenset({int, str, bytes})
PLAIN: frozenset[type] = frozenset({int, str, bytes, float, bool, type(None)})
_NOTHING: frozenset[type] = frozenset()

_SCALAR_CODERS: tuple[tuple[type, frozenset[type]], ...] = (
    (coders.VarIntCoder, frozenset({int})),
    (coders.StrUtf8Coder, frozenset({str})),
    (coders.BytesCoder, frozenset({bytes})),
    (coders.FloatCoder, frozenset({float})),
    (coders.BooleanCoder, frozenset({bool})),
)
_ANY_CODERS = (
    coders.FastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoder,
    coders.coders.DeterministicFastPrimitivesCoderV2,
)


def unwrap(coder: Coder) -> Any:
    """Drop length prefixes: they change bytes, not values."""
    while isinstance(coder, coders.coders.LengthPrefixCoder):
        coder = coder.value_coder()
    return coder


def scalar_types(coder: Coder) -> frozenset[type]:
    """Give the exact scalar types that this coder hands back unchanged."""
    coder = unwrap(coder)
    for cls, types in _SCALAR_CODERS:
        if type(coder) is cls:
            return types
    return PLAIN if isinstance(coder, _ANY_CODERS) else _NOTHING


def tuple_check(
    coder: Coder, allowed: frozenset[type]
) -> Callable[[tuple[Value, ...]], bool] | None:
    """Give a test for tuples whose fields are all plain for this coder; None if there is none."""
    found = unwrap(coder)
    if isinstance(found, _ANY_CODERS):
        superset = allowed.issuperset
        return lambda value: superset(map(type, value))
    if type(found) is coders.TupleCoder:
        fields = [scalar_types(c) & allowed for c in found.coders()]
        if all(len(f) == 1 for f in fields):
            exact = [next(iter(f)) for f in fields]
            return lambda value: [*map(type, value)] == exact
        if all(fields):
            return lambda value: len(value) == len(fields) and all(
                type(v) in f for v, f in zip(value, fields, strict=True)
            )
    return None


def frozen_type(coder: Coder) -> bool:
    """Whether a coder is that of a declared type whose values cannot change."""
    found = unwrap(coder)
    if type(found) is coders.TupleCoder:
        return all(map(frozen_type, found.coders()))
    return any(type(found) is cls for cls, _ in _SCALAR_CODERS)


#: Beam's own values of time, which have no method that changes them.
_TIMES = frozenset({Timestamp, Duration, IntervalWindow, GlobalWindow, PaneInfo})
#: Exact types whose values never change.
FROZEN = PLAIN | {complex, frozenset} | _TIMES
#: Whether all of some types are such.
plain_fields = FROZEN.issuperset


def is_frozen(value: Value) -> bool:
    """Whether a value cannot change: a scalar, or a tuple, tagged or timestamped value of such."""
    kind = type(value)
    if kind in FROZEN:
        return True
    if isinstance(value, tuple):
        return plain_fields(map(type, value)) or all(map(is_frozen, value))
    return (kind is TimestampedValue or kind is TaggedOutput) and is_frozen(value.value)


def all_frozen(values: Sequence[Value]) -> bool:
    """Whether no value of a list or tuple can change."""
    return plain_fields(map(type, values)) or all(map(is_frozen, values))


def list_check(coder: Coder) -> bool:
    """Whether this coder gives a list of plain values back as it came."""
    return isinstance(unwrap(coder), _ANY_CODERS)
