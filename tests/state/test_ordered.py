from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.ordered import OrderedNames

NAMES = st.integers(0, 400).map(lambda number: number.to_bytes(2, "big"))
STEPS = st.lists(
    st.tuples(st.just("add"), st.sets(NAMES, max_size=40))
    | st.tuples(st.just("discard"), st.sets(NAMES, max_size=10))
    | st.tuples(st.just("walk"), st.tuples(NAMES, NAMES)),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([2, 8, 512]))
def test_it_is_a_sorted_set(steps: list[Any], piece: int) -> None:
    import headrace.state.ordered as module

    before, module._PIECE = module._PIECE, piece
    try:
        model: set[bytes] = set()
        names = OrderedNames()
        for step, given_names in steps:
            if step == "add":
                new = [name for name in given_names if name not in model]
                names.add(new)
                model.update(new)
            elif step == "discard":
                for name in given_names:
                    names.discard(name)
                    model.discard(name)
            else:
                start, end = given_names
                inside = sorted(name for name in model if start <= name < end)
                assert list(names.walk(start, end)) == inside
                assert names.some(start, end, 3) == inside[:3]
            assert len(names) == len(model)
            assert list(names) == sorted(model)
    finally:
        module._PIECE = before


def test_a_walk_meets_every_name_that_stays_while_others_go() -> None:
    every = [number.to_bytes(2, "big") for number in range(3000)]
    names = OrderedNames()
    names.add(every)
    met = []
    for name in names.walk(b"", b"\xff"):
        met.append(name)
        names.discard(name)
    assert met == every
    assert len(names) == 0


def test_one_name_more_is_placed_without_sorting_all() -> None:
    names = OrderedNames()
    names.add([number.to_bytes(4, "big") for number in range(0, 100_000, 2)])
    pieces = names._pieces[:]
    names.add([(777).to_bytes(4, "big")])
    # The pieces are the same objects: only the one that took the name has changed.
    assert all(one is other for one, other in zip(pieces, names._pieces, strict=True))
    assert names.some((776).to_bytes(4, "big"), b"\xff", 3) == [
        number.to_bytes(4, "big") for number in (776, 777, 778)
    ]
