"""Lowers the functions that Beam makes for `GroupBy` and its `aggregate_field`.

They call what the user gave by way of lists and lambdas of their own, which nobody could follow.
Takes the callable of a step, says what it gives, as an expression; what the user gave is lowered by
whoever asks. Knows those functions by their code alone: another version of Beam's is followed like
any other function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

from apache_beam.transforms import core

from headrace.compiler.code.subject import closure_of
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable
from headrace.plan.expressions import Construct, Expression
from headrace.plan.shapes import ClassFound, DictShape, FixedList, RecordShape, ScalarShape

#: Lowers a callable that is given the element.
Call = Callable[[object], Expression]


def of_grouping(target: object, given: Sequence[object], call: Call) -> Expression | None:
    """What a function of Beam's gives; None: it is none of these.

    Args:
        target: what is called.
        given: what it is given: the element, or its items.
        call: lowers what the user gave.
    """
    if not isinstance(target, FunctionType):
        return None
    held: dict[str, Any] = closure_of(target)
    match _codes().get(target.__code__):
        case "group":
            return build.construct([_key(held["self"], call), *_expressions(given)])
        case "pair":
            key, value = held["key_func"], held["value_func"]
            if not _is(key, "key") or not _is(value, "values"):
                return None
            return build.construct([_named(closure_of(key), call), _list(closure_of(value), call)])
        case "result":
            items = [item for part in _expressions(given) for item in _items(part)]
            return _record("Result", held["result_fields"], items)
        case _:
            return None


@functools.cache
def _codes() -> dict[CodeType, str]:
    """The code of Beam's functions, by what they are for."""
    wanted: list[tuple[Any, str, str]] = [
        (core.GroupBy.expand, "group", "self"),
        (core._GroupAndAggregate.expand, "pair", "key_func value_func"),  # noqa: SLF001 (no door)
        (core._GroupAndAggregate.expand, "values", "value_exprs"),  # noqa: SLF001 (the same)
        (core._GroupAndAggregate.expand, "result", "result_fields"),  # noqa: SLF001 (the same)
        (core.GroupBy._key_func, "key", "key_exprs key_type"),  # noqa: SLF001 (the same)
        (core.GroupBy.__init__, "type", "field_names"),
    ]
    found: dict[CodeType, str] = {}
    for function, name, free in wanted:
        for inner in function.__code__.co_consts:
            if isinstance(inner, CodeType) and sorted(inner.co_freevars) == free.split():
                found[inner] = name
    return found


def _is(function: object, name: str) -> bool:
    return isinstance(function, FunctionType) and _codes().get(function.__code__) == name


def _key(grouping: Any, call: Call) -> Expression:
    """The key that a `GroupBy` makes: a field, or a named tuple of several."""
    if type(grouping) is not core.GroupBy:
        msg = f"groups by {type(grouping).__name__}"
        raise Unlowerable(msg)
    held = vars(grouping)
    names, exprs = zip(*held["_key_fields"], strict=True)
    if len(exprs) == 1 and not held["_force_tuple_keys"]:
        return call(exprs[0])
    return _record("Key", names, list(map(call, exprs)))


def _named(held: dict[str, Any], call: Call) -> Expression:
    if not _is(held["key_type"], "type"):
        msg = "makes keys of an unknown class"
        raise Unlowerable(msg)
    names: Any = closure_of(held["key_type"])["field_names"]
    return _record("Key", names, list(map(call, held["key_exprs"])))


def _list(held: dict[str, Any], call: Call) -> Expression:
    items = tuple(map(call, held["value_exprs"]))
    return Construct(items, FixedList(tuple(item.shape for item in items)))


def _record(name: str, names: Sequence[str], items: list[Expression]) -> Expression:
    """A named tuple of the class that Beam makes for these names, in any process the same."""
    names = tuple(names)
    made = core._dynamic_named_tuple(name, names)  # noqa: SLF001 (raises as it would for a row)
    shapes = tuple(item.shape for item in items)
    if made._fields != names or len(items) != len(names):
        msg = f"makes {len(names)} fields of {len(items)}"
        raise Unlowerable(msg)
    return build.construct(
        items, RecordShape(name, names, shapes, ClassFound.DYNAMIC, is_tuple=True)
    )


def _expressions(given: Sequence[object]) -> list[Expression]:
    return [each for each in given if isinstance(each, Expression)]


def _items(node: Expression) -> tuple[Expression, ...]:
    """The items of a key, or of what combines gave: both are tuples."""
    shape = node.shape
    plain = isinstance(shape, ScalarShape | FixedList | DictShape)
    if plain or not isinstance(node, Construct) or (
        isinstance(shape, RecordShape) and not shape.is_tuple
    ):
        msg = f"adds {shape} to a tuple"
        raise Unlowerable(msg)
    return node.items
