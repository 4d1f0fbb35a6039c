"""How deep user code may recurse, and that it is so only where the stack is deep enough."""

from __future__ import annotations

import json
import sys

import pytest

from headrace.worker.entry import RowQueue, _in_thread


def test_the_limit_is_raised_for_the_stages_and_put_back_for_everyone_else() -> None:
    seen: list[int] = []

    def work(output: RowQueue) -> None:
        seen.append(sys.getrecursionlimit())
        output.send(None)  # the end

    before = sys.getrecursionlimit()
    assert list(_in_thread(work)) == []
    assert seen[0] >= 100_000
    assert sys.getrecursionlimit() == before
    with pytest.raises(RecursionError):  # with the raised limit the process would crash here
        json.loads("[" * 100_000)
