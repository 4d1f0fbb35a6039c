"""Rows of two sides that meet, in parts of any size, against loops over lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.shapes import INT, TupleShape
from headrace.worker.batched.keyed_rows import KeyedRows, Pairing
from headrace.worker.columns.values import of_objects

KEYS = st.integers(-2, 3)
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 9)), min_size=1, max_size=30)


@given(ROWS, ROWS, st.integers(1, 40))
def test_pairs_are_those_of_loops_over_the_lists_of_each_key(
    outer: list[tuple[int, int]], inner: list[tuple[int, int]], step: int
) -> None:
    shape = TupleShape((INT, INT))
    parts = [of_objects(rows, shape) for rows in (outer, inner)]
    groups = KeyedRows([part for part in parts if part is not None])
    assert len(groups) == len({key for key, _ in (*outer, *inner)})
    sides = [groups.side(i, None, part.part(1)) for i, part in enumerate(groups.parts)]
    pairing = Pairing(*sides)
    ends = pairing.ends()
    made = []
    for start in range(0, int(ends[-1]), step):
        rows = pairing.rows(ends, start, min(start + step, int(ends[-1])))
        found = [side.keys.take(at).objects() for side, at in zip(sides, rows, strict=True)]
        assert found[0] == found[1]
        values = [side.values.take(at).objects() for side, at in zip(sides, rows, strict=True)]
        made += list(zip(found[0], *values, strict=True))
    keys = list(dict.fromkeys(key for key, _ in (*outer, *inner)))
    assert made == [
        (key, a, b)
        for key in keys
        for other, a in outer if other == key
        for another, b in inner if another == key
    ]


@given(ROWS, st.sets(st.integers(0, 29)))
def test_some_rows_of_a_part_keep_their_order_within_a_key(
    rows: list[tuple[int, int]], chosen: set[int]
) -> None:
    part = of_objects(rows, TupleShape((INT, INT)))
    assert part is not None
    places = np.array(sorted(place for place in chosen if place < len(rows)), np.int64)
    side = KeyedRows([part]).side(0, places, part.part(1))
    keys = list(dict.fromkeys(key for key, _ in rows))
    wanted = sorted((rows[place] for place in places), key=lambda row: keys.index(row[0]))
    assert list(zip(side.keys.objects(), side.values.objects(), strict=True)) == wanted
    assert side.counts.tolist() == [sum(rows[p][0] == key for p in places) for key in keys]
