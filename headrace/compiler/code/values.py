"""What a value is, seen from the element: the pair, its key, or something made of them.

Takes descriptions of values, gives those of their items, fields and unions. A value made in the
function (a tuple, a NamedTuple, a dataclass, a Row, a dict) is known part by part. Knows no syntax
and runs no code: classes are looked at, never called.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from inspect import getattr_static
from types import FunctionType
from typing import TypeAlias


class Is(Enum):
    """A value that is not known part by part."""

    ELEMENT = "element"  # the pair as it came, or a new pair with the same key
    KEY = "key"
    OTHER = "other"  # certainly something else
    UNCLEAR = "unclear"


class Kind(Enum):
    """What holds the parts."""

    TUPLE = "tuple"  # a NamedTuple too: its items have names
    RECORD = "record"  # a frozen dataclass: fields by name
    OPEN_RECORD = "open record"  # a dataclass or Row that can be changed
    DICT = "dict"


@dataclass(frozen=True, slots=True)
class Parts:
    """A value made in the function."""

    kind: Kind
    items: tuple[Value, ...]
    names: tuple[object, ...] = ()  # of fields, or keys of a dict; empty: items have numbers alone
    more: bool = False  # others follow that are not known

    @property
    def changes(self) -> bool:
        """Whether it can be changed in place."""
        return self.kind in (Kind.OPEN_RECORD, Kind.DICT)


@dataclass(frozen=True, slots=True)
class Named:
    """The element, whose annotation says that it is a NamedTuple with these two fields."""

    names: tuple[str, ...]


Value: TypeAlias = Is | Parts | Named


def tuple_of(items: Iterable[Value], *, more: bool = False, names: tuple[str, ...] = ()) -> Parts:
    """A tuple made of these."""
    return Parts(Kind.TUPLE, tuple(map(_kept, items)), names, more)


def dict_of(keys: Iterable[object], values: Iterable[Value], *, more: bool = False) -> Parts:
    """A dict with these constants as keys; `more`: it may have others too, none of these again."""
    return Parts(Kind.DICT, tuple(map(_kept, values)), tuple(keys), more)


def _kept(value: Value) -> Value:
    """What can be changed through another name is not followed into what holds it."""
    return Is.UNCLEAR if isinstance(value, Parts) and value.changes else value


def carries(value: Value) -> bool:
    """Whether it is a pair with the element's key."""
    match value:
        case Is.ELEMENT | Named():
            return True
        case Parts(kind=Kind.TUPLE, items=[Is.KEY, _], more=False):
            return True
        case _:
            return False


def is_other(value: Value) -> bool:
    """Whether it is certainly no pair that was handed on."""
    if isinstance(value, Parts):
        return not carries(value) and not value.more
    return value is Is.OTHER


def joined(values: Iterable[Value]) -> Value:
    """What holds for all of these."""
    found: Value | None = None
    for value in values:
        found = value if found is None else _both(found, value)
    return Is.UNCLEAR if found is None else found


def _both(a: Value, b: Value) -> Value:
    if a == b:
        return a
    if carries(a) and carries(b):
        return Is.ELEMENT
    if isinstance(a, Parts) and isinstance(b, Parts):
        alike = a.kind is b.kind and a.names == b.names and len(a.items) == len(b.items)
        if alike and a.more == b.more:
            items = tuple(_both(x, y) for x, y in zip(a.items, b.items, strict=True))
            return Parts(a.kind, items, a.names, a.more)
    if is_other(a) and is_other(b):
        return Is.OTHER
    return Is.UNCLEAR


def spread(value: Value) -> tuple[tuple[Value, ...], bool]:
    """The items of `*value`, and whether others follow. The element is a pair."""
    match value:
        case Is.ELEMENT | Named():
            return (Is.KEY, Is.UNCLEAR), False
        case Parts(kind=Kind.TUPLE, items=items, more=more):
            return items, more
        case _:
            return (), True


def item(value: Value, index: object) -> Value:
    """What `value[index]` is, for a constant or a slice of constants."""
    if isinstance(value, Parts) and value.kind is Kind.DICT:
        # 1, 1.0 and True are one key of a dict.
        found = [v for k, v in zip(value.names, value.items, strict=True) if k == index]
        return found[-1] if found else Is.UNCLEAR
    items, more = spread(value)
    if isinstance(index, slice):
        return Is.UNCLEAR if more else tuple_of(items[index])
    if not isinstance(index, int) or (more and index < 0):
        return Is.UNCLEAR
    return items[index] if -len(items) <= index < len(items) else Is.UNCLEAR


def attribute(value: Value, name: str) -> Value:
    """What `value.name` is."""
    names = getattr(value, "names", ())
    if name not in names or (isinstance(value, Parts) and value.kind is Kind.DICT):
        return Is.UNCLEAR
    at = names.index(name)
    return value.items[at] if isinstance(value, Parts) else item(value, at)


