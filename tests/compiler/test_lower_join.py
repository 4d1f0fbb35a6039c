"""Which steps behind a GroupByKey are loops that columns can follow, and in which words the others
are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest

from headrace.compiler.lower.join import Group, lower_group
from headrace.compiler.lower.one_step import NotLowered
from headrace.plan.shapes import INT, TEXT, TupleShape

SIDES = Group(key=INT, sides={"a": INT, "b": TEXT}, is_collected=True)
PLAIN = Group(key=INT, values=TupleShape((INT, TEXT)))
LIMIT = 3


def told(transform: Any, group: Group = SIDES) -> str:
    made = lower_group(transform.fn, group, transform.args, transform.kwargs)
    return f"not: {made.reason}" if isinstance(made, NotLowered) else str(made)


def nested(group: Any) -> Iterator[Any]:
    """Documented."""
    key, sides = group
    for a in sides["a"]:
        twice = a + a
        for b in sides["b"]:
            yield key, twice, b


def some(group: Any, limit: int = LIMIT) -> Iterator[Any]:
    key, sides = group
    left, right = sides["a"], list(sides["b"])
    for b in right:
        for a in left:
            if a > limit and b != "":
                yield key * a, b


def windowed(key: int, sides: Any, w: Any = beam.DoFn.WindowParam) -> Any:
    start = w.start.micros
    return [(key, start, b) for a in sides["a"] for b in sides["b"] if a < w.end.micros]


class Meets(beam.DoFn):  # type: ignore[misc]
    def __init__(self, by: int) -> None:
        self._by = by

    def process(self, element: Any) -> Iterator[Any]:
        for a in element[1]["a"]:
            yield element[0], a * self._by


def test_loops_over_two_sides_are_what_one_turn_gives() -> None:
    assert told(beam.FlatMap(nested)) == "(key, (a + a), b), for each of 'a' and 'b'"
    assert told(beam.FlatMap(some)) == (
        "((key * a), b) if ((a > 3) and (b != '')), for each of 'b' and 'a'"
    )
    assert told(beam.FlatMap(some, limit=7)) == (
        "((key * a), b) if ((a > 7) and (b != '')), for each of 'b' and 'a'"
    )
    assert told(beam.FlatMapTuple(windowed)) == (
        "(key, window.start.micros, b) if (a < window.end.micros), for each of 'a' and 'b'"
    )


def test_one_loop_is_enough_over_a_side_or_over_the_values_of_a_group() -> None:
    assert told(beam.ParDo(Meets(5))) == "(key, (a * 5)), for each of 'a'"
    made = beam.FlatMapTuple(lambda k, found: ((k, n, text) for n, text in found))
    assert told(made, PLAIN) == "(key, value[0], value[1]), for each of its values"


def counting(group: Any) -> Iterator[Any]:
    n = 0
    for a in group[1]["a"]:
        n = n + a
        yield group[0], n


def dividing(group: Any) -> Iterator[Any]:
    key, sides = group
    share = 100 // key
    for a in sides["a"]:
        yield share, a


def outside(group: Any) -> Iterator[Any]:
    key, sides = group
    yield key, 0
    for a in sides["a"]:
        yield key, a


def after(group: Any) -> Iterator[Any]:
    key, sides = group
    for a in sides["a"]:
        yield key, a
    yield key, 0


def leaving(group: Any) -> Iterator[Any]:
    for a in group[1]["a"]:
        if a > 3:
            return
        yield a


def asking(group: Any) -> Iterator[Any]:
    key, sides = group
    if key:
        key = 1
    for a in sides["a"]:
        yield key, a


def unequal(group: Any) -> Iterator[Any]:
    for a in group[1]["a"]:
        for b in range(a):
            yield a, b


def thrice(group: Any) -> Iterator[Any]:
    for a in group[1]["a"]:
        for other in group[1]["a"]:
            yield a, other


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (beam.FlatMap(counting), "keeps n from turn to turn"),
        (beam.FlatMap(dividing), "may raise before its loop, or gives something there"),
        (beam.FlatMap(outside), "may raise before its loop, or gives something there"),
        (beam.FlatMap(after), "has no loop over the values of its groups"),
        (beam.FlatMap(leaving), "returns out of its loop"),
        (beam.FlatMap(asking), "does more than begin before its loop"),
        (beam.FlatMap(unequal), "loops over something else than the values of its groups"),
        (beam.FlatMap(thrice), "has more loops than a join of two sides"),
        (beam.FlatMap(lambda g: [a for a in sorted(g[1]["a"])]), "loops over something else"),
        (beam.FlatMap(lambda g: [a for a in g[1]["c"]]), "loops over something else"),
        (beam.FlatMap(lambda g: [a for a in g[1]]), "loops over something else"),
        (beam.FlatMap(lambda g: [g[0]]), "has no loop over the values of its groups"),
        (beam.Map(lambda g: [(g[0], a) for a in g[1]["a"]]), "takes each group as a whole"),
    ],
)
def test_what_is_more_than_loops_stays_with_objects(transform: Any, reason: str) -> None:
    assert told(transform).startswith(f"not: {reason}")


def test_a_side_of_which_nothing_is_known_is_not_followed() -> None:
    assert told(beam.FlatMap(nested), Group(key=INT, sides=SIDES.sides)).startswith("not: loops")
    assert told(beam.FlatMap(lambda g: [a for a in g[1]]), Group(key=INT)).startswith("not: loops")
