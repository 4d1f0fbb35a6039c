"""Lists, dicts and records, and looking into them: columns give what Python gives, or nothing."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pytest

from headrace.compiler.lower.one_step import NotLowered, lower
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.expressions import Lowered
from headrace.plan.shapes import DictShape, Shape
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import of_objects
from tests.compiler.lower_exact import columns_of, same


class Bid(NamedTuple):
    price: int
    size: int


@dataclasses.dataclass
class Offer:
    price: int
    size: int


class Sly(NamedTuple):
    """A named tuple that is looked into by methods of its own."""

    price: int
    size: int

    def __contains__(self, value: object) -> bool:
        return value == "sly"

    def __add__(self, other: Any) -> Any:
        return other


class Slyer(Bid):
    """One whose fields are told in another way."""

    def _asdict(self) -> dict[str, Any]:
        return {"sly": 1}


DEFAULTS = {"price": 0, "unit": "eur"}
HELD = {"price": 0}
ROWS = [(1, 2), (7, 0), (-3, 2), (2**62, 4)]


def made(function: Any, hint: Any) -> Lowered:
    shape = shape_of_hint(hint)
    assert shape is not None
    found = lower(beam.Map(function).fn, shape)
    assert isinstance(found, Lowered), found
    return found


def held(function: Callable[[Any], Any], hint: Any, rows: list[Any]) -> None:
    """Hold a function on columns against Python; where it raises, rows have to be handed back."""
    lowered = made(function, hint)
    outcome = kernel_of(lowered)(columns_of(rows, lowered.shape))
    back = set() if outcome.back is None else set(outcome.back.tolist())
    for place, (row, found) in enumerate(zip(rows, outcome.values.objects(), strict=True)):
        try:
            expected = function(row)
        except Exception:  # noqa: BLE001 (whatever it raises)
            assert place in back
            continue
        assert place in back or same(found, expected), (found, expected)


LOWERED: dict[str, Callable[[Any], Any]] = {
    "dict": lambda b: {"price": b.price, "size": b.size},
    "nested": lambda b: {"a": [b.price, {"b": b.size}], "c": (b, {"d": b})},
    "item of a dict": lambda b: {"price": b.price, "x": 1 // b.size}["price"],
    "dict of constants": lambda b: (b.price, {"a": 1}, [2]),
    "merged": lambda b: {**DEFAULTS, "price": b.price, "total": b.price // b.size},
    "merged call": lambda b: dict(DEFAULTS)["unit"],
    "what is overwritten": lambda b: {"a": 1 // b.size, **{"a": b.price}},
    "get": lambda b: {"a": 1 // b.size}.get("b", b.price),
    "get none": lambda b: ({"a": b.size}.get("b"), b.price),
    "get there": lambda b: {"a": b.price}.get("a", 1 // b.size),
    "two keys": lambda b: {"a": b.price} if b.size else {"a": 3},
    "in a dict": lambda b: ("a" in {"a": 1 // b.size}, "b" in {"a": b.price}),
    "length": lambda b: (len({"a": 1 // b.size}), len([b.price, 1]), len((1, b))),
    "list": lambda b: [b.price, b.size],
    "item of a list": lambda b: [b.price, 1 // b.size][0],
    "part of a list": lambda b: [b.price, 1 // b.size, 3][::2],
    "list of a tuple": lambda b: (list((b.price, 2)), tuple([b.size])),
    "keys": lambda b: (list({"a": b.price, "b": 1 // b.size}), ",".join({"a": b.price})),
    "or": lambda b: ({"a": b.price} or 1, (b.price,) or 1, [] or b.size),  # type: ignore[unreachable]
    "and": lambda b: ([1 // b.size] and b.price, () and b.price),  # type: ignore[unreachable]
    "truth": lambda b: (not {"a": 1 // b.size}, bool([]), bool([b.price])),
    "chosen by a list": lambda b: b.price if [1 // b.size] else 0,
    "attrgetter": operator.attrgetter("price"),
}
OF_TUPLES: dict[str, Callable[[Any], Any]] = {
    "itemgetter": operator.itemgetter(1),
    "itemgetter of two": operator.itemgetter(1, 0),
    "itemgetter of three": operator.itemgetter(1, 0, -1),
    "in": lambda b: 7 in b,
    "as a list": lambda b: list(b),
}


@pytest.mark.parametrize("hint", [Bid, Offer], ids=["named tuple", "dataclass"])
@pytest.mark.parametrize("function", LOWERED.values(), ids=LOWERED)
def test_lists_and_dicts_are_what_python_makes(function: Any, hint: Any) -> None:
    held(function, hint, [hint(*row) for row in ROWS])


@pytest.mark.parametrize("function", OF_TUPLES.values(), ids=OF_TUPLES)
@pytest.mark.parametrize("hint", [Bid, tuple[int, int]], ids=["named tuple", "tuple"])
def test_tuples_are_looked_into_as_python_does(function: Any, hint: Any) -> None:
    make = Bid if hint is Bid else lambda *row: row
    held(function, hint, [make(*row) for row in ROWS])


def test_fields_become_a_dict_by_the_methods_for_that() -> None:
    held(lambda b: {**b._asdict(), "more": 1}, Bid, [Bid(*row) for row in ROWS])
    held(lambda b: dataclasses.asdict(b), Offer, [Offer(*row) for row in ROWS])


REFUSED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "in of a dataclass": (Offer, lambda b: 7 in b),
    "a tuple of a dataclass": (Offer, lambda b: tuple(b)),
    "in by a method": (Sly, lambda b: 7 in b),
    "added by a method": (Sly, lambda b: b + (1,)),
    "a dict by a method": (Slyer, lambda b: b._asdict()),
    "a key that is not there": (Bid, lambda b: {"a": b.price}["b"]),
    "an index that is not there": (Bid, lambda b: [b.price][3]),
    "a field of a dict": (Bid, lambda b: {"a": b.price}.a),  # type: ignore[attr-defined]
    "a list filled in": (Bid, lambda b: "%s" % [b.price]),
    "a dict filled in": (Bid, lambda b: "%(a)s" % {"a": b.price}),  # noqa: UP031 (the same)
    "keys of several kinds": (Bid, lambda b: {"a": b.price} if b.size else {"b": 1}),
    "a dict that others hold": (Bid, lambda b: (b.price, HELD)),
    "several lengths": (Bid, lambda b: [b.price] if b.size else []),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_python_would_not_find_so_is_left_to_it(name: str) -> None:
    hint, function = REFUSED[name]
    shape = shape_of_hint(hint)
    if shape is not None:  # else nothing of its elements is known at all
        assert isinstance(lower(beam.Map(function).fn, shape), NotLowered)


def test_a_dict_is_a_column_for_each_key_only_if_it_has_just_these_keys() -> None:
    found = made(LOWERED["dict"], Bid)
    shape: Shape = found.result
    assert isinstance(shape, DictShape) and str(shape) == "{'price': int, 'size': int}"
    good = [{"price": 1, "size": 2}, {"price": 3, "size": 4}]
    assert columns_of(good, shape).objects() == good

    class Text(str):
        __slots__ = ()

    class Held(dict[str, Any]):
        pass

    for bad in (
        {"size": 2, "price": 1}, {"price": 1}, {"price": 1, "size": 2, "x": 3},
        {Text("price"): 1, "size": 2}, Held(price=1, count=2), {"price": True, "size": 2}, (1, 2),
    ):  # fmt: skip
        assert of_objects([*good, bad], shape) is None
    assert columns_of([], shape).objects() == []


def test_a_dict_is_looked_into_by_the_next_step() -> None:
    found = made(LOWERED["merged"], Bid)
    after = lower(beam.Map(lambda row: (row["unit"], row.get("total"), len(row))).fn, found.result)
    assert str(after) == "(x['unit'], x['total'], 3)"
    assert isinstance(lower(beam.MapTuple(lambda *keys: keys).fn, found.result), NotLowered)
    assert isinstance(lower(beam.Map(lambda row: row.unit).fn, found.result), NotLowered)
