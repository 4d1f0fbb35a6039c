"""Files are cut and dealt out to tasks: every byte once, and about as many to each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.sources.own_batches import LEAST_PART_BYTES, MOST_PART_BYTES, dealt, in_tasks

_SIZES = st.lists(st.integers(0, 5 * MOST_PART_BYTES), max_size=30)


@given(_SIZES, st.integers(1, 9))
def test_every_byte_is_in_one_part_and_no_task_has_much_more_than_another(
    sizes: list[int], tasks: int
) -> None:
    files = [(f"/in/{n}", size) for n, size in enumerate(sizes)]
    found = dealt(files, tasks)
    assert len(found) <= tasks
    assert all(found)
    parts = sorted((p for mine in found for p in mine), key=lambda p: (p.path, p.start))
    for path, size in files:
        mine = [part for part in parts if part.path == path]
        assert [part.size for part in mine] == [size] * len(mine)
        assert mine[0].start == 0
        ends = [part.start + part.length for part in mine]
        assert ends == [part.start for part in mine[1:]] + [size]
    loads = [sum(part.length for part in mine) for mine in found]
    if loads:
        assert max(loads) - min(loads) <= max(part.length for part in parts)


def test_a_large_file_is_cut_for_all_tasks_and_a_small_one_is_not() -> None:
    assert [len(mine) for mine in dealt([("/in/a", 64 << 20)], 4)] == [1, 1, 1, 1]
    assert len(dealt([("/in/a", LEAST_PART_BYTES)], 4)) == 1


def test_no_files_are_no_tasks() -> None:
    assert dealt([], 4) == ()
    assert in_tasks([], 4) == ()