def replaced(value: Value, changes: dict[str, Value]) -> Value:
    """What `value._replace(...)`, or `dataclasses.replace(value, ...)`, gives."""
    if isinstance(value, Named):
        value = tuple_of((Is.KEY, Is.UNCLEAR), names=value.names)
    if not isinstance(value, Parts) or not set(changes) <= set(value.names):
        return Is.UNCLEAR
    items = tuple(
        changes.get(str(n), old) for n, old in zip(value.names, value.items, strict=True)
    )
    return Parts(value.kind, tuple(map(_kept, items)), value.names, value.more)


def without(value: Parts, written: Collection[object]) -> Parts:
    """The same value, with nothing known of the parts that are written after it was made."""
    parts = zip(value.names, value.items, strict=True)
    items = tuple(Is.UNCLEAR if name in written else part for name, part in parts)
    return Parts(value.kind, items, value.names, value.more)


def as_dict(value: Value) -> Value:
    """What `value._asdict()` gives."""
    if isinstance(value, Named):
        value = tuple_of((Is.KEY, Is.UNCLEAR), names=value.names)
    if isinstance(value, Parts) and value.names:
        return dict_of(value.names, value.items)
    return Is.UNCLEAR


# Classes ----------------------------------------------------------------------------------------


#: Methods by which a tuple is looked into: one of the user's could give anything.
_LOOKED_INTO = frozenset({
    "__getattribute__", "__getitem__", "__iter__", "__contains__", "__len__", "__add__", "__radd__",
})  # fmt: skip
#: A named tuple's own methods: those of all classes have equal code, a pickled class's too.
_OWN = {name: vars(namedtuple("_Plain", ""))[name] for name in ("_replace", "_asdict")}


def tuple_fields(cls: object) -> tuple[str, ...]:
    """The fields of a NamedTuple whose items are what it was given; empty: it is none."""
    if not isinstance(cls, type) or not issubclass(cls, tuple) or "__init__" in _written(cls):
        return ()
    names = getattr_static(cls, "_fields", ())
    new = getattr_static(cls, "__new__", None)
    new = new.__func__ if isinstance(new, staticmethod) else new
    if not isinstance(names, tuple) or not isinstance(new, FunctionType):
        return ()
    if _LOOKED_INTO & _written(cls) or not is_generated(new):
        return ()
    plain = all(type(getattr_static(cls, n, None)).__name__ == "_tuplegetter" for n in names)
    own = all(_code(getattr_static(cls, n, None)) == _code(f) for n, f in _OWN.items())
    return names if plain and own else ()


def _code(function: object) -> object:
    return getattr(function, "__code__", None)


def record_of(cls: object, args: tuple[Value, ...], named: dict[str, Value]) -> Value:
    """What calling a class makes: a NamedTuple or a dataclass with these fields."""
    names = tuple_fields(cls)
    if names:
        given = dict(zip(names, args, strict=False)) | named
        return tuple_of((given.get(n, Is.UNCLEAR) for n in names), names=names)
    if not isinstance(cls, type) or not is_plain_dataclass(cls):
        return Is.UNCLEAR
    fields = dataclasses.fields(cls)
    order = [f.name for f in fields if f.init and not f.kw_only]
    given = dict(zip(order, args, strict=False)) | named
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    kind = Kind.RECORD if frozen else Kind.OPEN_RECORD
    known = tuple(f.name for f in fields)
    return Parts(kind, tuple(_kept(given.get(n, Is.UNCLEAR)) for n in known), known)


def is_plain_dataclass(cls: type) -> bool:
    """Whether its fields are what they were set to, and making one does nothing else."""
    if not dataclasses.is_dataclass(cls) or "__post_init__" in _written(cls):
        return False
    init = getattr_static(cls, "__init__", None)
    hooks = {"__new__", "__getattribute__", "__getattr__"} & _written(cls)
    hooks |= {n for n in ("__setattr__",) if not is_generated(getattr_static(cls, n, None))}
    if hooks or not isinstance(init, FunctionType) or not is_generated(init):
        return False
    # A property, or another descriptor, in the place of a field would be asked for it.
    kept = (getattr_static(cls, f.name, None) for f in dataclasses.fields(cls))
    return not any(hasattr(type(k), "__set__") and _is_asked(k) for k in kept)


def _is_asked(descriptor: object) -> bool:
    return type(descriptor).__name__ != "member_descriptor"  # that of `__slots__`


def is_generated(method: object) -> bool:
    """Whether the standard library made the method from text, or it is object's own."""
    if method is object.__setattr__:
        return True
    return isinstance(method, FunctionType) and method.__code__.co_filename == "<string>"


def _written(cls: type) -> set[str]:
    """The names that a class and those above it define, the standard library's left out."""
    return {
        name
        for above in cls.__mro__
        if above.__module__ not in ("builtins", "typing", "collections")
        for name, value in vars(above).items()
        if not is_generated(value)
    }
